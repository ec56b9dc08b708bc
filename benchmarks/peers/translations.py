"""Tokens per second of a translation: examples/translate beside PyTorch with Hugging Face's generate(), on a random checkpoint of
t5-base's shape.  64 new tokens of each line, none of which ends it; lines of one length, so that nobody has to pad.  And heed with
weights of 16 and 8 bits beside itself in f32."""

import ctypes
import itertools
import os
import re
import shutil
import sys
import tempfile

import model_race
import numpy
import torch
import transformers

LENGTHS, BATCHES, BEAMS, STEPS = (16, 128, 512), (1, 8), (1, 4), 64
F32, BF16, Q8_0 = 0, 1, 4  # enum heed_type
F32_VARIANT, BF16_VARIANT = "generate", "generate, bf16"
LINE = "The quick brown fox jumps over the lazy dog near the bank.\n"
PIECES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/translate/model/spiece.model")
LEAST_SAME = 0.75  # of all tokens: a sum in another order decides between two that are as good as equal, and then all else is new


class Heed:
    def __init__(self, library, folder, threads):
        self._library, self._folder, self._threads, self._models = ctypes.CDLL(library), folder, threads, {}
        self._library.translations_isa.restype = ctypes.c_char_p
        self._library.translations_model.restype = ctypes.c_void_p
        self._library.translations_open.restype = ctypes.c_void_p
        self.isa = self._library.translations_isa().decode()

    def _model(self, weights):
        if weights not in self._models:
            model = self._library.translations_model(os.fsencode(self._folder), ctypes.c_int(weights), ctypes.c_int(self._threads))
            self._models[weights] = ctypes.c_void_p(model)
        return self._models[weights]

    def prepare(self, tokens, beams, weights=F32):
        tokens = numpy.ascontiguousarray(tokens, dtype=numpy.int32)
        said = numpy.empty((len(tokens), STEPS), dtype=numpy.int32)
        lines, length, *search = [ctypes.c_int64(size) for size in (*tokens.shape, beams, STEPS)]
        places, opened = [ctypes.c_void_p(array.ctypes.data) for array in (tokens, said)], []

        def call(kept=tokens):  # `places` has only its address
            if not opened:
                threads = ctypes.c_int(self._threads)
                opened.append(ctypes.c_void_p(self._library.translations_open(self._model(weights), threads, lines, *search)))
            self._library.translations_run(opened[0], places[0], lines, length, places[1])
            return said

        return call


class PyTorch:
    def __init__(self, folder, threads):
        torch.set_num_threads(threads)
        self._folder, self._models = folder, {}

    def variants(self, tokens, beams):
        tokens = torch.from_numpy(tokens)
        settings = {"num_beams": beams, "early_stopping": beams > 1, "max_new_tokens": STEPS}
        for name, dtype in (F32_VARIANT, torch.float32), (BF16_VARIANT, torch.bfloat16):
            yield name, lambda dtype=dtype: self._model(dtype).generate(tokens, **settings)[:, 1:].numpy()

    def _model(self, dtype):
        if dtype not in self._models:
            self._models[dtype] = transformers.T5ForConditionalGeneration.from_pretrained(self._folder, dtype=dtype).eval()
            self._models[dtype].generation_config.eos_token_id = None
        return self._models[dtype]


def checkpoint():
    """Of t5-base's shape, written once.  Small embeddings, and little from the encoder, make tokens vary."""
    folder = os.environ.get("PEERS_T5") or os.path.join(tempfile.gettempdir(), f"heed-peers-t5-{os.getuid()}")
    if os.path.exists(os.path.join(folder, "spiece.model")):
        return folder
    torch.manual_seed(1)
    config = transformers.T5Config(d_model=768, d_kv=64, d_ff=3072, num_heads=12, num_layers=12, decoder_start_token_id=0)
    model = transformers.T5ForConditionalGeneration(config)
    model.shared.weight.mul_(0.1)
    model.decoder.final_layer_norm.weight.mul_(20)
    for layer in model.decoder.block:
        layer.layer[1].EncDecAttention.o.weight.mul_(0.1)
    model.save_pretrained(folder)
    shutil.copy(PIECES, folder)
    return folder


def random_tokens(lines, length):
    return numpy.random.default_rng(length).integers(3, 32000, (lines, length), dtype=numpy.int64)


def wanted(options, *names):
    return re.search(options.filter, "/".join([*names, f"threads:{options.threads}"]))


def race_peer(options, records, names, calls, peer):
    """In f32 the tokens must be the same; in bf16 they cannot be."""
    heed, tokens, beams = calls
    for variant, function in peer.variants(tokens, beams):
        if wanted(options, names["group"], names["work"], variant):
            same = float((function() == heed()).mean())
            if same < LEAST_SAME and variant == F32_VARIANT:
                sys.exit(f"{names}: {same:.0%} of the tokens are the same, one of the results is wrong")
            records.race({**names, "variant": variant}, heed, function, 1 - same)


def run_cell(options, records, heed, peer, lines, length, beams):
    names = {"work": f"{lines} of {length}, " + (f"beam {beams}" if beams > 1 else "greedy"), "variant": "", "flops": 0}
    tokens = random_tokens(lines, length)
    first = heed.prepare(tokens, beams)
    names.update(group="translation", peer="PyTorch", version=torch.__version__)
    race_peer(options, records, names, (first, tokens, beams), peer)
    names.update(peer="heed, f32", version="")
    for name, weights in ("bf16", BF16), ("int8", Q8_0):
        names["group"] = "translation, " + name
        if wanted(options, names["group"], names["work"]):
            stored = heed.prepare(tokens, beams, weights)
            records.race(names, stored, first, 1 - float((stored() == first()).mean()))


def race_cold(options, folder, records):
    if wanted(options, "translation, cold"):
        names = {"group": "translation, cold", "peer": "PyTorch", "version": torch.__version__, "variant": "", "flops": 0}
        itself = os.path.join(os.path.dirname(__file__), "translations_cold.py")
        command = [sys.executable, itself, str(options.threads), folder]
        program = [options.program, f"--threads={options.threads}", "--max-tokens=1", folder]
        records.race_cold(names, program, command, LINE)


def main():
    transformers.logging.set_verbosity_error()
    options, folder = model_race.arguments(), checkpoint()
    heed = Heed(options.library, folder, options.threads)
    records = model_race.Records(options.records, options.threads, heed.isa, options.short, model_race.quiet_of(options.library))
    peer = PyTorch(folder, options.threads)
    for lines, length, beams in itertools.product(BATCHES, LENGTHS, BEAMS):
        run_cell(options, records, heed, peer, lines, length, beams)
    race_cold(options, folder, records)


with torch.inference_mode():
    main()
