"""Random calls of heed run against attention by NumPy in float64, each result within a bound of heed's error.

    tool_numpy.py path/to/heed          EMULATOR: command that runs it; files go to the current folder
"""
import itertools
import os
import shlex
import subprocess
import sys

import numpy as np

command = shlex.split(os.environ.get("EMULATOR", "")) + [sys.argv[1], "run"]
u = 2.0**-24
rng = np.random.default_rng(7)


def layouts(x, split):
    """The same tensor as files of 4 and 3 (and, without a batch, 2) dimensions."""
    b, h, t, d = x.shape
    if not split:
        return x if b > 1 else x[0]
    rows = x.swapaxes(1, 2).reshape(b, t, h * d)
    return rows if b > 1 else rows[0]


def stored(x, kind):
    """What remains of x in this type, and the array to save: NumPy has no bfloat16, but arrays of two bytes."""
    if kind == "f16":
        return x.astype(np.float16).astype(np.float32), x.astype(np.float16)
    if kind == "bf16":
        bits = x.view(np.uint32)
        half = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        return (half.astype(np.uint32) << 16).view(np.float32), half.view("V2")
    return x, x


class Call:
    """A command line, and what it means for the scores of all pairs of a query and a key."""

    def __init__(self, batch, heads, kv_heads, queries, keys, dim, value_dim, dtype=np.float32):
        self.shape = (batch, heads, queries, keys)
        self.q, self.k, self.v = (rng.standard_normal(s).astype(dtype) for s in (
            (batch, heads, queries, dim), (batch, kv_heads, keys, dim), (batch, kv_heads, keys, value_dim)))
        self.files = {"q": self.q, "k": self.k, "v": self.v}
        self.unit = 0  # of the output's type: the largest relative error of rounding to it
        self.arguments = "--query q.npy --key k.npy --value v.npy -o out.npy --weights w.npy --lse l.npy".split()
        self.seen = np.ones(self.shape, dtype=bool)
        self.lengths = np.full(batch, keys)
        self.align = lambda lengths: 0 * lengths
        self.within = []  # what a query may see by its distance to a key
        self.terms = []  # to be added to scores, each a function of that distance
        self.cap = self.sinks = self.stage = None

    def types(self):
        for name in self.files:
            x, self.files[name] = stored(self.files[name], rng.choice(["f32", "bf16", "f16"]))
            setattr(self, name, x)
        output = rng.choice(["f32", "bf16", "f16"])
        self.add("--output-type=" + output)
        self.unit = {"f32": 0, "bf16": 2.0**-8, "f16": 2.0**-11}[output]

    def add(self, option, name=None, array=None):
        if array is not None:
            np.save(name, array)
        self.arguments += [option]

    def causal(self, which):
        self.add("--causal=" + str(which))
        self.within.append(lambda ahead: ahead <= 0)
        self.place(which)

    def place(self, which):
        queries = self.shape[2]
        self.align = {"top-left": lambda lengths: 0 * lengths,
                      "bottom-right": lambda lengths: lengths - queries}.get(which, lambda lengths: 0 * lengths + which)

    def window(self, left, right):
        self.add(f"--window={left},{right}")
        self.within.append(lambda ahead: ((left < 0) | (-ahead <= left)) & ((right < 0) | (ahead <= right)))

    def key_lengths(self):
        self.lengths = rng.integers(0, self.shape[3] + 1, self.shape[0])
        self.add("--key-lengths=n.npy", "n.npy", self.lengths)

    def broadcast(self):
        """A shape that broadcasts to one element for each score."""
        shape = [size if rng.integers(2) else 1 for size in self.shape]
        return shape[rng.integers(4):]

    def mask(self):
        mask = rng.integers(0, 4, self.broadcast()) > 0
        self.add("--mask=m.npy", "m.npy", mask if rng.integers(2) else mask.astype(np.uint8))
        self.seen &= mask

    def bias(self):
        bias = rng.standard_normal(self.broadcast()).astype(np.float32)
        bias[rng.integers(0, 8, bias.shape) == 0] = -np.inf
        self.add("--bias=b.npy", "b.npy", bias)
        self.seen &= bias > -np.inf
        self.terms.append(lambda ahead: np.where(bias > -np.inf, bias, 0).astype(np.float64))

    def softcap(self, cap):
        self.add(f"--softcap={cap}")
        self.cap = cap

    def alibi(self, own):
        heads = self.shape[1]
        slopes = rng.random(heads).astype(np.float32) if own else np.array(self.geometric(heads), dtype=np.float32)
        self.add("--alibi=a.npy" if own else "--alibi", "a.npy", slopes)
        self.terms.append(lambda ahead: -slopes.astype(np.float64)[:, None, None] * abs(ahead))

    @staticmethod
    def geometric(heads):
        """As in the code of Press et al. 2022."""
        if heads & (heads - 1) == 0:
            return [2.0 ** (-8 / heads * (i + 1)) for i in range(heads)]
        power = 1 << heads.bit_length() - 1
        return Call.geometric(power) + Call.geometric(2 * power)[0::2][: heads - power]

    def sink(self):
        self.sinks = rng.standard_normal(self.shape[1]).astype(np.float32)
        self.sinks[0] = -np.inf
        self.add("--sinks=s.npy", "s.npy", self.sinks)

    def scores(self, stage):
        self.stage = stage
        self.arguments += ["--scores=x.npy"] + ([] if stage == "raw" else ["--score-stage=" + stage])

    def score_pairs(self, q, k):
        """Scores, the bound of their error (derived in seed_bounds.h), which are seen, and the scores at the stage asked for."""
        queries, keys = self.shape[2:]
        offsets = self.align(self.lengths)[:, None, None, None]
        ahead = np.arange(keys)[None, :] - np.arange(queries)[:, None] - offsets
        near = np.arange(keys) < self.lengths[:, None, None, None]
        for within in self.within:
            near = near & within(ahead)
        x = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        e = (q.shape[-1] + 3) * u * (abs(q) @ abs(k).swapaxes(-1, -2)) / np.sqrt(q.shape[-1])
        stages = {"raw": x}
        if self.cap:
            x, e = self.cap * np.tanh(x / self.cap), e + 5 * u * abs(x)
        stages["capped"] = x
        for term in self.terms:
            x = x + term(ahead)
            e = e + u * abs(x)
        e = e + 3 * u * abs(x)  # the product with log2(e), or that of a score with ln(2)
        seen = self.seen & near
        stages["biased"] = np.where(seen, x, -np.inf)
        return x, e, seen, np.where(near, stages[self.stage or "raw"], -np.inf)

    def reference(self):
        """Each result, and the bound of its error."""
        q, k, v = (x.astype(np.float32).astype(np.float64) for x in (self.q, self.k, self.v))
        k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
        x, e, seen, stage = self.score_pairs(q, k)
        if self.sinks is not None:  # a key without a value
            sink = np.broadcast_to(self.sinks.astype(np.float64)[:, None, None], self.shape[:3] + (1,))
            finite = np.where(sink > -np.inf, sink, 0)
            x, e = np.concatenate((x, finite), -1), np.concatenate((e, 3 * u * abs(finite)), -1)
            seen = np.concatenate((seen, sink > -np.inf), -1)
        top = np.where(seen, x, -np.inf).max(-1, keepdims=True)
        top = np.where(top > -np.inf, top, 0)
        weights = np.where(seen, np.exp(np.minimum(x - top, 0)), 0)
        total = weights.sum(-1, keepdims=True)
        weights = weights / np.where(total > 0, total, 1)
        with np.errstate(divide="ignore"):
            lse = (top + np.log(total))[..., 0]
        t = np.where(seen, e + u * abs(top - x) + 2 * u, 0).max(-1, keepdims=True)
        keys = self.shape[3]
        relative = np.expm1(2 * t) + (keys + 2) * u
        weights = weights[..., :keys]
        results = {"out.npy": (weights @ v, (relative + (keys + 2) * u) * (weights @ abs(v))),
                   "w.npy": (weights, relative * weights + 2.0**-126),
                   "l.npy": (lse, relative[..., 0] + 4 * u * abs(np.where(lse > -np.inf, lse, 0)))}
        if self.stage:
            results["x.npy"] = (stage, e[..., :keys])
        return results

    def check(self, split=False):
        for name, x in self.files.items():
            np.save(name + ".npy", np.ascontiguousarray(layouts(x, split)))
        heads = ["--heads", str(self.shape[1]), "--kv-heads", str(self.k.shape[1])] if split else []
        subprocess.run(command + self.arguments + heads, check=True, stdout=subprocess.DEVNULL)
        for name, (want, bound) in self.reference().items():
            got = np.load(name)
            if name == "out.npy":
                want, bound = layouts(want, split), layouts(bound, split)
                assert got.shape == want.shape, (got.shape, want.shape)
                if got.dtype == "V2":
                    got = (got.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
                got = got.astype(np.float32)
                bound = bound + self.unit * (abs(want) + bound) + (2.0**-24 if self.unit else 0)
            assert got.dtype == np.float32 and got.size == want.size, (name, got.shape, want.shape)
            got = got.reshape(want.shape)
            with np.errstate(invalid="ignore"):
                good = (abs(got - want) <= bound) | (got == want)
            assert good.all(), (name, self.shape, self.arguments, got[~good][:4], want[~good][:4])


def check_layouts():
    count = 0
    for causal, split, batch, dtype in itertools.product(
            (None, "top-left", "bottom-right"), (False, True), (1, 2), (np.float32, np.float64)):
        for sizes in ((4, 2, 37, 300, 20, 33), (3, 1, 1, 70, 64, 64)):
            call = Call(batch, *sizes, dtype)
            if causal:
                call.causal(causal)
            call.check(split)
            count += 1
    return count


def check_options(count):
    for _ in range(count):
        heads = int(rng.integers(1, 4)) * (1 + int(rng.integers(2)))
        call = Call(int(rng.integers(1, 3)), heads, heads if rng.integers(2) else 1, int(rng.integers(1, 40)),
                    int(rng.integers(1, 600)), 20, 12)
        if rng.integers(2):
            call.types()
        where = [None, "top-left", "bottom-right", int(rng.integers(-5, 500))][rng.integers(4)]
        choices = [lambda: call.window(int(rng.integers(-1, 50)), int(rng.integers(-1, 50))), call.key_lengths, call.mask,
                   lambda: call.softcap(1.5), call.bias, lambda: call.alibi(rng.integers(2)), call.sink]
        if where is not None and rng.integers(2):
            call.causal(where)
        elif where is not None:
            call.add("--align=" + str(where))
            call.place(where)
        for choose in choices:
            if rng.integers(2):
                choose()
        if rng.integers(2):
            call.scores(["raw", "capped", "biased"][rng.integers(3)])
        call.check()
    return count


print(f"tool_test: {check_layouts() + check_options(60)} random calls agree with NumPy {np.__version__}")
