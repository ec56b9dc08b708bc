"""Random weights in the shape of SmolLM-135M, as GGUF files with tensors of each kind: what generations.py races on.  K formats want
rows of whole blocks of 256, and so a shape of their own; and a mixture of experts, like a small Qwen3, has one."""

import os
import re
import struct
import sys
import tempfile

import numpy

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/generate"))
import tiny

KINDS = "f32", "bf16", "q8_0", "q4_0", "q5_0", "q4_K_M", "mixture f32", "mixture q8_0", "mixture q4_0"
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
WIDE = {
    **CONFIG,
    "hidden_size": 768,
    "intermediate_size": 2048,
    "num_hidden_layers": 20,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
}
MIXTURE = {
    **CONFIG,
    "model_type": "qwen3_moe",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "num_experts": 32,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 384,
    "norm_topk_prob": True,
}
SPREAD = CONFIG["hidden_size"] ** -0.5  # what a layer gives is about as large as what it gets
ALIGNMENT = 32


def config_of(kind):
    return WIDE if kind == "q4_K_M" else MIXTURE if kind.startswith("mixture") else CONFIG


def tensors(config):
    """Pairs of a name, as Hugging Face has it, and floats."""
    random = numpy.random.default_rng(1)
    for name, shape in tiny.shapes(config):
        if len(shape) == 1:
            yield name, numpy.ones(shape, numpy.float32)
        else:
            yield name, random.standard_normal(shape, numpy.float32) * numpy.float32(SPREAD)


def in_blocks(array, kind):
    """The largest number of a block of 32 becomes +-127, -8 or -16."""
    blocks = array.reshape(-1, tiny.BLOCK)
    largest = numpy.take_along_axis(blocks, abs(blocks).argmax(axis=1)[:, None], axis=1)
    if kind == "q8_0":
        scales = abs(largest) / 127
        parts = [numpy.rint(blocks / scales).astype(numpy.int8).view(numpy.uint8)]
    else:
        most = 8 if kind == "q4_0" else 16
        scales = largest / -most
        integers = numpy.clip(blocks / scales + (most + 0.5), 0, 2 * most - 1).astype(numpy.uint8)
        fifths = [numpy.packbits(integers >> 4, axis=1, bitorder="little")] if kind == "q5_0" else []
        parts = [*fifths, integers[:, :16] & 15 | integers[:, 16:] << 4]
    return numpy.concatenate([scales.astype(numpy.float16).view(numpy.uint8), *parts], axis=1)


def encode(array, kind):
    if kind == "bf16":
        bits = array.view(numpy.uint32)
        return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(numpy.uint16)
    return array if kind == "f32" else in_blocks(array, kind)


def k_kind(name):
    """As llama.cpp's Q4_K_M has it: more bits for the head, and in half of the layers for values and the way down."""
    more = "embed_tokens" in name or re.search(r"layers\.\d*[02468]\.(self_attn\.v|mlp\.down)_proj", name)
    return "q6_k" if more else "q4_k"


def k_blocks(shape, kind, random):
    """Any bits, with scales for which numbers spread as other weights do."""
    number, size, _ = tiny.K_KINDS[kind]
    blocks = random.integers(0, 256, (shape[0] * shape[1] // 256, size), dtype=numpy.uint8)
    d = numpy.float16(SPREAD / (1400 if kind == "q6_k" else 290))
    blocks[:, -2 if kind == "q6_k" else 0 :][:, :2] = numpy.frombuffer(d.tobytes(), numpy.uint8)
    if kind == "q4_k":
        blocks[:, 2:4] = numpy.frombuffer(numpy.float16(7.5 * d).tobytes(), numpy.uint8)
    return number, blocks


def interleave(array):
    """GGUF has rows of queries and keys in the order in which rope pairs them."""
    head, width = CONFIG["head_dim"], array.shape[1]
    return numpy.ascontiguousarray(array.reshape(-1, 2, head // 2, width).swapaxes(1, 2)).reshape(-1, width)


def stacked(config):
    """The experts of a layer as one tensor."""
    experts = []
    for name, array in tensors(config):
        before, expert, after = name.partition("experts.")
        if expert:
            experts.append(array)
        if not expert:
            yield name, array
        elif len(experts) == 3 * config["num_experts"]:
            for i, part in enumerate(("gate", "up", "down")):
                yield f"{before}{part}_exps.weight", numpy.stack(experts[i::3])
            experts = []


def stored(kind):
    """Of each tensor its name, shape, number of a type, and bytes."""
    config = config_of(kind)
    for name, array in stacked(config):
        as_kind = tiny.stored_as(kind.split()[-1], name, array.shape)
        turned = tiny.architecture(config) == "llama" and ("q_proj" in name or "k_proj" in name)
        yield name, array.shape, tiny.KINDS[as_kind], encode(interleave(array) if turned else array, as_kind).tobytes()


def stored_in_k():
    random = numpy.random.default_rng(1)
    for name, shape in tiny.shapes(WIDE):
        if len(shape) == 1:
            yield name, shape, tiny.KINDS["f32"], numpy.ones(shape, numpy.float32).tobytes()
        else:
            number, blocks = k_blocks(shape, k_kind(name), random)
            yield name, shape, number, blocks.tobytes()


def write(path, kind):
    fields = {**tiny.gguf_fields(config_of(kind)), "tokenizer.ggml.model": "no_vocab"}
    infos, data, place = b"", [], 0
    for name, shape, number, packed in stored_in_k() if kind == "q4_K_M" else stored(kind):
        infos += tiny.gguf_text(tiny.gguf_name(name)) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        infos += struct.pack("<IQ", number, place)
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
