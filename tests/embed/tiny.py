"""A tiny BERT checkpoint of random numbers, the same on every machine: what make check has where there is no real one."""

import json
import os
import struct

WIDTH, INNER, LAYERS, HEADS, POSITIONS = 32, 64, 2, 2, 40
PIECES = """un ##aff ##able cafe zurich naive straße he ##llo wor ##ld a b c i x ##a ##b ##c ##x the man is eat ##ing food
    1 2 ##3 . , ! ? - ' $ ( ) 日 本 語 ひ ##ら ας Σ 🙂 é ##e"""
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + PIECES.split()


def tensors():
    """Name -> shape, and what the numbers spread around."""
    shapes = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm": (WIDTH,),
    }
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        for part in "query", "key", "value":
            shapes[f"{name}attention.self.{part}"] = (WIDTH, WIDTH)
        shapes[name + "attention.output.dense"] = (WIDTH, WIDTH)
        shapes[name + "attention.output.LayerNorm"] = (WIDTH,)
        shapes[name + "intermediate.dense"] = (INNER, WIDTH)
        shapes[name + "output.dense"] = (WIDTH, INNER)
        shapes[name + "output.LayerNorm"] = (WIDTH,)
    for name, shape in shapes.items():
        if name.endswith(".weight"):
            yield name, shape, 0.0
        else:
            yield name + ".weight", shape, float(len(shape) == 1)
            yield name + ".bias", shape[:1], 0.0


def numbers(count, middle, state):
    """Sums of four numbers of a linear congruential generator, nearly normal."""
    for _ in range(count):
        total = 0
        for _ in range(4):
            state[0] = (state[0] * 6364136223846793005 + 1442695040888963407) % 2**64
            total += (state[0] >> 40) / 2**24 - 0.5
        yield middle + 0.3 * total


def packed(dtype, values):
    if dtype == "BF16":  # halves of floats, rounded to nearest even
        words = (struct.unpack("<I", struct.pack("<f", x))[0] for x in values)
        return b"".join(struct.pack("<H", (word + 0x7FFF + (word >> 16 & 1)) >> 16) for word in words)
    return struct.pack(f"<{len(values)}{'e' if dtype == 'F16' else 'f'}", *values)


def unpacked(dtype, data):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    return [x for (x,) in struct.iter_unpack("<e" if dtype == "F16" else "<f", data)]


def write(folder, prefix="", rounded="F32", dtype="F32"):
    """With numbers rounded to one type and stored in another.  Returns the bytes of model.safetensors."""
    header, data, state = {"__metadata__": {"format": "pt"}}, b"", [1]
    for name, shape, middle in tensors():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        stored = packed(dtype, unpacked(rounded, packed(rounded, list(numbers(count, middle, state)))))
        header[prefix + name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(stored)]}
        data += stored
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    whole = struct.pack("<Q", len(text)) + text + data
    config = {
        "model_type": "bert",
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(VOCABULARY),
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
    }
    files = {
        "model.safetensors": whole,
        "config.json": json.dumps(config).encode(),
        "tokenizer_config.json": b'{"do_lower_case": true, "strip_accents": null, "model_max_length": 1' + b"0" * 30 + b"}",
        "vocab.txt": ("\n".join(VOCABULARY) + "\n").encode(),
    }
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    return whole
