"""Races of whole models: heed's side is an example's model in a library, a peer's runs in the same process, turn by turn.  For each
the time of a cold program too, and the memory it takes at most."""

import json
import os
import statistics
import sys
import time
from argparse import ArgumentParser

TURNS, BRIEF_TURNS, SLICE = 9, 3, 0.05
LONG = 1.0  # a call of so many seconds is no shorter for a neighbour's moment: fewer turns
COLD_STARTS = 5


def arguments():
    parser = ArgumentParser()
    parser.add_argument("library", help="heed's side, a library")
    parser.add_argument("program", help="heed's side, a program")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--filter", default="")
    parser.add_argument("--records", default="")
    parser.add_argument("--short", action="store_true")
    return parser.parse_args()


def seconds_of(call, times):
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


class Side:
    def __init__(self, call, threads):
        self._call, self._threads, self.samples = call, threads, []
        call()
        once = seconds_of(call, 1)
        self._times = max(1, int(SLICE / once))
        self.is_long = once > LONG

    def sample(self):
        """The other side's threads spin for a while before they sleep, on CPUs that this side's want."""
        if self._threads > 1:
            time.sleep(0.02)
        if not self.is_long:
            self._call()  # has what the other side threw out of the caches brought back
        self.samples.append(seconds_of(self._call, self._times))
        return self.samples[-1]


class Records:
    """A line for each race, on the screen and in the file that report.py reads."""

    def __init__(self, options, isa):
        self._file, self._threads, self._isa, self._brief = options.records, options.threads, isa, options.short

    def race(self, names, heed, peer, error):
        """names: group, work, peer, version, variant, flops.  Results have been compared: `error` apart."""
        sides = Side(heed, self._threads), Side(peer, self._threads)
        few = self._brief or any(side.is_long for side in sides)
        ratios = []
        for turn in range(BRIEF_TURNS if few else TURNS):
            if turn >= BRIEF_TURNS and statistics.median(ratios) > 2:
                break  # settled
            first = sides[0].sample()
            ratios.append(sides[1].sample() / first)
        self.record(names, [statistics.median(side.samples) for side in sides], ratios, error)

    def record(self, names, figures, ratios, error=0, unit="s"):
        ratio = statistics.median(ratios)
        entry = {**names, "isa": self._isa, "threads": self._threads, "heed_seconds": figures[0], "peer_seconds": figures[1]}
        entry.update(ratio=ratio, least=min(ratios), most=max(ratios), error=error, unit=unit)
        print(
            f"{names['group']:16} {names['work']:22} {names['variant']:28} {figures[1]:9.3g} {unit}, heed {figures[0]:9.3g} {unit}:"
            f" {ratio:6.2f} ({min(ratios):.2f}, {max(ratios):.2f})",
            flush=True,
        )
        if self._file:
            with open(self._file, "a", encoding="utf-8") as out:
                out.write(json.dumps(entry) + "\n")


def cold(command, text):
    """Seconds from start to end of a program, and the bytes that it had in memory at most."""
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    start = time.perf_counter()
    nothing = os.open(os.devnull, os.O_WRONLY)
    child = os.posix_spawn(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_DUP2, nothing, 1)]
    )
    os.close(reading)
    os.close(nothing)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: ended with status {status}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def race_cold(records, names, heed, peer, text, brief):
    """Programs from start to end, each with files that have been read before."""
    for command in (heed, peer):
        cold(command, text)
    runs = [(cold(heed, text), cold(peer, text)) for _ in range(1 if brief else COLD_STARTS)]
    for index, (work, unit) in enumerate((("first result", "s"), ("peak memory", "B"))):
        figures = [statistics.median(run[side][index] for run in runs) for side in (0, 1)]
        records.record({**names, "work": work}, figures, [run[1][index] / run[0][index] for run in runs], unit=unit)
