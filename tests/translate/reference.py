"""The reference implementation, Hugging Face's transformers: writes recorded.json, what it makes of held-out lines and of odd ones
with the tiny model."""

import itertools
import json
import os

import sentencepiece
import torch
import transformers

import task

HELD = 120
ODD = [
    "",
    "   ",
    "\t",
    "  twenty-one   houses ",
    "TWENTY-ONE HOUSES",
    "Twenty\u2011one houses.",
    "\uff54\uff57\uff45\uff4e\uff54\uff59\u3000houses",
    "\u65e5\u672c\u8a9e",
    "\U0001f642 three \U0001f680",
    "\ufb01ve hundred",
    "e\u0301t\u00e9 caf\u00e9 \u0153il",
    "</s> <pad> <unk> three",
    "a\u0007b\u200dc\ufffdd",
    "It is easy to translate languages with transformers",
    "one " * 100,
    "x" * 300,
    "the thirty-second of Brumaire nine",
    "eighty eighty eighty eighty eighty eighty eighty eighty eighty eighty eighty eighty eighty eighty eighty eighty eighty",
]


def lines():
    return [source for source, _ in itertools.islice(task.pairs(4, True), HELD)] + ODD


def load(folder):
    model = transformers.T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    return model, sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "spiece.model"))


@torch.inference_mode()
def generate(model, inputs, **settings):
    """Tokens of each sentence, alone in its batch, behind the decoder's start and up to the end of the sentence."""
    rows = []
    for ids in inputs:
        row = model.generate(torch.tensor([ids]), **settings)[0].tolist()[1:]
        rows.append(row[: row.index(1) + 1] if 1 in row else row)
    return rows


def record(folder):
    model, pieces = load(folder)
    texts, settings = lines(), model.config.task_specific_params["translation_en_to_fr"]
    inputs = [pieces.encode(settings["prefix"] + text) + [1] for text in texts]
    rest = {name: settings[name] for name in ("max_length", "early_stopping")}
    greedy = generate(model, inputs, num_beams=1, max_length=rest["max_length"])
    beam = generate(model, inputs, num_beams=settings["num_beams"], **rest)
    return [
        {"line": text, "greedy": a, "beam": b, "text": pieces.decode([token for token in b if token > 1])}
        for text, a, b in zip(texts, greedy, beam)
    ]


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    recorded = record(os.path.join(here, "model"))
    with open(os.path.join(here, "recorded.json"), "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(map(json.dumps, recorded)) + "\n]\n")
