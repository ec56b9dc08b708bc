"""The reference implementation, Hugging Face's transformers: writes tiny.json, and stands beside generate on other models."""

import json
import os
import sys

import torch
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

if __name__ == "__main__":
    made, recorded = tiny.tensors(tiny.CONFIG), {}
    for kind in tiny.KINDS:
        model = tiny_model(tiny.CONFIG, tiny.kept(made, kind))
        results = [decode(model, prompt, TOKENS) for prompt in PROMPTS]
        recorded[kind] = [
            {"prompt": prompt, "tokens": tokens, "logits": [float(f"{x:.7g}") for x in logits[-1]]}
            for prompt, (tokens, logits) in zip(PROMPTS, results)
        ]
    lines = [f'"{kind}": [\n' + ",\n".join(map(json.dumps, cases)) + "\n]" for kind, cases in recorded.items()]
    with open(os.path.join(os.path.dirname(sys.argv[0]), "tiny.json"), "w", encoding="ascii") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
