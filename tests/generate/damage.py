"""Files that are wrong, each in a way that a message has to name; then wrong at random, which must end in a message or in tokens.
"""

import json
import os
import random
import struct

import tiny

BOMB = struct.pack("<Q", 2**63)
DAMAGES = int(os.environ.get("GENERATE_TEST_DAMAGES", "60"))


class Damage:
    """run(model, lines, *options) runs the program; all files are put right again after each damage."""

    def __init__(self, run, folder):
        self.run, self.folder = run, folder
        self.config = {**tiny.CONFIG, "num_hidden_layers": 1}
        self.made = tiny.tensors(self.config)

    def refused(self, model, words, *options, line="1 2 3"):
        done = self.run(model, [line], *options)
        text = done.stderr.decode(errors="replace")
        assert done.returncode in (1, 2) and words in text and not done.stdout, (model, words, done.returncode, text)
        assert text.count("\n") == 1 or done.returncode == 2, text

    def replaced(self, path, old, new, words, model=None):
        with open(path, "rb") as file:
            right = file.read()
        assert old in right, (path, old)
        self.written(path, right.replace(old, new, 1), words, model)

    def written(self, path, content, words, model=None):
        right = None
        if os.path.exists(path):
            with open(path, "rb") as file:
                right = file.read()
        with open(path, "wb") as file:
            file.write(content)
        self.refused(model or path, words, "--ids", "--tokens=2")
        os.remove(path)
        if right is not None:
            with open(path, "wb") as file:
                file.write(right)

    def options(self):
        folder = os.path.join(self.folder, "whole")
        other = os.path.join(self.folder, "other")
        tiny.write_folder(folder, self.config, self.made)
        config = {**self.config, "vocab_size": 95}
        tiny.write_folder(other, config, tiny.tensors(config))
        for option, words in (
            ("--tokens=0", "--tokens=0"),
            ("--weights=f64", "--weights=f64"),
            ("--cache=q8_0", "--cache=q8_0: must be f32, bf16, f16 or int8"),
            ("--top-p=2", "--top-p=2: must be a number from 0 to 1"),
            ("--temperature=warm", "--temperature=warm"),
            ("--draft=" + other, "has 95 tokens"),
            ("--draft=" + other + "/none", "none/model.safetensors"),
        ):
            self.refused(folder, words, "--ids", option)
        self.refused(folder, "line 1: 96", "--ids", line="5 96")
        self.refused(folder, "line 1: x", "--ids", line="5 x")
        self.refused(folder, "line 1: -1", "--ids", line="-1")
        self.refused(folder, "line 1: 99999999999999999999", "--ids", line="99999999999999999999")
        self.refused(folder, "has 256 tokens, must have from 1 to 255", "--ids", line="1 " * 256)
        self.refused(folder, "has 0 tokens", "--ids", line="")
        self.refused(folder, "tokenizer.json: no such file", line="text")

    def config_json(self):
        folder = os.path.join(self.folder, "whole")
        path = os.path.join(folder, "config.json")
        for field, value, words in (
            ("hidden_size", -3, "hidden_size is -3"),
            ("hidden_size", "x", "hidden_size is not a number"),
            ("hidden_size", 2**19, "model.embed_tokens.weight: shape is"),
            ("num_hidden_layers", 2, "there is no tensor model.layers.1."),
            ("num_key_value_heads", 3, "3 key/value heads"),
            ("num_attention_heads", 2**20, "model.layers.0.self_attn.q_proj.weight: shape is"),
            ("head_dim", 15, "heads of width 15"),
            ("model_type", "t5", "model_type is t5"),
            ("hidden_act", "gelu", "hidden_act is gelu"),
            ("eos_token_id", 96, "eos_token_id is 96"),
            ("eos_token_id", [1, 2.5], "eos_token_id is 2.5"),
            ("eos_token_id", list(range(20)), "eos_token_id"),
            ("rope_scaling", 3, "rope_scaling is not a JSON object"),
            ("rope_scaling", {"rope_type": "yarn", "factor": 2}, "rope_type is yarn"),
            ("rope_scaling", {"rope_type": "linear"}, "rope_scaling: factor is missing"),
            ("rope_theta", 0, "rope_theta is 0"),
            ("vocab_size", 2**30, "must be [1073741824,64]"),
        ):
            self.written(path, json.dumps({**self.config, field: value}).encode(), words, folder)
        self.written(path, b"[]", "config.json: is not a JSON object", folder)
        os.rename(path, path + ".aside")
        os.mkfifo(path)  # which nobody writes to
        self.refused(folder, "config.json: is not a file", "--ids")
        os.replace(path + ".aside", path)

    def safetensors(self):
        folder = os.path.join(self.folder, "whole")
        path = os.path.join(folder, "model.safetensors")
        self.replaced(path, b"lm_head.weight", b"lm_head.height", "there is no tensor lm_head.weight", folder)
        self.replaced(path, b'"F32"', b'"F64"', "model.embed_tokens.weight: dtype is F64", folder)
        with open(path, "rb") as file:
            whole = file.read()
        self.written(path, whole[:-4] + b"\xff\xff\xff\xff", "lm_head.weight: has a NaN or an infinity, and the model gives logits that", folder)
        self.written(path, whole[:-4], "lm_head.weight: data_offsets", folder)
        self.random(path, whole, 8 + int.from_bytes(whole[:8], "little"), folder)

    def shards(self):
        folder = os.path.join(self.folder, "shards")
        names = tiny.write_folder(folder, self.config, self.made, shards=2)
        path = os.path.join(folder, "model.safetensors.index.json")
        first = names[0].encode()
        for old, new, words in (
            (b"weight_map", b"weight_cap", "weight_map is missing"),
            (first, b"../" + first, "is not the name of a file in this folder"),
            (first, b"..", "is not the name of a file in this folder"),
            (first, b"none.safetensors", "none.safetensors: no such file"),
            (first, b"model.safetensors.index.json", "model.safetensors.index.json: a header of"),
            (first, names[1].encode(), "model.embed_tokens.weight in"),
            (b"lm_head.weight", b"lm_head.height", "lm_head.height in"),
            (b'"lm_head.weight": "' + names[1].encode() + b'"', b'"lm_head.weight": 7', "lm_head.weight: is not the name"),
            (b"}", b"", "index.json: line 1"),
        ):
            self.replaced(path, old, new, words, folder)
        with open(path, "rb") as file:
            whole = file.read()
        self.random(path, whole, len(whole), folder)
        os.remove(os.path.join(folder, names[1]))
        self.refused(folder, names[1] + ": no such file", "--ids")

    def gguf(self):
        path = os.path.join(self.folder, "damaged.gguf")
        more = {"general.alignment": 32, "texts": ["a", "b"], "longs": [1, 2]}
        whole = tiny.gguf(self.config, self.made, "q8_0", more)
        header = whole.index(tiny.gguf_text("output.weight")) + 60
        name, width = tiny.gguf_text("token_embd.weight"), tiny.gguf_text("llama.embedding_length")
        sizes, begin = struct.pack("<IQQ", 2, 64, 96), struct.pack("<IQ", 8, 0)
        for old, new, words in (
            (b"GGUF", b"GGML", "is no GGUF file"),
            (b"GGUF\3", b"GGUF\4", "GGUF of version 4"),
            (b"GGUF\3\0\0\0", b"GGUF\0\0\0\3", "GGUF of version 50331648"),
            (whole[8:16], BOMB, "header : the file has no room for a count of 9223372036854775808"),
            (whole[16:24], BOMB, "header : the file has no room for a count of 9223372036854775808"),
            (tiny.gguf_text("texts"), BOMB + b"texts", "the file has no room for a count of 9223372036854775808"),
            (struct.pack("<IIQ", 9, 8, 2), struct.pack("<IIQ", 9, 9, 2), "field texts: an array of arrays"),
            (struct.pack("<IIQ", 9, 8, 2), struct.pack("<II", 9, 8) + BOMB, "field texts: the file has no room"),
            (struct.pack("<IIQ", 9, 5, 2), struct.pack("<II", 9, 5) + BOMB, "field longs: the file has no room"),
            (tiny.gguf_text("longs") + b"\x09", tiny.gguf_text("longs") + b"\x0d", "field longs: there is no type 13"),
            (tiny.gguf_text("longs"), tiny.gguf_text("texts"), "there are two fields texts"),
            (width + struct.pack("<I", 4), width + struct.pack("<I", 6), "llama.embedding_length is"),
            (width, tiny.gguf_text("llama.embedding_lengtx"), "llama.embedding_length is missing"),
            (tiny.gguf_text("llama"), tiny.gguf_text("bloom"), "general.architecture is bloom"),
            (struct.pack("<II", 4, 32), struct.pack("<II", 4, 33), "general.alignment is 33"),
            (struct.pack("<II", 4, 32), struct.pack("<II", 4, 0), "general.alignment is 0"),
            (name + sizes, name + struct.pack("<IQQ", 9, 64, 96), "token_embd.weight: must have from 1 to 4 dimensions, has 9"),
            (name + sizes, name + struct.pack("<IQQ", 2, 96, 64), "token_embd.weight: shape is [64,96], must be [96,64]"),
            (name + sizes + b"\x08", name + sizes + b"\x0f", "token_embd.weight: dtype is type 15"),
            (name + sizes + b"\x08", name + sizes + b"\x0e", "token_embd.weight: rows of 64 have no whole blocks of 256"),
            (name, tiny.gguf_text("token_embd.height"), "there is no tensor token_embd.weight"),
            (name + sizes + begin, name + sizes + struct.pack("<IQ", 8, 8), "token_embd.weight: is not in the file, or not aligned, at offset 8"),
            (name + sizes + begin, name + sizes + struct.pack("<IQ", 8, 2**63), "token_embd.weight: is not in the file, or not aligned, at offset 9223372036854775808"),
            (tiny.gguf_text("output.weight"), tiny.gguf_text("output_norm.weight"), "there are two tensors output_norm.weight"),
        ):
            assert old in whole, (old, words)
            self.written(path, whole.replace(old, new, 1), words)
        for length in [0, 3, 8, 20, 24, *range(40, header, 97), len(whole) - 1]:
            self.written(path, whole[:length], path)
        self.written(path, whole[:-34] + b"\0\x7e" + whole[-32:], "output.weight: has a NaN")  # the scale of the last block
        self.random(path, whole, header, path)
        made = tiny.k_tensors()
        whole, nan = tiny.gguf(tiny.WIDE, made, tiny.K_MIX), b"\0\x7e"
        at = whole.index(bytes(made["model.embed_tokens.weight"][1])) + 176 + 2  # token 1's scale of what is subtracted
        self.written(path, whole[:at] + nan + whole[at + 2 :], "token_embd.weight: has a NaN")
        at = whole.index(tiny.encode("q5_0", made["model.layers.0.mlp.down_proj.weight"][1]))
        self.written(path, whole[:at] + nan + whole[at + 2 :], "blk.0.ffn_down.weight: has a NaN")
        self.written(path, whole[:-2] + nan, "output.weight: has a NaN")
        self.written(path, whole[:-1], "output.weight: data_offsets")

    def mixtures(self):
        folder, path = os.path.join(self.folder, "mixture"), os.path.join(self.folder, "mixture.gguf")
        config = {**tiny.QWEN3_MOE, "num_hidden_layers": 1}
        made = tiny.tensors(config)
        tiny.write_folder(folder, config, made)
        for field, value, words in (
            ("num_experts", None, "num_local_experts is missing"),
            ("num_experts", 0, "num_experts is 0, must be from 1 to 1024"),
            ("num_experts", 7, "model.layers.0.mlp.gate.weight: shape is [6,64], must be [7,64]"),
            ("num_experts_per_tok", 7, "num_experts_per_tok is 7, must be from 1 to 6"),
            ("moe_intermediate_size", 33, "model.layers.0.mlp.experts.0.gate_proj.weight: shape is [32,64], must be [33,64]"),
            ("norm_topk_prob", 1, "norm_topk_prob is neither true nor false"),
            ("decoder_sparse_step", 2, "leave some layers without experts"),
            ("mlp_only_layers", [0], "leave some layers without experts"),
        ):
            changed = {**config, field: value}
            if value is None:
                del changed[field]
            self.written(os.path.join(folder, "config.json"), json.dumps(changed).encode(), words, folder)
        whole = tiny.gguf(config, made, "q8_0")
        name = tiny.gguf_text("blk.0.ffn_up_exps.weight")
        sizes = struct.pack("<IQQQ", 3, 64, 32, 6)
        for old, new, words in (
            (tiny.gguf_text("qwen3moe.expert_count"), tiny.gguf_text("qwen3moe.expert_cound"), "qwen3moe.expert_count is missing"),
            (name + sizes, name + struct.pack("<IQQQ", 3, 64, 6, 32), "shape is [32,6,64], must be [6,32,64]"),
            (name + sizes, name + struct.pack("<IQQQ", 3, 64, 32, 7), "shape is [7,32,64], must be [6,32,64]"),
            (name, tiny.gguf_text("blk.0.ffn_up_expx.weight"), "there is no tensor blk.0.ffn_up_exps.weight"),
        ):
            assert old in whole, (old, words)
            self.written(path, whole.replace(old, new, 1), words)
        at = whole.index(tiny.encode("q8_0", made["model.layers.0.mlp.experts.5.up_proj.weight"][1]))
        self.written(path, whole[:at] + b"\0\x7e" + whole[at + 2 :], "blk.0.ffn_up_exps.weight: has a NaN")
        self.random(path, whole, whole.index(tiny.gguf_text("output.weight")) + 60, path)

    def random(self, path, whole, reach, model, line="1 2 3", options=("--ids",)):
        chance = random.Random(1)
        for _ in range(DAMAGES):
            bad = bytearray(whole)
            for _ in range(chance.randint(1, 3)):
                bad[chance.randrange(reach)] = chance.choice(b'0129-.{}[],:"eE \x00\x01\x04\x08\x7f\xff')
            with open(path, "wb") as file:
                file.write(bad)
            done = self.run(model, [line], "--tokens=2", *options)
            assert done.returncode in (0, 1) and bool(done.stderr) == bool(done.returncode), (done.returncode, done.stderr)
        with open(path, "wb") as file:
            file.write(whole)

    def tokens(self, recorded):
        """Vocabularies: pieces that are none, pairs of them, numbers that are too large."""
        folder = os.path.join(self.folder, "whole")
        path = os.path.join(folder, "tokenizer.json")
        level = recorded["byte_level"]
        config = {**self.config, "vocab_size": 322, "hidden_size": 32}
        tiny.write_folder(folder, config, tiny.tensors(config))
        split = {"type": "ByteLevel"}

        def write(model=None, **changes):
            content = {**level, "pre_tokenizer": split, **changes, "model": {**level["model"], **(model or {})}}
            return json.dumps(content).encode()

        vocab = level["model"]["vocab"]
        for content, words in (
            (write(pre_tokenizer={"type": "Split", "pattern": {"Regex": "x+"}}), "the Regex x+"),
            (write(pre_tokenizer={"type": "Metaspace"}), "is not ByteLevel"),
            (write({"type": "Unigram"}), "type is Unigram"),
            (write({"vocab": {**vocab, "much": 322}}), "much is 322"),
            (write({"vocab": {**vocab, "much": -1}}), "much is -1"),
            (write({"vocab": {**vocab, "much": "x"}}), "much is -1"),
            (write({"vocab": {str(i): 0 for i in range(400)}}), "more tokens than the 322"),
            (write({"merges": [["no", "thing"]]}), "merge 0 is of no and thing"),
            (write({"merges": ["nothing"]}), "merge 0 is nothing"),
            (write({"merges": [7]}), "merge 0 is"),
            (write(added_tokens=[{"id": 0}]), "added_tokens"),
            (write(added_tokens=[{"id": 400, "content": "x"}]), "x is 400"),
        ):
            with open(path, "wb") as file:
                file.write(content)
            self.refused(folder, words, "--tokens=1", line="text")
        scored = os.path.join(self.folder, "tokens.gguf")
        pieces, larger = recorded["sentencepiece"], {**config, "vocab_size": 330}
        made = tiny.tensors(larger)
        few = {"tokenizer.ggml.tokens": ["<0x-1>"], "tokenizer.ggml.token_type": [6], "tokenizer.ggml.scores": [0.0]}
        for model, fields, words in (
            ("llama", {**pieces, "tokenizer.ggml.scores": [0.5]}, "and 1 scores"),
            ("llama", {**pieces, "tokenizer.ggml.bos_token_id": 400}, "bos_token_id is 400"),
            ("llama", few, "token 0 is no byte: <0x-1>"),
            ("bert", pieces, "tokenizer.ggml.model is bert"),
            ("gpt2", {"tokenizer.ggml.pre": "odd"}, "tokenizer.ggml.pre is odd"),
            ("gpt2", {**pieces, "tokenizer.ggml.merges": ["a"]}, "merge 0 is a, must be two pieces"),
        ):
            with open(scored, "wb") as file:
                file.write(tiny.gguf(larger, made, "q8_0", {"tokenizer.ggml.model": model, **fields}))
            self.refused(scored, words, "--tokens=1", line="text")
        whole = write()
        with open(path, "wb") as file:
            file.write(whole)
        assert self.run(folder, ["text"], "--tokens=1").returncode == 0
        self.random(path, whole, len(whole), folder, "text <|x|>", ())
        fields = {"tokenizer.ggml.model": "llama", **pieces}
        whole = tiny.gguf(larger, made, "q8_0", fields)
        self.random(scored, whole, whole.index(tiny.gguf_text("token_embd.weight")), scored, "some text", ())
