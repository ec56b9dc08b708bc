"""Tokens per second of a decoder: examples/generate beside llama.cpp, each on the same GGUF file, and beside PyTorch with Hugging
Face's model of these weights in f32 and bf16.  Prompts, and tokens one after another, at the beginning and after long texts.  All
get the same tokens and give the logits of the last one, which nobody chooses by."""

import ctypes
import importlib
import os
import re
import sys

import generations_model
import model_race
import numpy

# Name, the first position, tokens, and how many of them are computed together.
WORKS = (
    ("prompt of 256", 0, 256, 256),
    ("8 tokens after 256", 256, 8, 1),
    ("256 more after 1792", 1792, 256, 256),
    ("8 tokens after 2040", 2040, 8, 1),
)
VOCABULARY, POSITIONS = generations_model.CONFIG["vocab_size"], generations_model.POSITIONS
TOKENS = numpy.random.default_rng(2).integers(0, VOCABULARY, POSITIONS, dtype=numpy.int32)
# Of the logits; near 0 if one side did something else.  llama.cpp rounds what it multiplies with bf16 to bf16, what it multiplies
# with blocks to 8 bits, and keys and values to f16; PyTorch in bf16 rounds whatever it computes, layer after layer.
LEAST_COSINE = {"f32": 0.99999, "bf16": 0.998, "q8_0": 0.99, "q4_0": 0.99, "q5_0": 0.99, "q4_K_M": 0.98}
# Of a mixture, where a token goes to another expert if roundings make it likelier.
LEAST_COSINE.update({"mixture f32": 0.99, "mixture q8_0": 0.9, "mixture q4_0": 0.9})
LEAST_COSINE_OF_VARIANT = {"flash attention, f16": 0.999, "eager, bf16": 0.9}


BLOCKS = "q8_0", "q4_0", "q5_0", "q4_K_M", "mixture q8_0", "mixture q4_0"


class Sequence:
    """TOKENS, whose keys and values are there up to `known`."""

    known = 0

    def run(self, start, count, together):
        """Anew from a token on; returns the logits of the last."""
        if self.known < start:
            self.compute(self.known, start)
        for position in range(start, start + count, together):
            logits = self.compute(position, position + together)
        self.known = start + count
        return logits


class Heed(Sequence):
    """Prompts in bf16 where the peers round as much or more, if an instruction makes that quick; or all as bytes."""

    def __init__(self, library, kind, threads, as_i8):
        path, rounds = os.fsencode(generations_model.gguf(kind)), not kind.endswith("f32") and not as_i8
        arguments = ctypes.c_int(threads), ctypes.c_int64(POSITIONS), ctypes.c_int(rounds), ctypes.c_int(as_i8)
        self._library, self._sequence = library, ctypes.c_void_p(library.generations_open(path, *arguments))

    def compute(self, start, end):
        place = ctypes.c_void_p(TOKENS.ctypes.data + start * TOKENS.itemsize)
        return self._library.generations_run(self._sequence, place, ctypes.c_int64(start), ctypes.c_int64(end - start))


class Llama(Sequence):
    """As llama.cpp is unless told otherwise; and with keys and values as heed has them, which its flash attention rounds."""

    name = "llama.cpp"
    variants = {"flash attention, f16": {}, "cache of f32": {"type_k": 0, "type_v": 0, "flash_attn_type": 0}}
    instructions = "AMX_INT8", "AVX512", "AVX2", "NEON"

    def __init__(self, path, threads, variant):
        import llama_cpp

        self._llama, self._quiet = llama_cpp, llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._quiet, None)
        self._model = llama_cpp.llama_model_load_from_file(os.fsencode(path), llama_cpp.llama_model_default_params())
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = settings.n_batch = POSITIONS
        settings.n_threads = settings.n_threads_batch = threads
        for name, value in self.variants[variant].items():
            setattr(settings, name, value)
        self._context = llama_cpp.llama_init_from_model(self._model, settings)
        self._tokens = TOKENS.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token))
        known = llama_cpp.llama_print_system_info().decode()
        best = next((name for name in self.instructions if f"{name} = 1" in known), "")
        self.version = " ".join([llama_cpp.__version__, best]).strip()

    def compute(self, start, end):
        llama = self._llama
        llama.llama_memory_seq_rm(llama.llama_get_memory(self._context), 0, start, -1)
        place = ctypes.cast(ctypes.byref(self._tokens.contents, start * TOKENS.itemsize), type(self._tokens))
        if llama.llama_decode(self._context, llama.llama_batch_get_one(place, end - start)) != 0:
            sys.exit(f"llama.cpp: cannot compute tokens {start} to {end}")
        return llama.llama_get_logits(self._context)

    def close(self):
        self._llama.llama_free(self._context)
        self._llama.llama_model_free(self._model)


def together(tensors):
    """As Hugging Face's mixture has its experts: gates and what they meet as one tensor."""
    for name, array in tensors:
        if "gate_exps" in name:
            gate = array
        elif "up_exps" in name:
            yield name.replace("up_exps.weight", "experts.gate_up_proj"), numpy.concatenate([gate, array], axis=1)
        else:
            yield name.replace("down_exps.weight", "experts.down_proj"), array


class PyTorch(Sequence):
    name, variants = "PyTorch", {"f32": ("eager", "float32"), "bf16": ("eager, bf16", "bfloat16"), "mixture f32": ("eager", "float32")}

    def __init__(self, threads, kind):
        import torch
        import transformers

        torch.set_num_threads(threads)
        transformers.logging.set_verbosity_error()
        self._torch, self.version = torch, torch.__version__
        config = generations_model.config_of(kind)
        self._model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config)).eval()
        weights = {name: torch.from_numpy(array) for name, array in together(generations_model.stacked(config))}
        self._model.load_state_dict({**weights, "lm_head.weight": weights["model.embed_tokens.weight"]})
        self._model.to(getattr(torch, self.variants[kind][1]))
        self._cache, self._tokens = transformers.DynamicCache(), torch.from_numpy(TOKENS).long()[None]

    def compute(self, start, end):
        with self._torch.inference_mode():
            if self._cache.get_seq_length() > start:
                self._cache.crop(start - self._cache.get_seq_length())
            tokens = self._tokens[:, start:end]
            return self._model(tokens, past_key_values=self._cache, logits_to_keep=1).logits[0, 0].float().numpy()

    def close(self):
        pass


def has(*modules):
    try:
        return all(importlib.import_module(module) for module in modules)
    except Exception:  # ones that lack their library do not say it as others do
        return False


def peers(kind, threads):
    """Pairs of a variant and what makes it."""
    if has("llama_cpp"):
        for variant in Llama.variants:
            yield variant, lambda variant=variant: Llama(generations_model.gguf(kind), threads, variant)
    if kind in PyTorch.variants and has("torch", "transformers"):
        yield PyTorch.variants[kind][0], lambda: PyTorch(threads, kind)


def cosine(*logits):
    a, b = (numpy.ctypeslib.as_array(each, (VOCABULARY,)).astype(numpy.float64) for each in logits)
    return float(a @ b / numpy.sqrt((a @ a) * (b @ b)))


def race(records, names, work, sides, least):
    heed, peer = sides
    same = cosine(heed.run(*work), peer.run(*work))
    if not same >= least:
        sys.exit(f"{names}: cosine {same}, one of the results is wrong")
    names.update(peer=peer.name, version=peer.version, flops=0)
    records.race(names, lambda: heed.run(*work), lambda: peer.run(*work), 1 - same)


def run_kind(options, records, kind, library, as_i8):
    group, heed = "generation" if kind == "f32" else "generation, " + kind, None
    group += " as i8" if as_i8 else ""
    for variant, make in peers(kind, options.threads):
        wanted = [
            (work, sizes)
            for work, *sizes in WORKS
            if re.search(options.filter, "/".join([group, work, variant, f"threads:{options.threads}"]))
        ]
        if not wanted:
            continue
        heed, peer = heed or Heed(library, kind, options.threads, as_i8), make()
        for work, sizes in wanted:
            least = min(LEAST_COSINE[kind], LEAST_COSINE_OF_VARIANT.get(variant, 1))
            race(records, {"group": group, "work": work, "variant": variant}, sizes, (heed, peer), least)
        peer.close()


def main():
    options = model_race.arguments()
    library = ctypes.CDLL(options.library)
    library.generations_isa.restype = ctypes.c_char_p
    library.generations_open.restype = ctypes.c_void_p
    library.generations_run.restype = ctypes.POINTER(ctypes.c_float)
    isa, quiet = library.generations_isa().decode(), model_race.quiet_of(options.library)
    records = model_race.Records(options.records, options.threads, isa, options.short, quiet)
    for kind in generations_model.KINDS:
        for as_i8 in (False, True) if kind in BLOCKS else (False,):
            run_kind(options, records, kind, library, as_i8)


main()
