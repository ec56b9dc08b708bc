"""Random T5 checkpoints of many shapes, and what transformers makes of random lines with each: for translate_test.py, where Python has
transformers.  A random model repeats one token for ever unless it is made not to: embeddings are small beside what the blocks add, so
that the next token depends on more than the last; norms, biases of positions and queries are large, so that it depends on all of
them; and the row of the token that ends a sentence is long, so that sentences end."""

import json
import os
import shutil

import sentencepiece
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
PIECES = os.path.join(HERE, "model", "spiece.model")
PREFIX = "translate English to French: "
transformers.logging.disable_progress_bar()
transformers.logging.set_verbosity_error()


class Watched(transformers.T5ForConditionalGeneration):
    """Remembers how near to each other, relatively, two numbers were whose order decides something: where that is the noise of float
    arithmetic, another order is no mistake."""

    nearest = float("inf")

    def watch(self, values):
        """Values in falling order, along the last dimension; those of -1e9 stand for nothing."""
        a, b = values[..., :-1], values[..., 1:]
        gaps = ((a - b) / a.abs().clamp(min=1e-30))[b > -1e8]
        if gaps.numel():
            self.nearest = min(self.nearest, gaps.min().item())

    def _get_top_k_continuations(self, accumulated_log_probs, **rest):
        self.watch(torch.topk(accumulated_log_probs, rest["beams_to_keep"] + 1)[0])
        return super()._get_top_k_continuations(accumulated_log_probs=accumulated_log_probs, **rest)

    def _update_finished_beams(self, **rest):
        done = rest["topk_log_probs"] / ((rest["cur_len"] + 1 - rest["decoder_prompt_len"]) ** rest["length_penalty"])
        done = done + ~rest["next_token_hits_stopping_criteria"] * -1.0e9
        self.watch(torch.cat((rest["beam_scores"], done), dim=1).sort(dim=-1, descending=True)[0])
        return super()._update_finished_beams(**rest)

    def _check_early_stop_heuristic(self, **rest):
        length = (rest["max_length"] if rest["early_stopping"] == "never" and rest["length_penalty"] > 0 else rest["cur_len"]) - 1
        best = rest["running_beam_scores"][:, :1] / length ** rest["length_penalty"]
        self.watch(torch.cat((best, rest["beam_scores"][:, -1:]), dim=1).sort(dim=-1, descending=True)[0])
        return super()._check_early_stop_heuristic(**rest)


def draw_configuration(chance):
    """Version 1.0 or 1.1, tied or not, in all shapes."""
    gated, heads, width = chance.random() < 0.5, chance.choice([1, 2, 3, 4, 5]), chance.choice([16, 24, 32, 40, 64, 65])
    return transformers.T5Config(
        vocab_size=len(sentencepiece.SentencePieceProcessor(model_file=PIECES)) + chance.choice([0, 1, 27]),
        d_model=width,
        d_kv=chance.choice([4, 8, 16, 20, 33]),
        d_ff=chance.choice([32, 48, 100]),
        num_heads=heads,
        num_layers=chance.randint(1, 3),
        num_decoder_layers=chance.randint(1, 3),
        relative_attention_num_buckets=chance.choice([4, 8, 16, 32]),
        relative_attention_max_distance=chance.choice([17, 20, 64, 128]),
        layer_norm_epsilon=chance.choice([1e-6, 1e-5]),
        feed_forward_proj="gated-gelu" if gated else "relu",
        tie_word_embeddings=chance.random() < 0.5,
        decoder_start_token_id=0,
    )


@torch.no_grad()
def enliven(model, chance):
    small, ends = chance.choice([0.1, 0.3, 1.0]), chance.choice([1.5, 2.0, 3.0])
    for name, tensor in model.named_parameters():
        if name.endswith("norm.weight"):
            tensor.uniform_(0.5, 1.5)
        elif name.endswith("relative_attention_bias.weight"):
            tensor.normal_(std=chance.choice([0.5, 2.0]))
        elif name.endswith("q.weight"):
            tensor.mul_(2)
    model.shared.weight.mul_(small)
    head = model.shared.weight
    if not model.config.scale_decoder_outputs:
        head = torch.nn.Parameter(torch.randn_like(head) * model.config.d_model**-0.5)
        model.lm_head.weight = head
    model.decoder.final_layer_norm.weight.mul_(chance.choice([2.0, 5.0]) / (small if model.config.scale_decoder_outputs else 1))
    head[1] *= ends


def draw_model(config, chance):
    torch.manual_seed(chance.randrange(2**31))
    model = Watched(config).eval()
    enliven(model, chance)
    return model


def draw_lines(pieces, chance):
    """Words of the vocabulary; short lines and long ones, past every distance that has a bucket of its own."""
    words = [pieces.id_to_piece(i).replace("\u2581", "") for i in range(3, len(pieces))]
    lengths = [chance.choice([0, 1, 2, 3, 5, 8, 20, 50, 150]) for _ in range(chance.randint(1, 5))]
    return [" ".join(chance.choices(words, k=length)) for length in lengths]


def draw_settings(chance):
    """How to search, as the checkpoint says it: greedily or with beams."""
    settings = {"prefix": PREFIX, "max_length": chance.choice([2, 10, 20, 40])}
    settings["num_beams"] = chance.choice([1, 2, 3, 4, 5])
    if settings["num_beams"] > 1:
        settings["early_stopping"] = chance.choice([True, True, False, "never"])
        settings["length_penalty"] = chance.choice([1.0, 1.0, 0.6, 2.0, 0.0, -0.5])
    return settings


def write(model, settings, folder, shards=None):
    """As save_pretrained writes it, with the settings of its task; and whether the embeddings are tied, which it does not write."""
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["tie_word_embeddings"] = model.config.scale_decoder_outputs
    config["task_specific_params"] = {"translation_en_to_fr": settings}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    shutil.copy(PIECES, folder)


@torch.inference_mode()
def search(model, inputs, settings):
    """Tokens of each sentence up to its end, and how near the nearest two numbers of its search were."""
    rows, nearest = [], []
    settings = {name: value for name, value in settings.items() if name != "prefix"}
    # Its cache has no room for more layers than the encoder's.
    settings["use_cache"] = model.config.num_decoder_layers <= model.config.num_layers
    for ids in inputs:
        model.nearest = float("inf")
        found = model.generate(torch.tensor([ids]), return_dict_in_generate=True, output_scores=True, **settings)
        if settings["num_beams"] == 1:
            model.watch(torch.topk(torch.stack(found.scores), 2)[0])
        row = found.sequences[0, 1:].tolist()
        rows.append(row[: row.index(1) + 1] if 1 in row else row)
        nearest.append(model.nearest)
    return rows, nearest


def draw_case(chance, folder):
    """A checkpoint in that folder; returns lines, tokens, and nearest numbers."""
    model = draw_model(draw_configuration(chance), chance)
    settings = draw_settings(chance)
    write(model, settings, folder, "100KB" if chance.random() < 0.2 else None)
    pieces = sentencepiece.SentencePieceProcessor(model_file=PIECES)
    lines = draw_lines(pieces, chance)
    rows, nearest = search(model, [pieces.encode(PREFIX + line) + [1] for line in lines], settings)
    return lines, rows, nearest


def base_shape(folder, steps, chance):
    """A random checkpoint of t5-base's shape; returns a line, and the logits of each step."""
    config = transformers.T5Config(d_model=768, d_kv=64, d_ff=3072, num_heads=12, num_layers=12, decoder_start_token_id=0)
    model, settings = draw_model(config, chance), {"prefix": PREFIX, "max_length": steps + 1, "num_beams": 1}
    for layer in model.decoder.block:  # 12 times the same from the encoder, and one token would win for ever
        layer.layer[1].EncDecAttention.o.weight.data.mul_(0.1)
    write(model, settings, folder)
    line = "the third of March nineteen forty-two " * 8
    ids = sentencepiece.SentencePieceProcessor(model_file=PIECES).encode(PREFIX + line) + [1]
    settings = {"max_length": steps + 1, "num_beams": 1, "return_dict_in_generate": True, "output_logits": True}
    with torch.inference_mode():
        return line, [row[0].tolist() for row in model.generate(torch.tensor([ids]), **settings).logits]
