"""Trains the tiny T5 that the tests and the demonstration translate with, and writes it as Hugging Face's save_pretrained does: on the
pairs of task.py, until it is right on pairs that it has not seen.  A few minutes on two cores; needs torch, transformers and
sentencepiece.

    train.py [FOLDER]        [model, beside this file]
"""

import io
import itertools
import os
import sys
import time

import sentencepiece
import torch
import transformers

import task

PIECES = 320
HELD, LEAST = 2000, 0.995  # held-out pairs, and the share of them that must be right, word for word
BATCH, STEPS, WARM, FASTEST, ROUNDS = 128, 2000, 200, 4e-3, 6
MARGIN = 8.0
DECODER_MOST = 64


def piece_lines():
    """SentencePiece makes pieces of what two words have in common, so some lines have each word with a comma too."""
    for number, (source, target) in enumerate(itertools.islice(task.pairs(1, False), 20000)):
        for line in (task.PREFIX if number % 10 == 0 else "") + source, target:
            yield line
            if number % 10 == 0:
                yield line.replace(" ", ", ") + ","


def train_pieces():
    """The vocabulary, with T5's three special pieces where T5 has them, and T5's normalisation of text."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=piece_lines(),
        model_writer=model,
        model_type="unigram",
        vocab_size=PIECES,
        character_coverage=1.0,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def configuration(pieces):
    return transformers.T5Config(
        vocab_size=-(-pieces // 32) * 32,  # T5's is a round number too, and more than its pieces
        d_model=64,
        d_kv=16,
        d_ff=256,
        num_heads=4,
        num_layers=2,
        num_decoder_layers=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        task_specific_params={
            "translation_en_to_fr": {
                # A model that is so sure of itself has enough translations at once, with a word left out each: it has to wait.
                "early_stopping": False,
                "max_length": DECODER_MOST,
                "num_beams": 4,
                "prefix": task.PREFIX,
            }
        },
    )


def padded(rows, padding):
    most = max(map(len, rows))
    return torch.tensor([row + [padding] * (most - len(row)) for row in rows])


def encode(pieces, texts, padding):
    return padded([ids + [pieces.eos_id()] for ids in pieces.encode(texts)], padding)


def sources_of(pieces, pairs):
    ids = encode(pieces, [task.PREFIX + source for source, _ in pairs], 0)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def train(model, pieces, drawn, steps, fastest):
    """The learning rate rises for a while and falls to 0."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=fastest, betas=(0.9, 0.98), weight_decay=0.01)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / WARM, (steps - step) / (steps - WARM)))
    model.train()
    start = time.monotonic()
    for step in range(1, steps + 1):
        pairs = list(itertools.islice(drawn, BATCH))
        labels = encode(pieces, [target for _, target in pairs], -100)
        logits = model(**sources_of(pieces, pairs), labels=labels).logits
        # An end must be certain or out of the question: a beam that has ended too early stays what it is.
        logits[:, :, pieces.eos_id()] += torch.where(labels == pieces.eos_id(), -MARGIN, MARGIN)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
        if step % 50 == 0 or step == steps:
            left = (time.monotonic() - start) / step * (steps - step)
            print(f"step {step} of {steps}, loss {loss.item():.5f}, {left:.0f} s left", flush=True)


@torch.inference_mode()
def wrong(model, pieces, pairs, beams):
    """Pairs that it translates in other words, with these."""
    model.eval()
    found = []
    for first in range(0, len(pairs), 100):
        some = pairs[first : first + 100]
        ids = model.generate(**sources_of(pieces, some), num_beams=beams, max_length=DECODER_MOST)
        texts = pieces.decode([[token for token in row if token > 1] for row in ids.tolist()])
        found += [(*pair, text) for pair, text in zip(some, texts) if text != pair[1]]
    return found


def main(folder):
    torch.manual_seed(1)
    proto = train_pieces()
    pieces = sentencepiece.SentencePieceProcessor(model_proto=proto)
    model = transformers.T5ForConditionalGeneration(configuration(len(pieces)))
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{len(pieces)} pieces, {count} parameters; {HELD} pairs held out", flush=True)
    drawn, held = task.pairs(2, False), list(itertools.islice(task.pairs(3, True), HELD))
    for turn in range(ROUNDS):
        train(model, pieces, drawn, STEPS, FASTEST / (1 + turn))
        stored = transformers.T5ForConditionalGeneration(model.config)
        stored.load_state_dict({name: tensor.bfloat16().float() for name, tensor in model.state_dict().items()})
        mistakes = {beams: wrong(stored, pieces, held, beams) for beams in (1, 4)}
        for source, target, text in mistakes[4][:5]:
            print(f"  {source}: {text}, not {target}")
        print(", ".join(f"beams {beams}: {1 - len(found) / HELD:.4f} right" for beams, found in mistakes.items()), flush=True)
        if max(map(len, mistakes.values())) <= (1 - LEAST) * HELD:
            stored.bfloat16().save_pretrained(folder)
            with open(os.path.join(folder, "spiece.model"), "wb") as file:
                file.write(proto)
            return
    sys.exit("train.py: not right often enough")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "model"))
