"""Predicts the speed of heed's inner loops from their machine code, for CPUs that are not there or not quiet.

Timings on a shared machine hide a change of a few per cent, and NEON cannot be timed on an x86 machine at all.  Here llvm-mca runs
the loops that the compiler made, as it left them in the objects, and the figures are the same every time.  They are compared with
those of bounds.txt, so that a spilled accumulator or an instruction too many is seen at once.
"""
import argparse
import functools
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from loops import Instruction, disassemble, hot_loop
from mca import HOW_TO_GET, find_tools, knows, predict


class Isa(NamedTuple):
    path: str
    triple: str
    cpus: tuple
    chains: int  # of multiply-adds that define a CPU's peak: more than its latency times its units, fewer than registers
    probes: tuple  # forms of the instruction, which a model may rate differently


ISAS = {
    "avx512": Isa("arch/x86/avx512.o", "x86_64", ("skylake-avx512", "sapphirerapids", "znver4"), 24,
                  ("vfmadd231ps %zmm0, %zmm1, %zmm{}",)),
    "avx512bf16": Isa("arch/x86/avx512bf16.o", "x86_64", ("cooperlake", "sapphirerapids", "znver4"), 24,
                      ("vdpbf16ps %zmm0, %zmm1, %zmm{}",)),
    "avx512vnni": Isa("arch/x86/avx512vnni.o", "x86_64", ("cascadelake", "icelake-server", "sapphirerapids", "znver4"), 24,
                      ("vfmadd231ps %zmm0, %zmm1, %zmm{}",)),
    "avxvnni": Isa("arch/x86/avxvnni.o", "x86_64", ("alderlake",), 14, ("vfmadd231ps %ymm0, %ymm1, %ymm{}",)),
    "avx2": Isa("arch/x86/avx2.o", "x86_64", ("haswell", "skylake", "znver3", "znver4"), 14, ("vfmadd231ps %ymm0, %ymm1, %ymm{}",)),
    "neon": Isa("arch/arm/neon.o", "aarch64", ("neoverse-n1", "neoverse-v1", "neoverse-v2", "apple-m1"), 24,
                ("fmla v{}.4s, v0.4s, v1.4s", "fmla v{}.4s, v0.4s, v1.s[0]")),
    "dotprod": Isa("arch/arm/dotprod.o", "aarch64", ("neoverse-n1", "neoverse-v1", "neoverse-v2", "apple-m1"), 24,
                   ("fmla v{}.4s, v0.4s, v1.4s",)),
}
FORMATS = "q8_0", "q4_0", "q5_0", "iq4_nl", "mxfp4", "q4_k", "q5_k", "q6_k"
# Functions of a kernel, what its hot loop has most of, and whether it stores anything, if there are loops of both kinds.
DOTS = {f"i8_{blocks}": (rf"i8_{blocks}_\d", Instruction.dot_products) for blocks in FORMATS}
# Of held tiles, where registers are many.
HELD = {f"{kernel}_held": (which[0].replace(r"\d", r"held_\d"), which[1]) for kernel, which in DOTS.items()}
CACHE = {kernel: (rf"{kernel}_\d", Instruction.dot_products) for kernel in ("i8_cache", "i8_cache_positive")}
KERNELS = {
    "score_whole": ("score_whole_tiles", Instruction.is_fma),
    "value_whole": (r"value_whole_\d", Instruction.is_fma, False),
    "value_beside": (r"value_whole_\d", Instruction.is_fma, True),
    "score_tile": (r"score_tile_\dx\d", Instruction.is_fma),
    "value_prefix": (r"value_prefix_\dx\d", Instruction.is_fma),
    "value_pieces": (r"value_pieces_\dx\d", Instruction.is_fma),
    "gemm_tile": (r"gemm_tile_\dx\d", Instruction.is_fma),
    "thin_words": (r"thin_words_\d+x\d", Instruction.is_fma),
    "in_order": (r"in_order_\dx\d", Instruction.is_fma),
    "thin_lanes": (r"lanes_\d", Instruction.is_fma),
    "exp_rows": ("exp_row_floats", Instruction.is_fma),
    "softmax_rows": ("softmax_rows_short", Instruction.is_fma),
    "softmax_beside": ("softmax_chunk_streamed", Instruction.is_fma),
    "pack_transposed": ("pack_transposed_f32", Instruction.is_shuffle),
    **DOTS,
    **HELD,
    **CACHE,
}


def without(kernels, *names):
    return {kernel: which for kernel, which in kernels.items() if kernel not in names}


# Tables that are another's but for these, or have others: where vectors are narrow, exponentials are apart, nothing is taken in
# order, a may be strips, and q8_0 has no held tiles; where registers are few, nothing has.
NARROW = {**without(KERNELS, "value_beside", "in_order", "i8_q8_0_held"), "gemm_strip": (r"gemm_strip_\dx\d", Instruction.is_fma)}
KERNELS_OF = {"neon": NARROW, "avx2": without(NARROW, *HELD), "avx512vnni": {**DOTS, **HELD, **CACHE}, "avxvnni": {**DOTS, **CACHE},
              "dotprod": without({**DOTS, **HELD, **CACHE}, "i8_q8_0_held"), "avx512bf16": {
    "pair_tile": (r"pair_tile_\dx\d", Instruction.is_fma),
    "pair_values": (r"pair_values_\dx\d", Instruction.is_fma, False),
    "pair_beside": (r"pair_values_\dx\d", Instruction.is_fma, True),
    "pair_thin": (r"word_rows_\d+", Instruction.is_fma),
    "pair_in_order": (r"pairs_in_order_bf16_\dx\d", Instruction.is_fma),
    "pair_bf16": (r"pairs_bf16_\d+x\d", Instruction.is_fma),
    "pair_i8": (r"pairs_i8_\d+x\d", Instruction.is_fma),
    "gemm_tile": (r"gemm_tile_\dx\d", Instruction.is_fma),
}}
STORES_SUMS = "in_order", "pair_in_order"
BOUNDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bounds.txt")
BOUNDS_HEAD = """\
# What bench_static.py predicted when these were recorded (make bench-static STATIC_FLAGS=--record): of products the share of the
# peak, which may not fall, of other loops the cycles for 16 elements, and of those of bytes for 64 products, which may not rise.
# Nor may, for any CPU, the instructions for a multiply-add, or for 64 products.  LLVM's models change with its versions, and
# compilers differ, so figures are compared with those of the same.
# llvm compiler isa loop cpu figure
"""
SLACK = 0.01  # of a figure, before it counts as worse than the recorded one: a scheduler's whim, not a spilled register
HEAD = f"{'isa':12}{'loop':18}{'cpu':16}{'cycles':>8}{'bound':>8}  {'by':14}{'fma':>4}{'instr/fma':>11}{'stack':>7}  figure"
SHARE, CYCLES, INSTRUCTIONS = "{:.3f} of peak", "{:.2f} cycles/16", "{:.3f} instructions/fma"
PRODUCTS, INSTRUCTIONS_OF_PRODUCTS = "{:.2f} cycles/64 products", "{:.3f} instructions/64 products"
ANY_CPU = "any"  # as instructions are counted for


class Figure(NamedTuple):
    """What a loop is judged by: of products the share of the peak, of others the cycles for 16 elements.  And the instructions for
    a multiply-add: no prediction knows the other hardware thread of a core, which takes about half of what the core lets through;
    then 24 instructions, 12 of them multiply-adds, take 1.1 to 1.3 times as long as 20 (Zen 3)."""
    value: float
    unit: str

    def text(self):
        return self.unit.format(self.value)

    def worse_than(self, recorded):
        return self.value < recorded * (1 - SLACK) if self.unit == SHARE else self.value > recorded * (1 + SLACK)


def assembly(path):
    """The loop as source: jumps go to one label, which is no concern of the simulator's."""
    lines = ["0:"]
    for instruction in path:
        operands = instruction.operands
        if instruction.target() is not None:
            operands = re.sub(r"0x[0-9a-f]+$", "0b", operands)
        lines.append(f"{instruction.name} {operands}")
    return "\n".join(lines) + "\n"


def figure_of(kernel, loop, prediction, peak):
    """A loop is a product's if it stores nothing, or little: exponentials beside a product, or sums that find no register."""
    products = loop.count(Instruction.dot_products)
    if products:
        return Figure(prediction.cycles * 64 / products, PRODUCTS)
    elements = loop.count(Instruction.stored_bytes) / 4
    if 2 * elements > loop.count(Instruction.is_fma) and kernel not in STORES_SUMS:
        return Figure(prediction.cycles * 16 / elements, CYCLES)
    return Figure(loop.count(Instruction.is_fma) / prediction.cycles / peak, SHARE)


def row(isa, kernel, cpu, loop, prediction, figure):
    fma, stack = loop.count(Instruction.is_fma), loop.count(Instruction.on_stack)
    per_fma = f"{len(loop.path) / fma:.2f}" if fma else "-"
    port = re.sub(r".*(?=Port)|.*Unit|Zn\d", "", prediction.port)
    return (f"{isa:12}{kernel:18}{cpu:16}{prediction.cycles:8.2f}{prediction.bound:8.2f}  {port:14}{fma or '-':>4}{per_fma:>11}"
            f"{stack or '-':>7}  {figure.text()}")


def compiler_of(objdump, path):
    text = subprocess.run([objdump, "-s", "-j", ".comment", path], check=True, capture_output=True, text=True).stdout
    return "clang" if "clang" in re.sub(r"^.{42}|\n", "", text, flags=re.MULTILINE) else "gcc"


def peak_of(mca, isa, cpu):
    """Multiply-adds per cycle."""
    probes = ("".join(form.format(register) + "\n" for register in range(2, 2 + isa.chains)) for form in isa.probes)
    return max(isa.chains / predict(mca, isa.triple, cpu, probe).cycles for probe in probes)


def report_object(tools, name, path, listing):
    """Prints a line for each loop and CPU, which are asked side by side; yields (kernel, cpu, figure)."""
    isa, processors = ISAS[name], ThreadPoolExecutor(os.cpu_count())
    functions = disassemble(tools.objdump, path)
    known = [cpu for cpu in isa.cpus if knows(tools.mca, isa.triple, cpu)]
    for cpu in (cpu for cpu in isa.cpus if cpu not in known):
        print(f"{name:12}{cpu}: not known to LLVM {tools.version}")
    for kernel, which in KERNELS_OF.get(name, KERNELS).items():
        loop = hot_loop(functions, *which)
        if not loop:
            raise RuntimeError(f"no loop of {kernel} found in {path}")
        if listing:
            print(f"\n{path}, {loop.function}:\n{assembly(loop.path)}")
        ask = functools.partial(predict, tools.mca, isa.triple, assembly=assembly(loop.path))
        for cpu, prediction in zip(known, processors.map(ask, known)):
            figure = figure_of(kernel, loop, prediction, peak_of(tools.mca, isa, cpu))
            print(row(name, kernel, cpu, loop, prediction, figure), flush=True)
            yield kernel, cpu, figure
        products = loop.count(Instruction.dot_products)
        if products:
            yield kernel, ANY_CPU, Figure(len(loop.path) * 64 / products, INSTRUCTIONS_OF_PRODUCTS)
        elif loop.count(Instruction.is_fma):
            yield kernel, ANY_CPU, Figure(len(loop.path) / loop.count(Instruction.is_fma), INSTRUCTIONS)


def read_bounds(path):
    """{(llvm, compiler, isa, kernel, cpu): figure}"""
    bounds = {}
    if os.path.exists(path):
        with open(path, encoding="ascii") as lines:
            for words in (line.split() for line in lines if line.strip() and not line.startswith("#")):
                bounds[tuple(words[:5])] = float(words[5])
    return bounds


def write_bounds(path, bounds):
    with open(path, "w", encoding="ascii") as out:
        out.write(BOUNDS_HEAD)
        for key in sorted(bounds):
            out.write(" ".join(key) + f" {bounds[key]:.3f}\n")


def judge(figures, bounds):
    """Prints what became worse; returns how many did."""
    worse = [key for key, figure in figures.items() if key in bounds and figure.worse_than(bounds[key])]
    for key in worse:
        print(f"WORSE: {' '.join(key)}: {figures[key].text()}, recorded {bounds[key]:.3f}")
    compared = len(figures.keys() & bounds.keys())
    print(f"bench-static: {compared} of {len(figures)} figures compared with those of bounds.txt, {len(worse)} worse")
    if not compared:
        print("bench-static: nothing is recorded for this LLVM and this compiler; --record adds it")
    return len(worse)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="+", help="folders of objects, like build/obj")
    parser.add_argument("--record", action="store_true", help="write the figures to bounds.txt instead of comparing with it")
    parser.add_argument("--listing", action="store_true", help="print the instructions of each loop too")
    return parser.parse_args()


def main():
    options, tools = parse_options(), find_tools()
    if not tools:
        print(HOW_TO_GET, file=sys.stderr)
        return 2
    print(f"predicted by llvm-mca of LLVM {tools.version}: cycles for one round of the loop, what ports and dispatch alone would\n"
          f"allow, the busiest port\n\n{HEAD}")
    figures = {}
    for folder in options.objects:
        for name, isa in ISAS.items():
            path = os.path.join(folder, isa.path)
            if not os.path.exists(path):
                continue
            origin = (str(tools.version), compiler_of(tools.objdump, path), name)
            for kernel, cpu, figure in report_object(tools, name, path, options.listing):
                figures[origin + (kernel, cpu)] = figure
            print()
    if not figures:
        print(f"bench-static: no kernels in {' '.join(options.objects)}", file=sys.stderr)
        return 2
    bounds = read_bounds(BOUNDS)
    if options.record:
        write_bounds(BOUNDS, {**bounds, **{key: figure.value for key, figure in figures.items()}})
        return 0
    return 1 if judge(figures, bounds) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f"bench-static: {error}")
