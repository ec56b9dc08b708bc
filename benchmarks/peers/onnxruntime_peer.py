"""ONNX Runtime: products with weights as an input and as a constant, which it packs when it loads the model; the Attention of
ONNX, and its own MultiHeadAttention (flash kernel on and off) and GroupQueryAttention; softmax.  A model per piece of work."""

import os

import numpy
import onnxruntime
from onnx import helper, numpy_helper

import peers

OWN = "com.microsoft"


def model(node, inputs, outputs, constants=None):
    """One node; inputs and outputs: name -> array."""

    def info(name, array):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    graph = helper.make_graph(
        [node],
        "work",
        [info(*each) for each in inputs.items()],
        [info(*each) for each in outputs.items()],
        [numpy_helper.from_array(*each[::-1]) for each in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid(OWN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString()


def prepare(shape, node, inputs, outputs, constants=None, fetch=None):
    """A session whose tensors are bound once to where they are."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = shape.threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(model(node, inputs, outputs, constants), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for bind, arrays in ((binding.bind_input, inputs), (binding.bind_output, outputs)):
        for name, array in arrays.items():
            bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    run_options = onnxruntime.RunOptions()

    def call(kept=(inputs, outputs)):  # the binding has only their addresses
        session.run_with_iobinding(binding, run_options)

    return call, fetch


def run_gemm(races, shape):
    a, b = {"a": shape.array(0, shape.m, shape.k)}, {"b": shape.array(1, shape.k, shape.n)}
    c = {"c": shape.result(shape.m, shape.n)}
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    if shape.prepared:
        races.race("MatMul, constant weights", lambda: prepare(shape, node, a, c, constants=b))
    else:
        races.race("MatMul", lambda: prepare(shape, node, {**a, **b}, c))


def run_gemm_transposed(races, shape):
    inputs = {"a": shape.array(0, shape.m, shape.k), "b": shape.array(1, shape.n, shape.k)}
    node = helper.make_node("Gemm", ["a", "b"], ["c"], transB=1)
    races.race("Gemm", lambda: prepare(shape, node, inputs, {"c": shape.result(shape.m, shape.n)}))


def run_softmax(races, shape):
    rows, output = {"x": shape.array(0, shape.m, shape.n)}, {"y": shape.result(shape.m, shape.n)}
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    races.race("Softmax", lambda: prepare(shape, node, rows, output))


def token_major(array):
    """[1, heads, tokens, width] as [1, tokens, heads * width]."""
    return numpy.ascontiguousarray(array.transpose(0, 2, 1, 3)).reshape(1, array.shape[2], -1)


class Attention:
    """The ways to do attention, on tensors by head or by token."""

    def __init__(self, races, shape):
        self.races, self.shape = races, shape
        self.by_head = {"q": shape.array(0, 1, shape.heads, shape.queries, shape.head_dim)}
        for index, name in enumerate("kv"):
            self.by_head[name] = shape.array(index + 1, 1, shape.kv_heads, shape.keys, shape.head_dim)
        self.output = shape.result(1, shape.heads, shape.queries, shape.head_dim)

    def race(self, variant, node, tensors, outputs, fetch=None):
        self.races.race(variant, lambda: prepare(self.shape, node, tensors, outputs, fetch=fetch))

    def standard(self):
        """Query [1, heads, queries, head_dim] and so on."""
        node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=self.shape.causal)
        self.race("Attention", node, self.by_head, {"y": self.output})

    def from_tokens(self, output):
        self.output[:] = output.reshape(1, self.shape.queries, self.shape.heads, -1).transpose(0, 2, 1, 3)

    def multi_head(self, flash):
        tensors = {name: token_major(array) for name, array in self.by_head.items()}
        output = numpy.empty_like(tensors["q"])
        node = helper.make_node(
            "MultiHeadAttention", ["q", "k", "v"], ["y"], domain=OWN, num_heads=self.shape.heads, unidirectional=self.shape.causal
        )
        os.environ["ORT_DISABLE_FLASH_ATTENTION"] = "0" if flash else "1"  # asked when the session is made
        variant = "MultiHeadAttention, " + ("flash" if flash else "no flash")
        self.race(variant, node, tensors, {"y": output}, lambda: self.from_tokens(output))

    def group_query(self):
        """Always causal.  All tokens are new, or one is, and the others are in a cache that input and output share."""
        shape, decode = self.shape, self.shape.queries == 1
        last = {name: array[:, :, -shape.queries :] for name, array in self.by_head.items()}
        tensors = {name: token_major(array) for name, array in last.items()}
        tensors["lengths"] = numpy.array([shape.keys - 1], numpy.int32)
        tensors["total"] = numpy.array([shape.keys], numpy.int32)
        caches = {name: self.by_head[name].copy() for name in "kv"}
        if decode:
            tensors.update(past_k=caches["k"], past_v=caches["v"])
        past = ["past_k", "past_v"] if decode else ["", ""]
        output = numpy.empty_like(tensors["q"])
        node = helper.make_node(
            "GroupQueryAttention",
            ["q", "k", "v", *past, "lengths", "total"],
            ["y", "new_k", "new_v"],
            domain=OWN,
            num_heads=shape.heads,
            kv_num_heads=shape.kv_heads,
        )
        outputs = {"y": output, "new_k": caches["k"], "new_v": caches["v"]}
        self.race("GroupQueryAttention", node, tensors, outputs, lambda: self.from_tokens(output))


def run_attention(races, shape):
    ways = Attention(races, shape)
    ways.standard()
    if shape.heads == shape.kv_heads:
        if not shape.causal:
            ways.multi_head(flash=True)  # its flash kernel knows no order
        ways.multi_head(flash=False)
    if shape.causal or shape.queries == 1:
        ways.group_query()


def run(races, shape):
    if shape.bf16:
        return  # its CPU kernels are of floats
    {
        peers.GEMM: run_gemm,
        peers.GEMM_TRANSPOSED: run_gemm_transposed,
        peers.SOFTMAX: run_softmax,
        peers.ATTENTION: run_attention,
    }[shape.kind](races, shape)


peers.Races("ONNX Runtime", onnxruntime.__version__).run(run)
