"""The reference implementations, Hugging Face's transformers and tokenizers, and SentencePiece: writes tiny.json and tokens.json,
and stands beside generate on other models."""

import io
import json
import os
import sys
import tempfile

import sentencepiece
import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

import tiny

torch.set_num_threads(1)


def decode(model, prompt, count):
    """Tokens after the prompt, the likeliest each time, and the logits that they were chosen by."""
    with torch.inference_mode():
        ids = torch.tensor([prompt])
        ids = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        logits = model(ids).logits[0, len(prompt) - 1 : -1]
    return ids[0, len(prompt) :].tolist(), logits.tolist()


def tiny_model(config, made):
    with tempfile.TemporaryDirectory() as folder:
        tiny.write_folder(folder, config, made)
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def random_rope(chance):
    rope = {"rope_type": chance.choice(["default", "linear", "llama3"]), "rope_theta": chance.choice([100.0, 10000.0, 500000.0])}
    if rope["rope_type"] != "default":
        rope["factor"] = chance.choice([2.0, 8.0])
    if rope["rope_type"] == "llama3":
        rope.update(low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
    return rope


def random_config(chance):
    kinds = [LlamaConfig, LlamaConfig, MistralConfig, MixtralConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig]
    kind, head = chance.choice(kinds), chance.choice([8, 18, 64])
    kv = chance.randint(1, 3)
    heads = kv * chance.choice([1, 2, 4])
    own = {} if kind is Qwen2Config else {"head_dim": head}
    if kind in (MistralConfig, MixtralConfig):
        own["sliding_window"] = None
    if kind in (MixtralConfig, Qwen3MoeConfig):
        own["num_experts_per_tok"] = chance.randint(1, 3)
        own["num_experts" if kind is Qwen3MoeConfig else "num_local_experts"] = chance.randint(3, 9)
    if kind is Qwen3MoeConfig:
        own["moe_intermediate_size"], own["norm_topk_prob"] = chance.choice([24, 64]), chance.random() < 0.5
    if kind is LlamaConfig:
        own["attention_bias"] = chance.random() < 0.3
    return kind(
        vocab_size=chance.choice([50, 97, 300]),
        hidden_size=heads * (head if kind is Qwen2Config else chance.choice([4, 16])),
        intermediate_size=chance.choice([32, 80, 100]),
        num_hidden_layers=chance.randint(1, 3),
        num_attention_heads=heads,
        num_key_value_heads=kv,
        rms_norm_eps=chance.choice([1e-5, 1e-6]),
        max_position_embeddings=200,
        initializer_range=0.12,
        tie_word_embeddings=chance.random() < 0.5,
        rope_parameters=random_rope(chance),
        bos_token_id=None,
        eos_token_id=None,
        **own,
    )


def random_model(folder, chance):
    """Writes one, and returns what comes after prompts, some of which begin alike."""
    config = random_config(chance)
    torch.manual_seed(chance.randrange(2**31))
    model = AutoModelForCausalLM.from_config(config).eval().float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder, max_shard_size=chance.choice(["1GB", "40KB"]))
    prompts = [[chance.randrange(config.vocab_size) for _ in range(length)] for length in (1, 2, 17, 70, 130)]
    prompts += [prompts[-1] + [3, 4], prompts[-1][:60] + [5]]
    results = [decode(model, prompt, TOKENS) for prompt in prompts]
    return [{"prompt": prompt, "tokens": tokens, "logits": logits} for prompt, (tokens, logits) in zip(prompts, results)]


SHARED = [(7 * i * i + 3 * i + 5) % 96 for i in range(90)]
PROMPTS = [[1], [5, 9, 11], SHARED, SHARED[:70] + [3, 4], SHARED + [8] * 50, [90, 17] * 20]
TOKENS = 24

LINES = [
    "He said: it's 12345 o'clock, they'LL and I'VE eaten.",
    "the man is eating food" * 3,
    "  two  blanks   three \t tab ",
    "Caf\u00e9 cafe\u0301 Z\u00fcrich na\u00efve stra\u00dfe",
    "\u65e5\u672c\u8a9e\u3072\u3089 a\u65e5b",
    "\U0001f642 a\U0001f642b \U0001f680",
    "a\u00a0b\u2028c\u3000x\u0085\u000ba\r \r\r",
    "x = f(a[0]) != {b}; // 3.14e-5 \u00bd \u2167 \u0663\u0664\u0665\u0666",
    "<|x|>the <|xy|>man<|x|><|y|>",
    "'s'S'\u017f \u00b9\u00b2\u00b3\u2460 don't 'tis",
    "\u0e01\u0e33 \u0928\u092e\u0938\u094d\u0924\u0947 \uac00\u1100\u1161",
]
TRAINING = ["The man is eating a piece of bread, and the children aren't: it's 12 o'clock.", "they have eaten 345 of them"] * 4


def byte_level():
    """One small vocabulary, and the tokens of LINES with each way to split them."""
    training = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = training
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=["<|begin|>"], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TRAINING, trainer)
    tokenizer.add_special_tokens([AddedToken("<|x|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<|xy|>", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)])
    written, ids = json.loads(tokenizer.to_str()), {}
    for name, expression in tiny.EXPRESSIONS.items():
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=expression is None)
        split = [pre_tokenizers.Split(Regex(expression), "isolated")] if expression else []
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split + [byte_level])
        ids[name] = [tokenizer.encode(line).ids for line in LINES]
    return {"model": written["model"], "added_tokens": written["added_tokens"], "post_processor": written["post_processor"]}, ids


def by_scores():
    """The tokens of a small SentencePiece model, with scores and kinds as GGUF has them, and those of LINES."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINING),
        model_writer=model,
        vocab_size=330,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    all_ids = range(pieces.vocab_size())
    kinds = [2 if pieces.is_unknown(i) else 3 if pieces.is_control(i) else 6 if pieces.is_byte(i) else 1 for i in all_ids]
    fields = {
        "tokenizer.ggml.tokens": [pieces.id_to_piece(i) for i in all_ids],
        "tokenizer.ggml.scores": [float(pieces.get_score(i)) for i in all_ids],
        "tokenizer.ggml.token_type": kinds,
    }
    return fields, [[1] + pieces.encode(line) for line in LINES]


def write(name, record):
    """One line for each thing of the second level."""
    parts = []
    for key, value in record.items():
        if isinstance(value, dict):
            items, brackets = [json.dumps(k) + ": " + json.dumps(v) for k, v in value.items()], ": {\n%s\n}"
        else:
            items, brackets = map(json.dumps, value), ": [\n%s\n]"
        parts.append(json.dumps(key) + brackets % ",\n".join(items))
    with open(os.path.join(os.path.dirname(sys.argv[0]), name), "w", encoding="ascii") as file:
        file.write("{\n" + ",\n".join(parts) + "\n}\n")


def record_tiny(config, made):
    model = tiny_model(config, made)
    results = [decode(model, prompt, TOKENS) for prompt in PROMPTS]
    return [
        {"prompt": prompt, "tokens": tokens, "logits": [float(f"{x:.7g}") for x in logits[-1]]}
        for prompt, (tokens, logits) in zip(PROMPTS, results)
    ]


def record():
    made = tiny.tensors(tiny.CONFIG)
    recorded = {kind: record_tiny(tiny.CONFIG, tiny.kept(made, kind)) for kind in tiny.KINDS}
    recorded[tiny.K_MIX] = record_tiny(tiny.WIDE, tiny.kept(tiny.k_tensors(), tiny.K_MIX))
    recorded["qwen3"] = record_tiny(tiny.QWEN3, tiny.tensors(tiny.QWEN3))
    for config in tiny.QWEN3_MOE, tiny.MIXTRAL:
        for kind in tiny.MIXTURE_KINDS:
            recorded[f"{config['model_type']} {kind}"] = record_tiny(config, tiny.kept(tiny.tensors(config), kind))
    write("tiny.json", recorded)
    tokenizer, ids = byte_level()
    fields, scored = by_scores()
    write("tokens.json", {"lines": LINES, "byte_level": tokenizer, "ids": ids, "sentencepiece": fields, "scored": scored})


if __name__ == "__main__":
    record()
