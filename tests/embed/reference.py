"""The reference implementation, Hugging Face's transformers: writes tiny.json, and stands beside embed on a real checkpoint."""

import json
import os
import sys
import tempfile

import torch
from transformers import AutoModel, BertTokenizer

import tiny


def encode(folder, lines, most):
    """Of each line the tokens, and the vectors by their mean and by the first of them."""
    tokenizer = BertTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    tokens, means, firsts = [], [], []
    with torch.inference_mode():
        for line in lines:
            batch = tokenizer(line, truncation=True, max_length=most, return_tensors="pt")
            hidden = model(**batch).last_hidden_state[0].double()
            tokens.append(batch["input_ids"][0].tolist())
            for vector, vectors in (hidden.mean(0), means), (hidden[0], firsts):
                vectors.append((vector / vector.norm()).tolist())
    return tokens, means, firsts


LINES = [
    "Unaffable HELLO world!",
    "",
    " \t ",
    "Caf\u00e9 cafe\u0301 Z\u00fcrich na\u00efve stra\u00dfe",
    "\u65e5\u672c\u8a9e\u3072\u3089 a\u65e5b",
    "\U0001f642 a\U0001f642b \U0001f680",
    "a\u0000b\u0007c\u200dx\ufffda",
    "[MASK] the man[SEP]is eat[UNK] [mask]",
    "$1.23, (a-b)? the man's",
    "\u03a3 \u0391\u03a3 \u0130x",
    "a" * 100 + " " + "a" * 101,
    "a\u00a0b\u2028c\u3000x\u0085\u000ba\r",
    "the man is eating food. " * 20,
    "\uac00 \u1100\u1161 \u0928\u094d \ufb01x",
]

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        tiny.write(folder)
        results = encode(folder, LINES, tiny.POSITIONS)
    recorded = [
        {"line": line, "tokens": ids, "vector": [float(f"{x:.7g}") for x in mean], "first": [float(f"{x:.7g}") for x in first]}
        for line, ids, mean, first in zip(LINES, *results)
    ]
    with open(os.path.join(os.path.dirname(sys.argv[0]), "tiny.json"), "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, recorded)) + "\n]\n")
