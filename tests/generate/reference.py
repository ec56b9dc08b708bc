"""The reference implementations, Hugging Face's transformers and tokenizers, and SentencePiece: writes tiny.json and tokens.json, and
stands beside generate on other models."""

import io
import json
import os
import sys

import sentencepiece
import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM

import tiny


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
    model = LlamaForCausalLM(LlamaConfig(**config)).eval()
    state = {name: torch.tensor(values).reshape(shape) for name, (shape, values) in made.items()}
    model.load_state_dict(state, strict=True)
    return model


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
        items = [json.dumps(k) + ": " + json.dumps(v) for k, v in value.items()] if isinstance(value, dict) else map(json.dumps, value)
        parts.append(json.dumps(key) + (": {\n%s\n}" if isinstance(value, dict) else ": [\n%s\n]") % ",\n".join(items))
    with open(os.path.join(os.path.dirname(sys.argv[0]), name), "w", encoding="ascii") as file:
        file.write("{\n" + ",\n".join(parts) + "\n}\n")


def record():
    made, recorded = tiny.tensors(tiny.CONFIG), {}
    for kind in tiny.KINDS:
        model = tiny_model(tiny.CONFIG, tiny.kept(made, kind))
        results = [decode(model, prompt, TOKENS) for prompt in PROMPTS]
        recorded[kind] = [
            {"prompt": prompt, "tokens": tokens, "logits": [float(f"{x:.7g}") for x in logits[-1]]}
            for prompt, (tokens, logits) in zip(PROMPTS, results)
        ]
    write("tiny.json", recorded)
    tokenizer, ids = byte_level()
    fields, scored = by_scores()
    write("tokens.json", {"lines": LINES, "byte_level": tokenizer, "ids": ids, "sentencepiece": fields, "scored": scored})


if __name__ == "__main__":
    record()
