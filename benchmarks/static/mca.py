"""Asks llvm-mca how many cycles a CPU would take for a round of a loop.

It knows ports, latencies and the width of dispatch; of caches, branch prediction and the decoder it knows nothing: every load hits
L1.  Some models are not what was sold: apple-m1 is that of an older core with three vector units, sapphirerapids has one 512-bit
multiply-add a cycle, and skylake-avx512 pays for register moves that the CPU makes by renaming.
"""
import functools
import json
import os
import re
import shutil
import subprocess
from typing import NamedTuple

HOW_TO_GET = """bench-static needs llvm-mca and llvm-objdump of one LLVM, 19 or newer to know all of its CPUs: Debian llvm-19,
Fedora llvm, Homebrew llvm (then PATH="$(brew --prefix llvm)/bin:$PATH"), or https://apt.llvm.org"""


class Tools(NamedTuple):
    version: int
    mca: str
    objdump: str


class Prediction(NamedTuple):
    cycles: float  # for one round
    bound: float  # what ports and dispatch alone would allow
    port: str  # the one in use for most of the cycles


def find_tools():
    """The newest llvm-mca in PATH that has its llvm-objdump beside it; None if there is none."""
    found = []
    for folder in filter(os.path.isdir, os.environ.get("PATH", "").split(os.pathsep)):
        for name in os.listdir(folder):
            if not re.fullmatch(r"llvm-mca(-\d+)?", name):
                continue
            mca = os.path.realpath(os.path.join(folder, name))
            objdump = shutil.which(os.path.join(os.path.dirname(mca), "llvm-objdump"))
            if objdump:
                version = subprocess.run([mca, "--version"], check=True, capture_output=True, text=True).stdout
                found.append(Tools(int(re.search(r"version (\d+)", version).group(1)), mca, objdump))
    return max(found, default=None)


@functools.cache
def knows(mca, triple, cpu):
    """Aliases like apple-m1 are in no list of llvm-mca's, but it warns of names that it has never heard of."""
    command = [mca, "-mtriple=" + triple, "-mcpu=" + cpu]
    run = subprocess.run(command, input="nop\n", capture_output=True, text=True, check=False)
    return run.returncode == 0 and "not a recognized" not in run.stderr


def simulate(mca, triple, cpu, assembly, rounds):
    command = [mca, "-mtriple=" + triple, "-mcpu=" + cpu, "--json", f"-iterations={rounds}"]
    run = subprocess.run(command, input=assembly, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stderr}")
    return json.loads(run.stdout)


@functools.cache
def predict(mca, triple, cpu, assembly):
    """The cycles that each further round takes, once the loop is under way."""
    few, many = 100, 300
    first, last = (simulate(mca, triple, cpu, assembly, rounds) for rounds in (few, many))
    region = last["CodeRegions"][0]
    summaries = first["CodeRegions"][0]["SummaryView"], region["SummaryView"]
    cycles = (summaries[1]["TotalCycles"] - summaries[0]["TotalCycles"]) / (many - few)
    busy = {}
    for use in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if use["InstructionIndex"] == len(region["Instructions"]):  # the line of sums
            name = last["TargetInfo"]["Resources"][use["ResourceIndex"]]
            # one of several equal units: its number is a character here, not a digit
            busy[re.sub(r"\.([\0-\x1f])$", lambda unit: str(ord(unit.group(1))), name)] = use["ResourceUsage"]
    return Prediction(cycles, summaries[1]["BlockRThroughput"], max(busy, key=busy.get) if busy else "?")
