"""Random weights in the shape of SmolLM-135M, as GGUF files with tensors of each kind: what generations.py races on."""

import os
import struct
import sys
import tempfile

import numpy

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/generate"))
import tiny

KINDS = "f32", "bf16", "q8_0", "q4_0"
POSITIONS = 2048
CONFIG = {
    **tiny.CONFIG,
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "max_position_embeddings": POSITIONS,
    "tie_word_embeddings": True,
}
SPREAD = CONFIG["hidden_size"] ** -0.5  # what a layer gives is about as large as what it gets
ALIGNMENT = 32


def tensors():
    """Pairs of a name, as Hugging Face has it, and floats."""
    random = numpy.random.default_rng(1)
    for name, shape in tiny.shapes(CONFIG):
        if len(shape) == 1:
            yield name, numpy.ones(shape, numpy.float32)
        else:
            yield name, random.standard_normal(shape, numpy.float32) * numpy.float32(SPREAD)


def in_blocks(array, kind):
    """The largest number of a block of 32 becomes +-127 or -8."""
    blocks = array.reshape(-1, tiny.BLOCK)
    largest = numpy.take_along_axis(blocks, abs(blocks).argmax(axis=1)[:, None], axis=1)
    scales = abs(largest) / 127 if kind == "q8_0" else largest / -8
    if kind == "q8_0":
        integers = numpy.rint(blocks / scales).astype(numpy.int8)
    else:
        integers = numpy.clip(blocks / scales + 8.5, 0, 15).astype(numpy.uint8)
        integers = integers[:, :16] | integers[:, 16:] << 4
    return numpy.concatenate([scales.astype(numpy.float16).view(numpy.uint8), integers.view(numpy.uint8)], axis=1)


def encode(array, kind):
    if kind == "bf16":
        bits = array.view(numpy.uint32)
        return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(numpy.uint16)
    return array if kind == "f32" else in_blocks(array, kind)


def interleave(array):
    """GGUF has rows of queries and keys in the order in which rope pairs them."""
    head, width = CONFIG["head_dim"], array.shape[1]
    return numpy.ascontiguousarray(array.reshape(-1, 2, head // 2, width).swapaxes(1, 2)).reshape(-1, width)


def write(path, kind):
    fields = {**tiny.gguf_fields(CONFIG), "tokenizer.ggml.model": "no_vocab"}
    infos, data, place = b"", [], 0
    for name, array in tensors():
        stored = kind if array.ndim > 1 else "f32"
        packed = encode(interleave(array) if "q_proj" in name or "k_proj" in name else array, stored).tobytes()
        infos += tiny.gguf_text(tiny.gguf_name(name)) + struct.pack(f"<I{array.ndim}Q", array.ndim, *reversed(array.shape))
        infos += struct.pack("<IQ", tiny.KINDS[stored], place)
        data.append(packed + bytes(-len(packed) % ALIGNMENT))
        place += len(data[-1])
    head = b"GGUF" + struct.pack("<IQQ", 3, len(data), len(fields))
    head += b"".join(tiny.gguf_text(name) + tiny.gguf_value(value) for name, value in fields.items()) + infos
    with open(path, "wb") as file:
        file.writelines([head, bytes(-len(head) % ALIGNMENT), *data])


def gguf(kind):
    """The path of a file, written once."""
    folder = os.environ.get("PEERS_LLAMA") or os.path.join(tempfile.gettempdir(), f"heed-peers-llama-{os.getuid()}")
    path = os.path.join(folder, kind + ".gguf")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        write(path + ".part", kind)
        os.replace(path + ".part", path)
    return path
