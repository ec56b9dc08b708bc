/* oneDNN's primitives: matrix products in f32 and bf16, with weights as they are or packed once in the layout that it likes best;
 * softmax. */
#include <unordered_map>

#include "onednn.h"
#include "peers.h"

namespace {

using dnnl::memory;
using peers::Races;
using peers::Shape;
using Tag = memory::format_tag;

/* Memory of the caller's; oneDNN's interface knows no constant data. */
memory view(const memory::desc &desc, const dnnl::engine &engine, const float *data) {
    return memory(desc, engine, const_cast<float *>(data));
}

using Type = memory::data_type;

memory::desc matrix(int64_t rows, int64_t columns, Tag tag = Tag::ab, Type type = Type::f32) {
    return memory::desc({rows, columns}, type, tag);
}

/* The same numbers in another layout or type. */
memory reordered(memory from, const memory::desc &desc, const dnnl::engine &engine, dnnl::stream stream) {
    memory to(desc, engine);
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    return to;
}

/* The constructors of descriptors changed in version 3. */
#if DNNL_VERSION_MAJOR >= 3
dnnl::matmul::primitive_desc product(const dnnl::engine &engine, const memory::desc &a, const memory::desc &b,
                                     const memory::desc &c) {
    return dnnl::matmul::primitive_desc(engine, a, b, c);
}
dnnl::primitive row_softmax(const dnnl::engine &engine, const memory::desc &desc) {
    return dnnl::softmax_forward(dnnl::softmax_forward::primitive_desc(engine, dnnl::prop_kind::forward_inference,
                                                                       dnnl::algorithm::softmax_accurate, desc, desc, 1));
}
#else
dnnl::matmul::primitive_desc product(const dnnl::engine &engine, const memory::desc &a, const memory::desc &b,
                                     const memory::desc &c) {
    return dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), engine);
}
dnnl::primitive row_softmax(const dnnl::engine &engine, const memory::desc &desc) {
    return dnnl::softmax_forward(
        dnnl::softmax_forward::primitive_desc(dnnl::softmax_forward::desc(dnnl::prop_kind::forward_inference, desc, 1), engine));
}
#endif

void race_primitive(Races &races, const std::string &variant, const dnnl::primitive &primitive, dnnl::stream stream,
                    const std::unordered_map<int, memory> &arguments) {
    races.race(variant, [&] {
        primitive.execute(stream, arguments);
        stream.wait();
    });
}

/* Of weights that are not packed. */
Tag weights_tag(const Shape &shape) { return shape.kind == peers::gemm_transposed ? Tag::ba : Tag::ab; }

void run_gemm(Races &races, const Shape &shape, const dnnl::engine &engine, dnnl::stream stream) {
    const bool transposed = shape.kind == peers::gemm_transposed;
    const auto pd = product(engine, matrix(shape.m, shape.k),
                            matrix(shape.k, shape.n, shape.prepared ? Tag::any : weights_tag(shape)), matrix(shape.m, shape.n));
    const memory a = view(pd.src_desc(), engine, shape.input[0]), c = view(pd.dst_desc(), engine, shape.output);
    const memory plain = view(matrix(shape.k, shape.n, weights_tag(shape)), engine, shape.input[1]);
    if (!shape.prepared) {
        race_primitive(races, "matmul", dnnl::matmul(pd), stream,
                       {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, plain}, {DNNL_ARG_DST, c}});
        races.race("sgemm", [&] {
            dnnl_sgemm('N', transposed ? 'T' : 'N', shape.m, shape.n, shape.k, 1, shape.input[0], shape.k, shape.input[1],
                       transposed ? shape.k : shape.n, 0, shape.output, shape.n);
        });
        return;
    }
    const peers::Floats weights = peers::allocate(static_cast<int64_t>(pd.weights_desc().get_size() + 3) / 4);
    memory packed = view(pd.weights_desc(), engine, weights.get()), from = plain;
    dnnl::reorder(from, packed).execute(stream, from, packed);
    stream.wait();
    race_primitive(races, "matmul, weights packed", dnnl::matmul(pd), stream,
                   {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, c}});
}

/* All three of bf16. */
void run_bf16(Races &races, const Shape &shape, const dnnl::engine &engine, dnnl::stream stream) {
    const auto pd = product(engine, matrix(shape.m, shape.k, Tag::ab, Type::bf16),
                            matrix(shape.k, shape.n, shape.prepared ? Tag::any : weights_tag(shape), Type::bf16),
                            matrix(shape.m, shape.n, Tag::ab, Type::bf16));
    const dnnl::matmul primitive(pd);
    const memory a = reordered(view(matrix(shape.m, shape.k), engine, shape.input[0]), pd.src_desc(), engine, stream);
    const memory b =
        reordered(view(matrix(shape.k, shape.n, weights_tag(shape)), engine, shape.input[1]), pd.weights_desc(), engine, stream);
    memory c(pd.dst_desc(), engine), result = view(matrix(shape.m, shape.n), engine, shape.output);
    races.race(
        shape.prepared ? "matmul, weights packed" : "matmul",
        [&] {
            primitive.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
            stream.wait();
        },
        [&] {
            dnnl::reorder(c, result).execute(stream, c, result);
            stream.wait();
        });
}

void run(Races &races, const Shape &shape) {
    static const dnnl::engine engine = onednn_engine();
    static const dnnl::stream stream(engine);
    const bool is_gemm = shape.kind == peers::gemm || shape.kind == peers::gemm_transposed;
    if (is_gemm && shape.bf16)
        run_bf16(races, shape, engine, stream);
    else if (is_gemm)
        run_gemm(races, shape, engine, stream);
    if (shape.kind == peers::softmax) {
        const memory::desc desc = matrix(shape.m, shape.n);
        race_primitive(races, "softmax", row_softmax(engine, desc), stream,
                       {{DNNL_ARG_SRC, view(desc, engine, shape.input[0])}, {DNNL_ARG_DST, view(desc, engine, shape.output)}});
    }
}

} // namespace

int main(int argc, char **argv) {
    Races races("oneDNN", onednn_version(), argc, argv);
    return run_all(races, run);
}
