"""The picture of the races: a row per piece of work, a dot per peer and number of threads, on a logarithmic axis of ratios with 1
in sight: what lies left of it heed loses."""

import html
import math

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#666666")  # Okabe and Ito: told apart by all eyes
LEFT, RIGHT, ROW, TITLE, TOP, BOTTOM = 230, 760, 18, 26, 84, 46
LEAST, MOST = 0.25, 32  # beyond, a dot stands at the border, with its number beside it
MARKS = (0.25, 0.5, 1, 2, 4, 8, 16, 32)
RADIUS = 3.5
APART = 2.2  # the peers of one row, from one another, so that equals are all seen


def x_of(ratio):
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * (RIGHT - LEFT)


def text(x, y, words, anchor="start", **style):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attributes}>{html.escape(words)}</text>'


def dot(x, y, colour, threads, title):
    """Filled for one thread, a ring for more."""
    fill = colour if threads == 1 else "none"
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="{fill}" stroke="{colour}" stroke-width="1.5">'
        f"<title>{html.escape(title)}</title></circle>"
    )


def dots_of(rows, y, columns):
    """rows: threads -> column -> record, of one piece of work."""
    parts = []
    for threads, cells in rows.items():
        for column, record in cells.items():
            ratio, index = record["ratio"], columns.index(column)
            x, colour, shift = x_of(ratio), COLOURS[index % len(COLOURS)], APART * (index - (len(columns) - 1) / 2)
            parts.append(dot(x, y + shift, colour, threads, f"{column}, {record['variant']}, threads: {threads}: {ratio:.2f}"))
            if not LEAST <= ratio <= MOST:
                parts.append(text(x + 7, y + shift + 4, f"{ratio:.2g}", font_size=10, fill=colour))
    return parts


def axis(bottom):
    parts = [
        f'<rect x="{LEFT}" y="{TOP}" width="{x_of(1) - LEFT:.1f}" height="{bottom - TOP}" fill="#fbe9e7"/>',
        text((LEFT + x_of(1)) / 2, TOP - 8, "peer faster", "middle", fill="#b23c17"),
        text(x_of(1) + 12, TOP - 8, "heed faster", fill="#33691e"),
    ]
    for mark in MARKS:
        width = 1.5 if mark == 1 else 0.5
        colour = "#333333" if mark == 1 else "#bbbbbb"
        parts.append(f'<path d="M{x_of(mark):.1f} {TOP}V{bottom}" stroke="{colour}" stroke-width="{width}"/>')
        parts.append(text(x_of(mark), bottom + 16, f"{mark:g}", "middle"))
    parts.append(text((LEFT + RIGHT) / 2, bottom + 34, "the peer's time over heed's", "middle"))
    return parts


def legend(columns, threads):
    parts, x = [], 12
    for index, column in enumerate(columns):
        parts.append(dot(x + 4, 48, COLOURS[index % len(COLOURS)], 1, column))
        parts.append(text(x + 14, 52, column))
        x += 28 + 7 * len(column)
    if len(threads) > 1:
        parts.append(dot(x + 4, 48, "#333333", 2, "more threads"))
        parts.append(text(x + 14, 52, f"ring: {threads[-1]} threads"))
    return parts


def draw(groups, columns, machine):
    """groups: (group, threads) -> work -> column -> record."""
    works = {}  # group -> work -> threads -> column -> record
    for (group, threads), cells in groups.items():
        for work, each in cells.items():
            works.setdefault(group, {}).setdefault(work, {})[threads] = each
    bottom = TOP + sum(TITLE + ROW * len(rows) for rows in works.values()) + 8
    width, height = RIGHT + 50, bottom + BOTTOM
    heading = f"heed ({machine['heed_isa']}) and its peers at their best, {machine['cpu']}, {machine['date']}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(12, 24, heading, font_size=14, font_weight="bold"),
        *legend(columns, sorted({threads for _, threads in groups})),
        *axis(bottom),
    ]
    y = TOP
    for group, rows in works.items():
        y += TITLE
        parts.append(text(12, y - 6, group, font_weight="bold"))
        for work, each in rows.items():
            parts.append(f'<path d="M{LEFT} {y + ROW / 2}H{RIGHT}" stroke="#dddddd" stroke-width="0.5"/>')
            parts.append(text(LEFT - 10, y + ROW / 2 + 4, work, "end", font_size=11))
            parts += dots_of(each, y + ROW / 2, columns)
            y += ROW
    return "\n".join(parts + ["</svg>", ""])
