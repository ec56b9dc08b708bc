"""PyTorch: products by MKL with weights as they are, and packed once for MKL or oneDNN (what its compiler does when it freezes a
model); scaled dot product attention with its flash kernel and without; softmax."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import peers


def tensor(array, bf16=0):
    made = torch.from_numpy(array)
    return made.to(torch.bfloat16) if bf16 else made


def run_gemm(races, shape):
    a = tensor(shape.array(0, shape.m, shape.k), shape.bf16)
    b = tensor(shape.array(1, shape.k, shape.n), shape.bf16)
    c = tensor(shape.result(shape.m, shape.n))
    if not shape.prepared:
        out = torch.empty_like(c, dtype=a.dtype) if shape.bf16 else c
        fetch = (lambda: c.copy_(out)) if shape.bf16 else None
        races.race("mm", lambda: (lambda: torch.mm(a, b, out=out), fetch))
        if shape.m == 1:
            races.race("mv", lambda: (lambda: torch.mv(b.t(), a[0], out=out[0]), fetch))
        return
    latest = []

    def keep(function):
        """Results come in memory of PyTorch's own."""

        def call():
            latest[:] = [function()]

        return call, lambda: c.copy_(latest[0])

    def linear():
        weights = b.t().contiguous()
        return keep(lambda: torch.nn.functional.linear(a, weights))

    def mkl():
        weights = b.t().contiguous()
        packed = torch.ops.mkl._mkl_reorder_linear_weight(weights, shape.m)
        return keep(lambda: torch.ops.mkl._mkl_linear(a, packed, weights, None, shape.m))

    def onednn():
        packed = torch.ops.mkldnn._reorder_linear_weight(b.t().contiguous(), shape.m)
        return keep(lambda: torch.ops.mkldnn._linear_pointwise(a, packed, None, "none", [], ""))

    races.race("linear", linear)
    if not shape.bf16:
        races.race("linear packed for MKL", mkl)
    races.race("linear packed for oneDNN", onednn)


def run_gemm_transposed(races, shape):
    a = tensor(shape.array(0, shape.m, shape.k), shape.bf16)
    weights = tensor(shape.array(1, shape.n, shape.k), shape.bf16)
    c, latest = tensor(shape.result(shape.m, shape.n)), []

    def call():
        latest[:] = [torch.nn.functional.linear(a, weights)]

    races.race("linear", lambda: (call, lambda: c.copy_(latest[0])))


def run_attention(races, shape):
    query = tensor(shape.array(0, 1, shape.heads, shape.queries, shape.head_dim), shape.bf16)
    key, value = (tensor(shape.array(i, 1, shape.kv_heads, shape.keys, shape.head_dim), shape.bf16) for i in (1, 2))
    output = tensor(shape.result(*query.shape))

    def race(variant, backend, query, **options):
        def prepare():
            latest = []

            def call():
                latest[:] = [scaled_dot_product_attention(query, key, value, is_causal=bool(shape.causal), **options)]

            return call, lambda: output.copy_(latest[0].view(output.shape))

        with sdpa_kernel(backend):
            races.race(variant, prepare)

    grouped = {"enable_gqa": True} if shape.heads > shape.kv_heads else {}
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("math", SDPBackend.MATH)):
        race(name, backend, query, **grouped)
        if grouped:  # heads that share keys and values, as so many queries of one head: the same numbers
            race(name + ", heads as rows", backend, query.view(1, shape.kv_heads, -1, shape.head_dim))


def run_softmax(races, shape):
    rows, output = tensor(shape.array(0, shape.m, shape.n)), tensor(shape.result(shape.m, shape.n))
    races.race("softmax", lambda: (lambda: torch.softmax(rows, -1, out=output), None))


def run(races, shape):
    torch.set_num_threads(shape.threads)
    {
        peers.GEMM: run_gemm,
        peers.GEMM_TRANSPOSED: run_gemm_transposed,
        peers.SOFTMAX: run_softmax,
        peers.ATTENTION: run_attention,
    }[shape.kind](races, shape)


with torch.inference_mode():
    peers.Races("PyTorch", torch.__version__).run(run)
