"""Tables and a picture of the races: report.py records.jsonl out.json out.svg.  Python's own library is enough."""

import json
import math
import platform
import statistics
import sys
from datetime import date

import picture

EVEN = 0.03  # a median of turns on a machine that others use too tells no less


def verdict(ratio):
    if ratio > 1 + EVEN:
        return "win"
    return "LOSS" if ratio < 1 - EVEN else "even"


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


UNITS = {"s": (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)), "B": (("MB", 1e6), ("kB", 1e3))}


def figure_text(figure, unit):
    name, size = next((each for each in UNITS[unit] if figure >= each[1]), UNITS[unit][-1])
    return f"{figure / size:.3g} {name}"


def column_of(record):
    """A peer that computes with 16-bit keys has a column of its own: it reads half as much."""
    return record["peer"] + (" f16" if " f16" in record["variant"] else "")


def best_of(records):
    """(group, threads) -> work -> column -> the record of the peer's fastest way."""
    groups = {}
    for record in records:
        works = groups.setdefault((record["group"], record["threads"]), {})
        columns = works.setdefault(record["work"], {})
        column = column_of(record)
        if column not in columns or record["ratio"] < columns[column]["ratio"]:
            columns[column] = record
    return groups


def print_group(group, threads, works, columns):
    columns = [column for column in columns if any(column in each for each in works.values())]
    print(f"\n{group}, {threads} thread{'s' if threads > 1 else ''}: the peer's best figure over heed's")
    print(f"{'':24}{'heed':>9}" + "".join(f"{column:>19}" for column in columns))
    for work, cells in works.items():
        heed = statistics.median(cell["heed_seconds"] for cell in cells.values())
        unit = next(iter(cells.values())).get("unit", "s")
        line = f"{work:24}{figure_text(heed, unit):>9}"
        for cell in map(cells.get, columns):
            mark = " " if not cell or cell["quiet"] else "?"
            line += f"{cell['ratio']:>14.2f}{mark}{verdict(cell['ratio']):4}" if cell else f"{'-':>14}     "
        print(line.rstrip())


def summarize(groups, columns):
    """A line per peer and number of threads, of calls: a program's start would outweigh them all."""
    lines = []
    for threads in sorted({threads for _, threads in groups}):
        for column in columns:
            ratios = [
                cells[column]["ratio"]
                for (group, count), works in groups.items()
                for cells in works.values()
                if count == threads and column in cells and not group.endswith("cold")
            ]
            if ratios:
                verdicts = [verdict(ratio) for ratio in ratios]
                lines.append(
                    {
                        "peer": column,
                        "threads": threads,
                        "wins": verdicts.count("win"),
                        "even": verdicts.count("even"),
                        "losses": verdicts.count("LOSS"),
                        "geometric_mean": round(math.exp(statistics.fmean(map(math.log, ratios))), 3),
                        "worst": round(min(ratios), 3),
                    }
                )
    return lines


def print_summary(lines):
    print(f"\n{'all work':24}{'threads':>9}{'wins':>7}{'even':>7}{'LOSSES':>8}{'mean':>8}{'worst':>8}")
    for line in lines:
        counts = f"{line['wins']:>7}{line['even']:>7}{line['losses']:>8}"
        print(f"{line['peer']:24}{line['threads']:>9}{counts}{line['geometric_mean']:>8.2f}{line['worst']:>8.2f}")
    print(f"even: within {EVEN:.0%}; mean: the geometric one; the picture and the other ways of each peer are in the files below")


def print_machine(machine, versions, records):
    print(f"\nheed ({machine['heed_isa']}) on {machine['cpu']}, {machine['date']}; " + ", ".join(map(" ".join, versions.items())))
    noisy = sum(not record["quiet"] for record in records)
    if noisy:
        print(f"WARNING: {noisy} of {len(records)} races, marked ?, had too few turns without something else on the same cores")


def main():
    source, json_file, svg_file = sys.argv[1:]
    with open(source, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    groups = best_of(records)
    columns = list(dict.fromkeys(map(column_of, records)))
    machine = {"cpu": cpu_name(), "date": date.today().isoformat(), "heed_isa": records[0]["isa"]}
    versions = {record["peer"]: record["version"] for record in records}
    print_machine(machine, versions, records)
    for (group, threads), works in groups.items():
        print_group(group, threads, works, columns)
    summary = summarize(groups, columns)
    print_summary(summary)
    with open(json_file, "w", encoding="utf-8") as out:
        json.dump({"machine": machine, "versions": versions, "summary": summary, "records": records}, out, indent=1)
    with open(svg_file, "w", encoding="utf-8") as out:
        out.write(picture.draw(groups, columns, machine))
    print(json_file, svg_file, sep="\n")


main()
