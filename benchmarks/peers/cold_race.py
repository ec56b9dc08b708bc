"""Two programs from start to end, heed's and a peer's, each with files that have been read before: seconds, and bytes of memory at
most.  Called by model_race.py, with what to do as JSON."""

import json
import os
import statistics
import sys
import time

import model_race

STARTS = 5


def run(command, text):
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    nothing = os.open(os.devnull, os.O_WRONLY)
    streams = [(os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_DUP2, nothing, 1), (os.POSIX_SPAWN_DUP2, nothing, 2)]
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=streams)
    os.close(reading)
    os.close(nothing)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: ended with status {status}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def main():
    task = json.loads(sys.argv[1])
    names, commands, text = task["names"], task["commands"], task["text"].encode()
    records = model_race.Records(**task["records"])
    for command in commands:
        run(command, text)
    turns = [[run(command, text) for command in commands] for _ in range(1 if records.brief else STARTS)]
    for index, (work, unit) in enumerate((("first result", "s"), ("peak memory", "B"))):
        figures = [statistics.median(turn[side][index] for turn in turns) for side in (0, 1)]
        records.record({**names, "work": work}, figures, [peer[index] / heed[index] for heed, peer in turns], unit=unit)


main()
