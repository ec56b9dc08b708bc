"""Tiny Llama checkpoints of random numbers, the same on every machine, as folders of Hugging Face and as GGUF files."""

import json
import math
import os
import struct

CONFIG = {
    "model_type": "llama",
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "eos_token_id": 2,
}
QWEN3 = {**CONFIG, "model_type": "qwen3"}
QWEN3_MOE = {**QWEN3, "model_type": "qwen3_moe", "num_experts": 6, "moe_intermediate_size": 32, "num_experts_per_tok": 3}
QWEN3_MOE["norm_topk_prob"] = True
MIXTRAL = {**CONFIG, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}
ARCHITECTURES = {"qwen3_moe": "qwen3moe", "mixtral": "llama"}  # where GGUF has another name
KINDS = {"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q4_0": 2, "q5_0": 6, "iq4_nl": 20, "mxfp4": 39}
MIXTURE_KINDS = "f32", "q8_0", "mxfp4"
BLOCK = 32
BLOCK_BYTES = {"q8_0": 34, "q4_0": 18, "q5_0": 22, "iq4_nl": 18, "mxfp4": 17}
# What 4 bits stand for, where they are no numbers themselves.
TABLES = {
    "iq4_nl": (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113),
    "mxfp4": (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12),
}
# Rows of whole K blocks, but for those of the way down.
WIDE = {**CONFIG, "hidden_size": 256, "intermediate_size": 288, "num_attention_heads": 8, "head_dim": 32}
K_BLOCK = 256
K_KINDS = {"q4_k": (12, 144, 3.5e-4), "q5_k": (13, 176, 1.7e-4), "q6_k": (14, 210, 6.5e-5)}  # number, bytes of a block, scale
K_LESS = 2.6e-3  # the scale of what is subtracted, so that the middle is 0
# A kind of file with all of them, q4_k where a name has none of these parts: queries, keys and values are alike in one layer only.
K_MIX = "q4_k_m"
K_PARTS = {
    "lm_head": "q6_k",
    "layers.1.mlp.down_proj": "q6_k",
    "layers.1.self_attn.v_proj": "q6_k",
    "up_proj": "q5_k",
    "embed_tokens": "q5_k",
}
K_INSTEAD = {"q4_k": "q5_0", "q6_k": "q8_0"}  # where rows are no whole K blocks
AFTER_WORDS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SINCE_LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s" + AFTER_WORDS
EXPRESSIONS = {"gpt-2": None, "llama-bpe": SINCE_LLAMA3 % r"\p{N}{1,3}", "qwen2": SINCE_LLAMA3 % r"\p{N}"}


def draw(state):
    """24 bits of a linear congruential generator."""
    state[0] = (state[0] * 6364136223846793005 + 1442695040888963407) % 2**64
    return state[0] >> 40


def numbers(count, middle, spread, state):
    """Sums of four draws, nearly normal; as floats have them."""
    for _ in range(count):
        total = sum(draw(state) / 2**24 - 0.5 for _ in range(4))
        yield struct.unpack("<f", struct.pack("<f", middle + spread * total))[0]


def k_blocks(kind, count, state):
    """The bytes of so many blocks: any, but for their scales."""
    made, (_, size, scale) = [], K_KINDS[kind]
    for times in numbers(count, 1.0, 0.3, state):
        block = [draw(state) >> 16 for _ in range(size)]
        if kind == "q6_k":
            block[-2:] = struct.pack("<e", scale * times)
        else:
            block[:4] = struct.pack("<2e", scale * times, K_LESS * times)
        made += block
    return made


def experts(config):
    return config.get("num_experts", config.get("num_local_experts", 0))


def inner_shapes(config, scope):
    """Of a feed-forward layer, or of a mixture."""
    width, inner = config["hidden_size"], config.get("moe_intermediate_size", config["intermediate_size"])
    names, count = ("gate_proj", "up_proj", "down_proj"), experts(config)
    scope += "block_sparse_moe." if config["model_type"] == "mixtral" else "mlp."
    if count:
        yield scope + "gate.weight", (count, width)
    if config["model_type"] == "mixtral":
        names = "w1", "w3", "w2"
    for each in [f"experts.{i}." for i in range(count)] or [""]:
        for name, shape in zip(names, ((inner, width), (inner, width), (width, inner))):
            yield f"{scope}{each}{name}.weight", shape


def shapes(config):
    width, head = config["hidden_size"], config["head_dim"]
    query, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", (config["vocab_size"], width)
    for layer in range(config["num_hidden_layers"]):
        scope = f"model.layers.{layer}."
        yield scope + "input_layernorm.weight", (width,)
        for name, shape in ("q", (query, width)), ("k", (kv, width)), ("v", (kv, width)), ("o", (width, query)):
            yield f"{scope}self_attn.{name}_proj.weight", shape
        for name in ("q", "k") if config["model_type"].startswith("qwen3") else ():
            yield f"{scope}self_attn.{name}_norm.weight", (head,)
        yield scope + "post_attention_layernorm.weight", (width,)
        yield from inner_shapes(config, scope)
    yield "model.norm.weight", (width,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], width)


def stored_as(kind, name, shape):
    if len(shape) == 1 or name.endswith(".gate.weight"):
        return "f32"
    if kind != K_MIX:
        return kind
    wanted = next((k for part, k in K_PARTS.items() if part in name), "q4_k")
    return K_INSTEAD[wanted] if shape[1] % K_BLOCK else wanted


def tensors(config, seed=1):
    """Name -> shape and numbers."""
    state, made = [seed], {}
    for name, shape in shapes(config):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        made[name] = shape, list(numbers(count, 1.0 if len(shape) == 1 else 0.0, 0.3, state))
    return made


def k_tensors():
    """The same of WIDE, but for the bytes of K blocks in place of numbers: they are made as K_MIX has them."""
    state, made = [1], {}
    for name, shape in shapes(WIDE):
        stored = stored_as(K_MIX, name, shape)
        if stored in K_KINDS:
            made[name] = shape, k_blocks(stored, shape[0] * shape[1] // K_BLOCK, state)
        elif len(shape) == 1:
            made[name] = shape, list(numbers(shape[0], 1.0, 0.3, state))
        else:
            made[name] = shape, list(numbers(shape[0] * shape[1], 0.0, 0.1, state))
    return made


def halves(codes):
    return bytes(low & 15 | (high & 15) << 4 for low, high in zip(codes[:16], codes[16:]))


def encode_by_table(kind, block):
    """The scale as f16, or an exponent, and the codes of the nearest numbers."""
    table, largest = TABLES[kind], max(block, key=abs)
    exponent = 128 + math.ceil(math.log2(abs(largest) / 12))
    scale = largest / table[0] if kind == "iq4_nl" else 2.0 ** (exponent - 128)
    codes = [min(range(16), key=lambda code: abs(table[code] * scale - x)) for x in block]
    return (struct.pack("<e", scale) if kind == "iq4_nl" else bytes([exponent])) + halves(codes)


def encode_block(kind, block):
    """The scale as f16, and integers, as ggml has them."""
    if kind in TABLES:
        return encode_by_table(kind, block)
    largest = max(block, key=abs)
    middle = 8 if kind == "q4_0" else 16
    scale = abs(largest) / 127 if kind == "q8_0" else largest / -middle
    inverse = 1 / scale if scale else 0
    if kind == "q8_0":
        return struct.pack("<e32b", scale, *(round(x * inverse) for x in block))
    bits = [min(2 * middle - 1, max(0, int(x * inverse + middle + 0.5))) for x in block]
    fifths = struct.pack("<I", sum((x >> 4) << i for i, x in enumerate(bits))) if kind == "q5_0" else b""
    return struct.pack("<e", scale) + fifths + halves(bits)


def encode(kind, values):
    if kind in K_KINDS:
        return bytes(values)
    if kind == "f32":
        return struct.pack(f"<{len(values)}f", *values)
    if kind == "f16":
        return struct.pack(f"<{len(values)}e", *values)
    if kind == "bf16":
        bits = struct.unpack(f"<{len(values)}I", encode("f32", values))
        return struct.pack(f"<{len(values)}H", *((b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits))
    return b"".join(encode_block(kind, values[i : i + BLOCK]) for i in range(0, len(values), BLOCK))


def decode_k(kind, block):
    """The numbers of a block, in groups of 32 or, of q6_k, of 16."""
    if kind == "q6_k":
        scales, scale = struct.unpack_from("<16b", block, 192), struct.unpack_from("<e", block, 208)[0]
        for i in range(K_BLOCK):
            half, quarter, j = i // 128, i // 32 % 4, i % 32
            low, high = block[64 * half + 32 * (quarter % 2) + j] >> 4 * (quarter // 2), block[128 + 32 * half + j] >> 2 * quarter
            yield scale * scales[i // 16] * ((low & 15 | (high & 3) << 4) - 32)
        return
    scale, less = struct.unpack_from("<2e", block)
    six = block[4:16]
    for i in range(K_BLOCK):
        group, j = i // 32, i % 32
        number = block[(16 if kind == "q4_k" else 48) + 32 * (group // 2) + j] >> 4 * (group % 2) & 15
        number |= (block[16 + j] >> group & 1) << 4 if kind == "q5_k" else 0
        if group < 4:
            by, times = six[group] & 63, six[group + 4] & 63
        else:
            by, times = six[group + 4] & 15 | six[group - 4] >> 6 << 4, six[group + 4] >> 4 | six[group] >> 6 << 4
        yield scale * by * number - less * times


def decode(kind, data):
    """The numbers that encode() stored."""
    if kind in K_KINDS:
        size = K_KINDS[kind][1]
        return [x for i in range(0, len(data), size) for x in decode_k(kind, data[i : i + size])]
    if kind in ("f32", "f16"):
        return list(struct.unpack(f"<{len(data) // (4 if kind == 'f32' else 2)}{'f' if kind == 'f32' else 'e'}", data))
    if kind == "bf16":
        return decode("f32", b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2)))
    made, size = [], BLOCK_BYTES[kind]
    for i in range(0, len(data), size):
        scale = 2.0 ** (data[i] - 128) if kind == "mxfp4" else struct.unpack_from("<e", data, i)[0]
        if kind == "q8_0":
            made += [scale * x for x in struct.unpack_from("<32b", data, i + 2)]
            continue
        nibbles = data[i + size - 16 : i + size]
        low = [x & 15 for x in nibbles] + [x >> 4 for x in nibbles]
        if kind in TABLES:
            made += [scale * TABLES[kind][x] for x in low]
        elif kind == "q4_0":
            made += [scale * (x - 8) for x in low]
        else:
            fifths = struct.unpack_from("<I", data, i + 2)[0]
            made += [scale * (x + 16 * (fifths >> j & 1) - 16) for j, x in enumerate(low)]
    return made


def safetensors(made, kind):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, values) in made.items():
        stored = kind if len(shape) > 1 else "f32"
        packed = encode(stored, values)
        header[name] = {"dtype": stored.upper(), "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def write_folder(folder, config, made, kind="f32", shards=1):
    """Returns the names of the files with tensors."""
    os.makedirs(folder, exist_ok=True)
    names = ["model.safetensors"] if shards == 1 else [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
    parts = [dict(list(made.items())[i::shards]) for i in range(shards)]
    files = {name: safetensors(part, kind) for name, part in zip(names, parts)}
    if shards > 1:
        index = {"metadata": {}, "weight_map": {tensor: name for name, part in zip(names, parts) for tensor in part}}
        files["model.safetensors.index.json"] = json.dumps(index).encode()
    files["config.json"] = json.dumps(config).encode()
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    return names


def gguf_name(name):
    for old, new in (
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.", "attn_"),
        ("block_sparse_moe.", "mlp."),
        ("mlp.gate.", "mlp.gate_inp."),
        ("w1_exps", "gate_exps"),
        ("w2_exps", "down_exps"),
        ("w3_exps", "up_exps"),
        ("mlp.", "ffn_"),
        ("_proj", ""),
    ):
        name = name.replace(old, new)
    return name


def interleave(values, shape, head):
    """GGUF has rows of queries and keys in the order in which rope pairs them: i, i + head / 2, i + 1, ..."""
    made, width = [], len(values) // shape[0]  # of numbers, or of bytes
    for first in range(0, shape[0], head):
        for i in range(head):
            row = first + i // 2 + i % 2 * (head // 2)
            made += values[row * width : (row + 1) * width]
    return made


def gguf_text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value):
    """Type and value: bool, int (uint32), float (float32), str, or a list of one of them; integers of a list are int32."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_text(value)
    first = value[0]
    kind, write = (8, gguf_text) if isinstance(first, (str, bytes)) else (6, "<f") if isinstance(first, float) else (5, "<i")
    written = [write(x) if callable(write) else struct.pack(write, x) for x in value]
    return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(written)


def architecture(config):
    return ARCHITECTURES.get(config["model_type"], config["model_type"])


def stacked(made):
    """GGUF has the experts of a layer in one tensor."""
    stacks = {}
    for name, (shape, values) in made.items():
        before, expert, after = name.partition("experts.")
        if expert:
            name = before + after.split(".")[1] + "_exps.weight"
            sizes, all_values = stacks.get(name, ((0,), []))
            shape, values = (sizes[0] + 1, *shape), all_values + values
        stacks[name] = shape, values
    return stacks


def gguf_fields(config):
    fields = {
        "vocab_size": config["vocab_size"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "block_count": config["num_hidden_layers"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "context_length": config["max_position_embeddings"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": config["rope_theta"],
    }
    if experts(config):
        fields["expert_count"], fields["expert_used_count"] = experts(config), config["num_experts_per_tok"]
    if "moe_intermediate_size" in config:
        fields["expert_feed_forward_length"] = config["moe_intermediate_size"]
    name = architecture(config)
    return {
        "general.architecture": name,
        **{f"{name}.{field}": value for field, value in fields.items()},
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
    }


def gguf(config, made, kind, more=None, version=3):
    """The bytes of a file; more: further fields."""
    fields, infos, data = {**gguf_fields(config), **(more or {})}, b"", b""
    for name, (shape, values) in stacked(made).items():
        stored = stored_as(kind, name, shape)
        if architecture(config) == "llama" and ("q_proj" in name or "k_proj" in name):
            values = interleave(values, shape, config["head_dim"])
        infos += gguf_text(gguf_name(name)) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        infos += struct.pack("<IQ", K_KINDS[stored][0] if stored in K_KINDS else KINDS[stored], len(data))
        data += encode(stored, values)
        data += b"\0" * (-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", version, len(stacked(made)), len(fields))
    head += b"".join(gguf_text(name) + gguf_value(value) for name, value in fields.items()) + infos
    return head + b"\0" * (-len(head) % 32) + data


def kept(made, kind):
    """What remains of the numbers in a file of this kind."""
    kinds = {name: stored_as(kind, name, shape) for name, (shape, _) in made.items()}
    return {name: (shape, decode(kinds[name], encode(kinds[name], values))) for name, (shape, values) in made.items()}
