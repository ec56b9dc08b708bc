"""examples/generate beside the reference implementation: the likeliest tokens must be the same, logits as near as roundings
allow; and beside itself: bits the same for all batches, chunks, threads, instruction sets and pages, text the same with a draft.
Files that are wrong must be refused in words.  On tiny checkpoints, whose results tiny.json has (reference.py wrote it), and on random ones, if
Python has transformers.

    generate_test.py path/to/generate        EMULATOR: command that runs it
"""

import json
import math
import os
import random
import subprocess
import sys
import tempfile

import tiny

GENERATE = os.environ.get("EMULATOR", "").split() + [sys.argv[1]]
SLACK = 1e-4  # of logits that are about 1; the largest difference seen is 1e-5
ISAS = "avx512", "avx2", "neon", "scalarfma", "scalar"


def run(model, lines, *options, isa=None):
    environment = {**os.environ, "HEED_ISA": isa} if isa else None
    text = "".join(line + "\n" for line in lines).encode()
    return subprocess.run([*GENERATE, model, *options], input=text, capture_output=True, check=False, env=environment)


def generate(model, prompts, *options, isa=None):
    """What comes after prompts of tokens: lines of numbers, or with --logits the bytes."""
    lines = [" ".join(map(str, prompt)) for prompt in prompts]
    done = run(model, lines, "--ids", *options, isa=isa)
    assert done.returncode == 0, (options, done.returncode, done.stderr)
    if "--logits" in options:
        return done.stdout
    return [[int(word) for word in line.split()] for line in done.stdout.decode().splitlines()]


def rows(output):
    return [[float(word) for word in line.split()] for line in output.decode().splitlines()]


def difference(a, b):
    assert len(a) == len(b)
    return max(abs(x - y) for x, y in zip(a, b))


def up_to_stop(tokens, stop):
    return tokens[: tokens.index(stop)] if stop in tokens else tokens


def compare_recorded(name, model, cases):
    count = len(cases[0]["tokens"])
    prompts = [case["prompt"] for case in cases]
    found = generate(model, prompts, f"--tokens={count}")
    wanted = [up_to_stop(case["tokens"], tiny.CONFIG["eos_token_id"]) for case in cases]
    assert found == wanted, (name, "other tokens than the reference", found, wanted)
    forced = [case["prompt"] + case["tokens"][:-1] for case in cases]
    logits = rows(generate(model, forced, "--tokens=1", "--logits"))
    largest = max(difference(row, case["logits"]) for row, case in zip(logits, cases))
    assert largest < SLACK, (name, largest)
    return largest


def compare_bits(name, model, prompts):
    """All at once, all one after another, in parts, with other pages, drafts and kernels."""
    output = generate(model, prompts, "--tokens=12", "--logits")
    ways = [["--batch=1"], ["--batch=2", "--chunk=5"], ["--chunk=1"], ["--batch=3", "--chunk=1000"], ["--threads=1"]]
    ways += [["--threads=3"], ["--draft=" + model], ["--draft=" + model, "--draft-tokens=7", "--batch=2", "--chunk=9"]]
    for way in ways:
        assert generate(model, prompts, "--tokens=12", "--logits", *way) == output, (name, way, "the bits depend on it")
    for isa in ISAS:
        if "usable" not in run(model, ["1"], "--ids", "--tokens=1", isa=isa).stderr.decode():
            assert generate(model, prompts, "--tokens=12", "--logits", isa=isa) == output, (name, isa, "the bits depend on it")


def compare_drafts(model, drafts, prompts):
    """A draft changes nothing, how wrong it may be."""
    plain = generate(model, prompts, "--tokens=40")
    for draft in drafts:
        for options in [], ["--draft-tokens=1", "--batch=1"], ["--draft-tokens=9", "--chunk=7", "--batch=4"]:
            found = generate(model, prompts, "--tokens=40", "--draft=" + draft, *options)
            assert found == plain, (draft, options, "a draft changes the text")


def compare_all(folder, recorded):
    made = tiny.tensors(tiny.CONFIG)
    largest = 0
    models = {}
    for kind in tiny.KINDS:
        path = os.path.join(folder, kind + ".gguf")
        with open(path, "wb") as file:
            file.write(tiny.gguf(tiny.CONFIG, made, kind))
        models["GGUF " + kind] = path, kind
    for kind, shards in ("f32", 1), ("f16", 1), ("bf16", 3):
        path = os.path.join(folder, f"{kind}-{shards}")
        tiny.write_folder(path, tiny.CONFIG, made, kind, shards)
        models[f"safetensors {kind}"] = path, kind
    prompts = [case["prompt"] for case in recorded["f32"]]
    for name, (path, kind) in models.items():
        largest = max(largest, compare_recorded(name, path, recorded[kind]))
        compare_bits(name, path, prompts)
    print(f"generate_test: {len(models)} tiny checkpoints have the reference's tokens; logits differ by {largest:.1e} at most")
    compare_drafts(models["GGUF f32"][0], [models["GGUF q4_0"][0], models["safetensors bf16"][0]], prompts)
    print("generate_test: bits are the same for all batches, chunks, threads and instruction sets; text with drafts too")


with open(os.path.join(os.path.dirname(__file__), "tiny.json"), encoding="ascii") as tiny_json:
    RECORDED = json.load(tiny_json)
with tempfile.TemporaryDirectory() as temporary:
    compare_all(temporary, RECORDED)
