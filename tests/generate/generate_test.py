"""examples/generate beside the reference implementation: the likeliest tokens must be the same, logits as near as roundings
allow; and beside itself: bits the same for all batches, chunks, threads, instruction sets and pages, text the same with a draft.
Files that are wrong must be refused in words.  On tiny checkpoints, whose results tiny.json has (reference.py wrote it), and on
random ones, if Python has transformers.

    generate_test.py path/to/generate        EMULATOR: command that runs it
                                             HEED_TEST_QUICK=1: in fewer ways, for sanitizers
"""

import json
import math
import os
import random
import subprocess
import sys
import tempfile

import tiny
from damage import Damage

QUICK = os.environ.get("HEED_TEST_QUICK", "0") not in ("", "0")
GENERATE = os.environ.get("EMULATOR", "").split() + [sys.argv[1]]
SLACK = 3e-4  # of logits that are about 1; where attention is to few keys, the reference itself is 1e-4 away from doubles
ISAS = "amx", "avx512bf16", "avx512", "avx2", "neon", "scalarfma", "scalar"


def run(model, lines, *options, isa=None):
    environment = {"OMP_WAIT_POLICY": "passive", **os.environ, **({"HEED_ISA": isa} if isa else {})}
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


def usable_isas(model):
    isas = [isa for isa in ISAS if "usable" not in run(model, ["1"], "--ids", "--tokens=1", isa=isa).stderr.decode()]
    assert "scalar" in isas, isas
    return isas[-1:] if QUICK else isas


def compare_bits(name, model, isas, prompts, *options):
    """All at once, all one after another, in parts, with other pages, drafts and kernels."""
    options = ["--tokens=12", "--logits", *options]
    output = generate(model, prompts, *options)
    ways = [["--batch=1"], ["--batch=2", "--chunk=5"], ["--chunk=1"], ["--batch=3", "--chunk=1000"], ["--threads=1"]]
    ways += [["--page-seed=1"], ["--page-seed=2", "--batch=3", "--chunk=50"], ["--page-seed=3", "--draft=" + model, "--batch=2"]]
    ways += [["--threads=3"], ["--draft=" + model], ["--draft=" + model, "--draft-tokens=7", "--batch=2", "--chunk=9"]]
    for way in ways[:: 5 if QUICK else 1]:
        assert generate(model, prompts, *options, *way) == output, (name, way, "the bits depend on it")
    for isa in isas:
        assert generate(model, prompts, *options, isa=isa) == output, (name, isa, "the bits depend on it")


def compare_rounded(name, model, isas, prompts, *ways):
    """Tokens in bf16 or in bytes, or keys and values in fewer bits, give other logits, but not far from those in floats: no more
    than a hundredth of the largest, by and large."""
    plain = rows(generate(model, prompts, "--tokens=1", "--logits"))
    for way in ways:
        rounded = rows(generate(model, prompts, "--tokens=1", "--logits", *way))
        worst = max(difference(a, b) / max(map(abs, a)) for a, b in zip(plain, rounded))
        assert 0 < worst < 0.1, (name, way, worst)
        if not QUICK:
            compare_bits(name, model, isas, prompts, *way)


def compare_drafts(model, drafts, prompts):
    """A draft changes nothing, how wrong it may be."""
    plain = generate(model, prompts, "--tokens=40")
    for draft in drafts:
        for options in [], ["--draft-tokens=1", "--batch=1"], ["--draft-tokens=9", "--chunk=7", "--batch=4"]:
            found = generate(model, prompts, "--tokens=40", "--draft=" + draft, *options)
            assert found == plain, (draft, options, "a draft changes the text")


def write_mixtures(folder):
    models = {}
    for config in tiny.QWEN3_MOE, tiny.MIXTRAL:
        name, made = config["model_type"], tiny.tensors(config)
        path = os.path.join(folder, name)
        tiny.write_folder(path, config, made, shards=2)
        models["safetensors " + name] = path, name + " f32"
        for kind in tiny.MIXTURE_KINDS:
            path = os.path.join(folder, f"{name}-{kind}.gguf")
            with open(path, "wb") as file:
                file.write(tiny.gguf(config, made, kind))
            models[f"GGUF {name} {kind}"] = path, f"{name} {kind}"
    return models


def compare_all(folder, recorded):
    made = tiny.tensors(tiny.CONFIG)
    largest = 0
    models = {}
    files = [(kind, tiny.CONFIG, made) for kind in tiny.KINDS] + [(tiny.K_MIX, tiny.WIDE, tiny.k_tensors())]
    for kind, config, values in files:
        path = os.path.join(folder, kind + ".gguf")
        with open(path, "wb") as file:
            file.write(tiny.gguf(config, values, kind))
        models["GGUF " + kind] = path, kind
    for kind, shards in ("f32", 1), ("f16", 1), ("bf16", 3):
        path = os.path.join(folder, f"{kind}-{shards}")
        tiny.write_folder(path, tiny.CONFIG, made, kind, shards)
        models[f"safetensors {kind}"] = path, kind
    path, file_path, qwen3 = os.path.join(folder, "qwen3"), os.path.join(folder, "qwen3.gguf"), tiny.tensors(tiny.QWEN3)
    tiny.write_folder(path, tiny.QWEN3, qwen3)
    with open(file_path, "wb") as file:
        file.write(tiny.gguf(tiny.QWEN3, qwen3, "f32"))
    models["safetensors qwen3"], models["GGUF qwen3"] = (path, "qwen3"), (file_path, "qwen3")
    models.update(write_mixtures(folder))
    prompts = [case["prompt"] for case in recorded["f32"]]
    isas = usable_isas(models["GGUF f32"][0])
    for name, (path, kind) in models.items():
        largest = max(largest, compare_recorded(name, path, recorded[kind]))
        compare_bits(name, path, isas, prompts)
    for name in "GGUF q8_0", "GGUF q4_k_m", "safetensors bf16":
        compare_rounded(name, models[name][0], isas, prompts, ["--prompts=bf16"], ["--prompts=bf16-amx"])
    in_blocks = "q8_0", "q4_0", "q5_0", "iq4_nl", "mxfp4", "q4_k_m", "qwen3_moe q8_0"
    for name in ["GGUF " + kind for kind in in_blocks]:
        compare_rounded(name, models[name][0], isas, prompts, ["--prompts=i8"], ["--prompts=i8", "--steps=i8"])
    caches = [["--cache=" + kind] for kind in ("bf16", "f16", "int8")]
    compare_rounded("GGUF f32", models["GGUF f32"][0], isas, prompts, *caches, ["--cache=int8", "--prompts=bf16"])
    print(f"generate_test: {len(models)} tiny checkpoints have the reference's tokens; logits differ by {largest:.1e} at most")
    compare_drafts(models["GGUF f32"][0], [models["GGUF q4_0"][0], models["safetensors bf16"][0]], prompts)
    print(f"generate_test: bits are the same for all batches, chunks, threads, orders of pages, and {', '.join(isas)}; text with drafts too")


def most_memory(model, prompts):
    """MB; the first text lasts until the last has begun.  Asked for by a process of its own: a child's counts from its parent's."""
    ask = """import os, sys
status, used = os.wait4(os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:]), 0)[1:]
sys.exit(f"{status} {used.ru_maxrss}")"""
    command = [sys.executable, "-S", "-c", ask, *GENERATE, model, "--ids", "--tokens=30"]
    text = "".join(" ".join(map(str, prompt)) + "\n" for prompt in prompts).encode()
    status, kilobytes = subprocess.run(command, input=text, capture_output=True, check=False).stderr.split()[-2:]
    assert status == b"0", (model, status)
    return int(kilobytes) / 1024


def compare_memory(folder):
    """Prompts that begin alike have pages in common."""
    heads, head, tokens, lines = 8, 256, 600, 8
    config = {**tiny.CONFIG, "num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "max_position_embeddings": 1024}
    config.update(num_attention_heads=heads, num_key_value_heads=heads, head_dim=head, eos_token_id=95)
    path = os.path.join(folder, "wide.gguf")
    with open(path, "wb") as file:
        file.write(tiny.gguf(config, tiny.tensors(config), "f32"))
    beginning = [3 + i % 90 for i in range(tokens)]
    alike = most_memory(path, [beginning + [10 + i] for i in range(lines)])
    unlike = most_memory(path, [[10 + i] + beginning for i in range(lines)])
    saved = (lines - 1) * tokens * heads * head * 2 * 4 / 2**20
    assert unlike - alike > 0.75 * saved, (alike, unlike, saved)
    print(f"generate_test: {lines} prompts that begin alike take {unlike - alike:.0f} MB less; their pages are {saved:.0f} MB less")


def tokens_of(model, lines):
    done = run(model, lines, "--encode")
    assert done.returncode == 0, done.stderr
    return [[int(word) for word in line.split()] for line in done.stdout.decode().split("\n")[:-1]]


def write_model(path, vocabulary, fields):
    config = {**tiny.CONFIG, "vocab_size": vocabulary, "num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32}
    with open(path, "wb") as file:
        file.write(tiny.gguf(config, tiny.tensors(config), "f32", fields))
    return config


def compare_tokens(folder, recorded):
    """Tokens of text, and the text of tokens."""
    lines, level = recorded["lines"], recorded["byte_level"]
    pieces = dict(level["model"]["vocab"])
    kinds = {token["id"]: 3 if token["special"] else 4 for token in level["added_tokens"]}
    pieces.update((token["content"], token["id"]) for token in level["added_tokens"])
    path, file = os.path.join(folder, "byte-level"), os.path.join(folder, "byte-level.gguf")
    for name, expression in tiny.EXPRESSIONS.items():
        fields = {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": name,
            "tokenizer.ggml.tokens": sorted(pieces, key=pieces.get),
            "tokenizer.ggml.token_type": [kinds.get(i, 1) for i in range(len(pieces))],
            "tokenizer.ggml.merges": [" ".join(merge) for merge in level["model"]["merges"]],
            "tokenizer.ggml.bos_token_id": 0,
            "tokenizer.ggml.add_bos_token": True,
        }
        config = write_model(file, len(pieces), fields)
        tiny.write_folder(path, config, tiny.tensors(config))
        split = [{"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}] if expression else []
        split = {"type": "Sequence", "pretokenizers": split + [{"type": "ByteLevel", "use_regex": not expression}]}
        with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as text:
            json.dump({**level, "pre_tokenizer": split}, text)
        for model in path, file:
            assert tokens_of(model, lines) == recorded["ids"][name], (name, model, "other tokens than the reference")
    file = os.path.join(folder, "scores.gguf")
    fields = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.bos_token_id": 1, **recorded["sentencepiece"]}
    pieces = fields["tokenizer.ggml.tokens"]
    write_model(file, len(pieces), fields)
    assert tokens_of(file, lines) == recorded["scored"], "other tokens than SentencePiece"
    after = generate(file, recorded["scored"], "--tokens=20")
    pieces = [bytes([int(piece[1:5], 16)]) if 3 <= i < 259 else piece.encode() for i, piece in enumerate(pieces)]
    text = b"\n".join(b"".join(pieces[i] for i in line if i > 2) for line in after).replace("\u2581".encode(), b" ") + b"\n"
    assert run(file, lines, "--tokens=20").stdout == text, "other text than that of the tokens"
    print(f"generate_test: {len(lines)} lines have the references' tokens with {len(tiny.EXPRESSIONS) + 1} ways to find them")


def deviation(counts, total, probability):
    """The largest of a token's count from what is expected, in standard deviations."""
    return max(abs(counts.get(i, 0) - total * p) / math.sqrt(total * p * (1 - p) + 1) for i, p in enumerate(probability))


def distribution(logits, temperature=1.0, top_k=0, top_p=1.0):
    weights = [math.exp((x - max(logits)) / temperature) for x in logits]
    order = sorted(range(len(logits)), key=lambda i: -logits[i])[: top_k or None]
    total, kept, mass = sum(weights[i] for i in order), 0, 0
    while kept < len(order) and (kept == 0 or mass < top_p * total):
        mass += weights[order[kept]]
        kept += 1
    return [weights[i] / mass if i in order[:kept] else 0 for i in range(len(logits))]


def compare_draws(folder):
    """Frequencies of the second token after one prompt, over all first ones, with and without a draft, are those that the logits
    say; what top-k and top-p leave out never comes."""
    model, draft, prompt = os.path.join(folder, "f32.gguf"), os.path.join(folder, "q4_0.gguf"), [5, 9, 11]
    total = 100 if QUICK else 1000
    first = rows(generate(model, [prompt], "--tokens=1", "--logits"))[0]
    second = rows(generate(model, [prompt + [i] for i in range(len(first))], "--tokens=1", "--logits"))
    for options in {"temperature": 1.5}, {"temperature": 2.5, "top_k": 5}, {"temperature": 1.5, "top_p": 0.5}, {"top_k": 1}:
        shares, wanted = distribution(first, **options), [0] * len(first)
        for token, row in enumerate(second):
            if token != tiny.CONFIG["eos_token_id"]:
                wanted = [x + shares[token] * y for x, y in zip(wanted, distribution(row, **options))]
        words = [f"--{name.replace('_', '-')}={value}" for name, value in {"temperature": 1, **options}.items()]
        for way in [], ["--draft=" + draft], ["--draft=" + draft, "--draft-tokens=1"]:
            counts = {}
            for tokens in generate(model, [prompt] * total, "--tokens=4", "--batch=64", *words, *way):
                token = tokens[1] if len(tokens) > 1 else tiny.CONFIG["eos_token_id"]
                counts[token] = counts.get(token, 0) + bool(tokens)
            assert all(wanted[i] or not counts[i] for i in counts), (way, words, "drew a token that it should not")
            assert deviation(counts, total, wanted) < 5, (way, words, deviation(counts, total, wanted))
    once, twice = (generate(model, [prompt] * 3, "--temperature=1", "--seed=7", *x) for x in ([], ["--batch=1", "--threads=1"]))
    assert once == twice and once[0] != once[1], "draws depend on the batch, or do not depend on the line"
    assert generate(model, [prompt], "--temperature=1", "--seed=8") != once[:1], "draws do not depend on the seed"
    drawn = [line for line in generate(model, [prompt] * 9, "--temperature=1000") if len(line) > 5]
    assert len(drawn) > 5 and not any(b[:4] in (a[:4], a[1:5]) for a, b in zip(drawn, drawn[1:])), "a line has the draws of another"
    cold, likeliest = (generate(model, [prompt], option) for option in ("--temperature=1e-300", "--temperature=0"))
    assert cold == likeliest, "next to no temperature is not none"
    print(f"generate_test: {total} draws are as frequent as their logits say, with drafts and without")


def compare_live(folder):
    """Models of other shapes and kinds, which the reference writes itself, in shards at times."""
    try:
        import reference
    except ImportError as missing:
        print(f'generate_test: other models: skipped, {missing}; "pip install transformers torch sentencepiece"')
        return
    count, largest, chance = int(os.environ.get("GENERATE_TEST_MODELS", "8")), 0, random.Random(1)
    for i in range(count):
        path = os.path.join(folder, f"live-{i}")
        cases = reference.random_model(path, chance)
        prompts = [case["prompt"] for case in cases]
        found = generate(path, prompts, f"--tokens={len(cases[0]['tokens'])}", "--chunk=50")
        assert found == [case["tokens"] for case in cases], (path, "other tokens than the reference")
        logits = rows(generate(path, prompts, f"--tokens={len(cases[0]['tokens'])}", "--logits"))
        wanted = [row for case in cases for row in case["logits"]]
        largest = max(largest, *map(difference, logits, wanted))
        assert len(logits) == len(wanted) and largest < SLACK, (path, largest)
    print(f"generate_test: {count} random models have the reference's tokens; logits differ by {largest:.1e} at most")


def refuse_damages(folder, recorded):
    damage = Damage(run, folder)
    damage.options()
    damage.config_json()
    damage.safetensors()
    damage.shards()
    damage.gguf()
    damage.mixtures()
    damage.tokens(recorded)
    print("generate_test: damaged files are refused in words")


def load(name):
    with open(os.path.join(os.path.dirname(__file__), name), encoding="ascii") as file:
        return json.load(file)


with tempfile.TemporaryDirectory() as temporary:
    compare_all(temporary, load("tiny.json"))
    if not QUICK:  # a sanitizer's memory is its own
        compare_memory(temporary)
    compare_tokens(temporary, load("tokens.json"))
    compare_draws(temporary)
    refuse_damages(temporary, load("tokens.json"))
    compare_live(temporary)
