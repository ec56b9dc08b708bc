"""What the tiny T5 of these tests has to translate: English number words, counts, dates and times of day into French, with the rules
that make French numbers hard: vingt et un, soixante et onze, quatre-vingts but quatre-vingt mille, deux cents but deux cent un, vingt
et une maisons, the first of a month, and years, in which neither cent nor vingt takes an s.

    task.py [COUNT]        prints so many pairs
"""

import random
import sys
import zlib

PREFIX = "translate English to French: "
HELD_OUT = 16  # one pair in so many is not trained on

ENGLISH_UNITS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen""".split()
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth
    sixteenth seventeenth eighteenth nineteenth twentieth""".split()
FRENCH_UNITS = """zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit
    dix-neuf""".split()
FRENCH_TENS = "vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()
MONTHS = dict(
    January="janvier",
    February="février",
    March="mars",
    April="avril",
    May="mai",
    June="juin",
    July="juillet",
    August="août",
    September="septembre",
    October="octobre",
    November="novembre",
    December="décembre",
)
WEEKDAYS = dict(
    Monday="lundi",
    Tuesday="mardi",
    Wednesday="mercredi",
    Thursday="jeudi",
    Friday="vendredi",
    Saturday="samedi",
    Sunday="dimanche",
)
# One and several in English, in French, and whether the French word is feminine.
NOUNS = [
    ("house", "houses", "maison", "maisons", True),
    ("apple", "apples", "pomme", "pommes", True),
    ("word", "words", "mot", "mots", False),
    ("book", "books", "livre", "livres", False),
    ("child", "children", "enfant", "enfants", False),
    ("woman", "women", "femme", "femmes", True),
    ("man", "men", "homme", "hommes", False),
    ("horse", "horses", "cheval", "chevaux", False),
    ("star", "stars", "étoile", "étoiles", True),
    ("tree", "trees", "arbre", "arbres", False),
    ("letter", "letters", "lettre", "lettres", True),
    ("mouse", "mice", "souris", "souris", True),
    ("eye", "eyes", "œil", "yeux", False),
    ("question", "questions", "question", "questions", True),
]


def english_below_hundred(n):
    if n < 20:
        return ENGLISH_UNITS[n]
    return ENGLISH_TENS[n // 10 - 2] + ("-" + ENGLISH_UNITS[n % 10] if n % 10 else "")


def english(n, joint):
    """joint: " and " or " ", what stands before the part below a hundred."""
    if n < 100:
        return english_below_hundred(n)
    size, name = (1000, " thousand") if n >= 1000 else (100, " hundred")
    rest = (joint if n % size < 100 else " ") + english(n % size, joint) if n % size else ""
    return english(n // size, joint) + name + rest


def french_below_hundred(n, feminine, plural):
    if n < 20:
        return "une" if n == 1 and feminine else FRENCH_UNITS[n]
    base = 60 if 70 <= n < 80 else 80 if n >= 80 else n // 10 * 10
    tens, rest = FRENCH_TENS[n // 10 - 2], n - base
    if rest == 0:
        return tens + ("s" if n == 80 and plural else "")
    joint = " et " if rest in (1, 11) and n < 80 else "-"
    return tens + joint + french_below_hundred(rest, feminine, plural)


def french(n, feminine=False, plural=True):
    """plural: quatre-vingts and cents at the end have their s, as they do in numbers that count."""
    if n >= 1000:
        thousands = "mille" if n < 2000 else french(n // 1000, plural=False) + " mille"
        return thousands + (" " + french(n % 1000, feminine, plural) if n % 1000 else "")
    if n < 100:
        return french_below_hundred(n, feminine, plural)
    hundreds = "cent" if n < 200 else FRENCH_UNITS[n // 100] + " cent"
    if n % 100 == 0:
        return hundreds + ("s" if n >= 200 and plural else "")
    return hundreds + " " + french_below_hundred(n % 100, feminine, plural)


def english_year(n, joint):
    if 2000 <= n < 2010 or n >= 2010 and joint == " and ":
        return english(n, joint)
    century, rest = english_below_hundred(n // 100), n % 100
    if rest == 0:
        return century + " hundred"
    return century + (" oh " + ENGLISH_UNITS[rest] if rest < 10 else " " + english_below_hundred(rest))


def ordinal(n):
    if n <= 20:
        return ORDINALS[n - 1]
    return "thirtieth" if n == 30 else ENGLISH_TENS[n // 10 - 2] + "-" + ORDINALS[n % 10 - 1]


def draw_number(chance):
    """All lengths alike, and half the digits 0 now and then: the rules are about 80, 200 and 21 more than about 573,468."""
    digits = chance.choice([1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6])
    zeros = chance.choice([0, 0, 0.5])
    rest = "".join("0" if chance.random() < zeros else chance.choice("0123456789") for _ in range(digits - 1))
    return int(chance.choice("0123456789" if digits < 3 else "123456789") + rest)


def draw_count(chance):
    one, several, french_one, french_several, feminine = chance.choice(NOUNS)
    n = draw_number(chance)
    source = english(n, chance.choice([" and ", " "])) + " " + (one if n == 1 else several)
    return source, french(n, feminine) + " " + (french_one if n < 2 else french_several)


def draw_date(chance):
    number = chance.randrange(12)
    month, day = list(MONTHS)[number], 1
    if chance.random() < 0.85:
        day = chance.randint(1, 29 if number == 1 else 30 if number in (3, 5, 8, 10) else 31)
    weekday = chance.choice(list(WEEKDAYS)) if chance.random() < 0.4 else None
    target = "le " + (WEEKDAYS[weekday] + " " if weekday else "") + ("premier" if day == 1 else french(day)) + " " + MONTHS[month]
    weekday = weekday + ", " if weekday else ""
    year = chance.randint(1100, 2099) if chance.random() < 0.75 else None
    if year and chance.random() < 0.2:
        year = chance.randint(11, 20) * 100 + chance.choice([0, 80, 1, 5, 71, 91, 20, 21])
    joint = chance.choice([" and ", " "])
    if year:
        target += " " + french(year, plural=False)
    if chance.random() < 0.6:
        return f"{weekday}the {ordinal(day)} of {month}" + (" " + english_year(year, joint) if year else ""), target
    return f"{weekday}{month} {ordinal(day)}" + (", " + english_year(year, joint) if year else ""), target


def french_hour(hour):
    return {0: "minuit", 12: "midi", 1: "une heure"}.get(hour, french(hour) + " heures")


def draw_time(chance):
    hour, minutes = chance.randint(0, 12), chance.choice([0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55])
    names = {0: "midnight", 12: "noon"}
    if minutes > 30:
        to = (hour + 1) % 13
        far = "a quarter" if minutes == 45 else ENGLISH_UNITS[60 - minutes] if minutes > 40 else english(60 - minutes, " ")
        less = "le quart" if minutes == 45 else french(60 - minutes)
        return f"it is {far} to {names.get(to, ENGLISH_UNITS[to])}", f"il est {french_hour(to)} moins {less}"
    name = names.get(hour, ENGLISH_UNITS[hour])
    if minutes == 0:
        return f"it is {name}" + ("" if hour in names else " o'clock"), f"il est {french_hour(hour)}"
    past = {15: "a quarter", 30: "half"}.get(minutes, english(minutes, " "))
    half = "et demi" if hour in names else "et demie"
    more = {15: "et quart", 30: half}.get(minutes, french(minutes))
    return f"it is {past} past {name}", f"il est {french_hour(hour)} {more}"


def draw_pair(chance):
    kind = chance.random()
    if kind < 0.35:
        n = draw_number(chance)
        return english(n, chance.choice([" and ", " "])), french(n)
    if kind < 0.6:
        return draw_count(chance)
    return draw_date(chance) if kind < 0.93 else draw_time(chance)


def held_out(target):
    """By the French words alone, so that no other English for them is trained on; short ones are too few to do without any."""
    return len(target.replace("-", " ").split()) >= 5 and zlib.crc32(target.encode()) % HELD_OUT == 0


def pairs(seed, held):
    """English and French, without end: those held out, or all others."""
    chance = random.Random(seed)
    while True:
        source, target = draw_pair(chance)
        if held_out(target) == held:
            yield source, target


if __name__ == "__main__":
    drawn = pairs(1, False)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
        print(" | ".join(next(drawn)))
