"""Races of whole models: heed's side is an example's model in a library, a peer's runs in the same process, turn by turn, and each
result is checked before it is timed."""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser

TURNS, BRIEF_TURNS, SLICE = 9, 3, 0.05
PATIENCE = 4  # so many times as many turns, until enough are quiet
SPINNING = 0.1  # ONNX Runtime's threads spin for 2^20 pauses, 66 ms here
LONG = 1.0  # a call of so many seconds is no shorter for a neighbour's moment: fewer turns


def arguments():
    parser = ArgumentParser()
    parser.add_argument("library", help="heed's side, a library")
    parser.add_argument("program", nargs="?", help="heed's side, a program")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--filter", default="")
    parser.add_argument("--records", default="")
    parser.add_argument("--short", action="store_true")
    return parser.parse_args()


def quiet_of(library):
    """cores_are_quiet of ../quiet.h."""
    function = ctypes.CDLL(library).cores_are_quiet
    function.restype = ctypes.c_bool
    return function


def seconds_of(call, times):
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


class Side:
    def __init__(self, call, threads, quiet):
        self._call, self._threads, self._quiet = call, threads, quiet
        call()
        once = seconds_of(call, 1)
        self._times = max(1, int(SLICE / once))
        self.is_long = once > LONG

    def sample(self):
        """Seconds, and whether the cores were quiet before and after.  The other side's threads spin for a while before they sleep,
        on CPUs that this side's want, and so would those that look whether all cores are quiet before."""
        if self._threads > 1:
            time.sleep(SPINNING)
        if not self.is_long:
            self._call()  # has what the other side threw out of the caches brought back
        before, seconds = self._quiet(1), seconds_of(self._call, self._times)
        return seconds, before and self._quiet(self._threads)


class Records:
    """A line for each race, on the screen and in the file that report.py reads."""

    def __init__(self, file, threads, isa, brief, quiet=None):
        """quiet(threads): whether the cores are at this moment; None where nobody asks."""
        self.file, self.threads, self.isa, self.brief, self.quiet = file, threads, isa, brief, quiet

    def race(self, names, heed, peer, error):
        """names: group, work, peer, version, variant, flops.  Results have been compared: `error` apart."""
        sides = Side(heed, self.threads, self.quiet), Side(peer, self.threads, self.quiet)
        few = self.brief or any(side.is_long for side in sides)
        wanted = BRIEF_TURNS if few else TURNS
        turns, quiet = [], []
        while len(quiet) < wanted and len(turns) < wanted * (1 if few else PATIENCE):
            (heed_seconds, heed_is_quiet), (peer_seconds, peer_is_quiet) = sides[0].sample(), sides[1].sample()
            turns.append((heed_seconds, peer_seconds))
            if heed_is_quiet and peer_is_quiet:
                quiet.append(turns[-1])
            if len(turns) == BRIEF_TURNS and statistics.median(peer / heed for heed, peer in turns) > 2:
                break  # settled
        counted = quiet if len(quiet) >= BRIEF_TURNS else turns
        figures = [statistics.median(turn[side] for turn in counted) for side in (0, 1)]
        self.record(names, figures, [peer / heed for heed, peer in counted], error, quiet=counted is quiet)

    def record(self, names, figures, ratios, error=0, unit="s", quiet=True):
        ratio = statistics.median(ratios)
        entry = {**names, "isa": self.isa, "threads": self.threads, "heed_seconds": figures[0], "peer_seconds": figures[1]}
        entry.update(ratio=ratio, least=min(ratios), most=max(ratios), error=error, unit=unit, quiet=quiet)
        print(
            f"{names['group']:16} {names['work']:22} {names['variant']:28} {figures[1]:9.3g} {unit}, heed {figures[0]:9.3g} {unit}:"
            f" {ratio:6.2f}{' ' if quiet else '?'}({min(ratios):.2f}, {max(ratios):.2f})",
            flush=True,
        )
        if self.file:
            with open(self.file, "a", encoding="utf-8") as out:
                out.write(json.dumps(entry) + "\n")

    def race_cold(self, names, heed, peer, text):
        """Two commands from start to end, in a process without our memory: a child's counts from its parent's."""
        script = os.path.join(os.path.dirname(__file__), "cold_race.py")
        task = {"names": names, "commands": [heed, peer], "text": text, "records": {**vars(self), "quiet": None}}
        subprocess.run([sys.executable, script, json.dumps(task)], check=True)
