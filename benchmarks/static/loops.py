"""Finds the hot loop of a kernel in its object file, so that a simulator can be given what the compiler really made of it.

A function's jumps give its graph of basic blocks, the graph's strongly connected parts its loops.  A loop's path is the way around
it that enters no inner loop and does the most work, with the fewest instructions: where a loop has a path for whole vectors and
another for the rest, this is the one for whole vectors.
"""
import re
import subprocess
from typing import NamedTuple


class Instruction(NamedTuple):
    address: int
    name: str
    operands: str

    def target(self):
        """The address that a direct jump goes to, None for all other instructions."""
        jump = re.fullmatch(r"j\w+|b|b\.\w+|bc\.\w+|cbn?z|tbn?z", self.name)
        found = jump and re.search(r"0x([0-9a-f]+)$", self.operands)
        return int(found.group(1), 16) if found else None

    def falls_through(self):
        return not re.fullmatch(r"jmpq?|b|br|retq?|retaa|ud2|brk|udf", self.name)

    def is_fma(self):
        """Only those of whole vectors."""
        is_neon = self.name in ("fmla", "fmls") and ".4s" in self.operands
        return is_neon or bool(re.fullmatch(r"vfn?m(add|sub)\d+ps|vdpbf16ps", self.name))

    def dot_products(self):
        """Of bytes, by an instruction that adds them up in pairs or fours, or is half of what does."""
        if re.search(r"\bvpmaddubsw$|\bvpdpbusd$", self.name):
            return {"x": 16, "y": 32, "z": 64}[re.search(r"%([xyz])mm", self.operands).group(1)]
        return 16 if self.name == "sdot" else 8 if self.name in ("smull", "smull2") else 0

    def is_shuffle(self):
        return bool(re.match(r"v(unpck|shuf|perm)|(trn|zip|uzp)[12]$", self.name))

    def on_stack(self):
        return bool(re.search(r"\(%rsp|\[sp\b", self.operands))

    def stored_bytes(self):
        """What a store of whole vectors writes to other memory than the stack."""
        if self.on_stack():
            return 0
        if re.match(r"v(mov(nt|u|a|dq)|maskmov|extract)", self.name) and re.search(r"\([^()]*\)( \{%k\d\})?$", self.operands):
            width = re.search(r"%([xyz])mm", self.operands)
            return {"x": 16, "y": 32, "z": 64}[width.group(1)] if width else 0
        if re.fullmatch(r"st(r|ur|p|np|1)", self.name):
            return 16 * len(re.findall(r"\bq\d+\b|\bv\d+\.4s", self.operands)) + 8 * len(re.findall(r"\bd\d+\b", self.operands))
        return 0


class Loop(NamedTuple):
    function: str
    path: list

    def count(self, what):
        return sum(int(what(instruction)) for instruction in self.path)


def disassemble(objdump, path):
    """{function: [instructions]} of an object file."""
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout
    functions, body = {}, []
    for line in text.splitlines():
        start = re.fullmatch(r"[0-9a-f]+ <(.+)>:", line)
        if start:
            body = functions.setdefault(start.group(1), [])
            continue
        found = re.fullmatch(r"\s*([0-9a-f]+):\s+((?:\{vex\}\s+)?\S+)\s*(.*)", line)
        if found:
            operands = re.sub(r"\s+(//|#\s|<).*", "", found.group(3))  # comments and names of addresses
            body.append(Instruction(int(found.group(1), 16), found.group(2), operands))
    return functions


def basic_blocks(body):
    """([instructions] of each block, {block: its successors})"""
    at = {instruction.address: i for i, instruction in enumerate(body)}
    leaders = {0}
    for i, instruction in enumerate(body):
        if instruction.target() is not None or not instruction.falls_through():
            leaders.add(i + 1)
        if instruction.target() in at:
            leaders.add(at[instruction.target()])
    starts = sorted(leaders - {len(body)})
    blocks = [body[start:end] for start, end in zip(starts, starts[1:] + [len(body)])]
    number = {start: block for block, start in enumerate(starts)}
    successors = {}
    for block, instructions in enumerate(blocks):
        last = instructions[-1]
        successors[block] = {number[at[last.target()]]} if last.target() in at else set()
        if last.falls_through() and block + 1 < len(blocks):
            successors[block].add(block + 1)
    return blocks, successors


def reachable(start, edges, within):
    """Blocks that can be reached from `start` by at least one edge."""
    found, todo = set(), [start]
    while todo:
        new = (edges[todo.pop()] & within) - found
        found |= new
        todo.extend(new)
    return found


def nested_loops(successors, predecessors, within):
    """(header, blocks of the loop, those of them in no inner loop) of every loop within a set of blocks."""
    left = set(within)
    while left:
        block = min(left)
        part = reachable(block, successors, within) & reachable(block, predecessors, within)
        left -= part | {block}
        if not part:
            continue
        header = min((b for b in part if predecessors[b] - part), default=min(part))
        inner = list(nested_loops(successors, predecessors, part - {header}))
        yield header, part, part.difference(*(blocks for _, blocks, _ in inner))
        yield from inner


def best_path(blocks, successors, header, own, work):
    """The way from the header back to it with the most work, then the fewest jumps, then the fewest instructions, with these
    numbers; None if all lead through inner loops."""
    known = {}

    def rate(block):
        if block in known:
            return known[block]
        ways = [([], (0, 0, 0))] if header in successors[block] else []
        ways += [way for way in map(rate, (successors[block] & own) - {header}) if way]
        known[block] = None
        if ways:
            path, (done, jumps, length) = max(ways, key=lambda way: way[1])
            body = blocks[block]
            mine = sum(int(work(instruction)) for instruction in body)
            known[block] = [block] + path, (done + mine, jumps - (body[-1].target() is not None), length - len(body))
        return known[block]

    return rate(header)


def hot_loop(functions, pattern, work, stores=None):
    """The loop with the most work on its path in the functions whose name matches; of those that store, or do not, unless None."""
    best, best_rate = None, (0, 0, 0)
    for name, body in functions.items():
        if not re.fullmatch(pattern + r"(\.\w+)*", name):
            continue
        blocks, successors = basic_blocks(body)
        live = reachable(0, successors, set(successors)) | {0}  # padding after a jump seems to lead into a loop
        predecessors = {block: {b for b in live if block in successors[b]} for block in live}
        for header, _, own in nested_loops(successors, predecessors, live):
            way = best_path(blocks, successors, header, own, work)
            if not way or way[1] <= best_rate:
                continue
            loop = Loop(name, [instruction for block in way[0] for instruction in blocks[block]])
            if stores in (None, loop.count(Instruction.stored_bytes) > 0):
                best, best_rate = loop, way[1]
    return best
