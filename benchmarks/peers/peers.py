"""Lets a peer of Python race against heed: the C++ side (python.cc) has the work, checks the results and times both."""

import ctypes
import sys

import numpy

GEMM, SOFTMAX, ATTENTION, _, GEMM_TRANSPOSED = range(5)
SIZES = ("m", "n", "k", "heads", "kv_heads", "queries", "keys", "head_dim", "causal", "bf16", "weights", "as_i8", "threads")
# A call from Python costs some microseconds by itself, whatever it calls: smaller products say nothing about the kernels.
LEAST_FLOPS = 1e6


class Shape(ctypes.Structure):
    """struct Shape of peers.h."""

    _fields_ = (
        [(name, ctypes.c_int64) for name in ("kind", "prepared") + SIZES]
        + [("input", ctypes.POINTER(ctypes.c_float) * 3), ("output", ctypes.POINTER(ctypes.c_float))]
    )

    def array(self, index, *shape):
        """Input number `index`, where it is."""
        return numpy.ctypeslib.as_array(self.input[index], shape)

    def result(self, *shape):
        """The peer's output, where it has to be."""
        return numpy.ctypeslib.as_array(self.output, shape)


class Races:
    """The arguments: library, then those of the native programs."""

    CALLBACK = ctypes.CFUNCTYPE(None)

    def __init__(self, peer, version):
        arguments = [word.encode() for word in sys.argv[1:]]
        self._library = library = ctypes.CDLL(sys.argv[1])
        library.peers_open.restype = ctypes.c_void_p
        library.peers_count.restype = ctypes.c_int64
        library.peers_start.restype = ctypes.POINTER(Shape)
        self._races = ctypes.c_void_p(
            library.peers_open(
                peer.encode(), version.encode(), len(arguments), (ctypes.c_char_p * len(arguments))(*arguments)
            )
        )
        if not self._races:
            sys.exit(1)

    def run(self, run):
        """Calls run(races, shape) for each piece of work; ends the program."""
        for index in range(self._library.peers_count(self._races)):
            started = self._library.peers_start(self._races, ctypes.c_int64(index))
            if not started:
                sys.exit(1)
            shape = started.contents
            if shape.kind not in (GEMM, GEMM_TRANSPOSED, SOFTMAX, ATTENTION):
                continue
            if shape.kind in (GEMM, GEMM_TRANSPOSED) and 2 * shape.m * shape.n * shape.k < LEAST_FLOPS:
                continue
            run(self, shape)
        sys.exit(1 if self._library.peers_close(self._races) else 0)

    def race(self, variant, prepare):
        """prepare() sets one way up and returns what to time, and what then copies the result to its place, or None."""
        try:
            call, fetch = prepare()
            call()
        except Exception as problem:  # whatever the libraries throw: this version does not have it, or not for this shape
            words = " ".join(str(problem).split()) or type(problem).__name__
            self._library.peers_cannot(self._races, variant.encode(), words[:160].encode())
            return
        # They must live as long as the race.
        callbacks = [self.CALLBACK(function) if function else None for function in (call, fetch)]
        self._library.peers_race(self._races, variant.encode(), *callbacks)
