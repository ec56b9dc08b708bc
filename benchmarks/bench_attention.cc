/* Attention: prefill over sequence lengths and head sizes, full and causal, a ragged grouped-query case, decoding of one token, the
 * smallest problem, which shows a call's cost, and tensors stored in 16 bits and caches in 8. */
#include "attention_work.h"

#include <algorithm>

namespace bench {
namespace {

std::vector<Shape> prefill(std::initializer_list<int64_t> tokens) {
    std::vector<Shape> shapes;
    for (bool causal : {false, true})
        for (int64_t n : tokens) {
            shapes.push_back({1, 12, 12, n, n, 64, causal});
            shapes.push_back({1, 8, 8, n, n, 128, causal});
        }
    return shapes;
}

std::vector<Shape> all_shapes() {
    std::vector<Shape> shapes = prefill({128, 512, 2048, 4096});
    for (int64_t head_dim : {32, 80, 96, 256})
        shapes.push_back({1, 8, 8, 1024, 1024, head_dim, false});
    shapes.push_back({1, 4, 1, 1024, 1024, 64, false});
    shapes.push_back({1, 5, 1, 1000, 1000, 72, false}); /* and the nearest even shapes */
    for (int64_t head_dim : {64, 80})
        shapes.push_back({1, 5, 1, 1024, 1024, head_dim, false});
    for (int64_t keys : {1024, 4096, 32768})
        shapes.push_back({1, 32, 8, 1, keys, 128, false});
    shapes.push_back({1, 1, 1, 3, 3, 3, false});
    return shapes;
}

std::vector<Shape> typed_shapes() {
    std::vector<Shape> shapes = prefill({1024, 2048});
    for (int64_t keys : {1024, 4096, 32768})
        shapes.push_back({1, 32, 8, 1, keys, 128, false});
    shapes.push_back({1, 32, 8, 1, 4096, 64, false});
    return shapes;
}

std::vector<Shape> scalar_shapes() {
    std::vector<Shape> shapes = prefill({128});
    shapes.push_back({1, 32, 8, 1, 1024, 128, false});
    shapes.push_back({1, 1, 1, 3, 3, 3, false});
    return shapes;
}

std::vector<Shape> brief_shapes() {
    return {{1, 4, 2, 100, 300, 40, false},
            {1, 4, 4, 64, 64, 64, true},
            {1, 4, 4, 130, 130, 64, true},
            {1, 8, 2, 1, 700, 64, false},
            {1, 1, 1, 3, 3, 3, false}};
}

/* In pictures: those that are nothing but a length and a head size, and the scalar kernels' largest. */
std::string label_of(const Shape &shape) {
    if (shape.queries == 3)
        return "attention, 3 tokens";
    if (shape.heads != shape.kv_heads || (shape.queries != 2048 && (shape.queries != 128 || shape.causal)))
        return "";
    return "attention" + std::string(shape.causal ? ", causal, " : ", ") + std::to_string(shape.queries) +
           " tokens, D=" + std::to_string(shape.head_dim);
}

Curve curve_of(const Shape &shape) {
    const bool plain = shape.heads == shape.kv_heads && (shape.head_dim == 64 || shape.head_dim == 128);
    return {"head_dim " + std::to_string(shape.head_dim), shape.causal ? "causal" : "full", plain ? shape.queries : 0};
}

void add_shape(const Shape &shape, const std::string &isa, int threads) {
    Request request = request_of("attention", shape);
    request.label = label_of(shape);
    request.curve = curve_of(shape);
    if (shape.queries == 3)
        request.figure = Figure::time;
    request.make = [shape] { return std::make_unique<AttentionWork>(shape); };
    add(request, isa, threads);
}

std::unique_ptr<AttentionWork> work_in(heed_compute compute, const Shape &shape, const Storage &storage) {
    auto work = std::make_unique<AttentionWork>(shape, storage);
    work->request.compute = compute;
    return work;
}

/* Against the same stored as floats, or bytes, as integers too, against bf16; in pairs against those, and bf16 in pairs against
 * bf16 in f32. Decoding takes layers in turn that exceed the caches, for there half of the bytes count. */
void add_type(const Shape &shape, Storage::Kind kind, heed_type type, bool brief, const std::string &isa,
              heed_compute compute = HEED_COMPUTE_F32) {
    const auto storage_of = [&](heed_type stored) {
        const double layers = shape.queries > 1 || brief ? 1 : (256 << 20) / touched_bytes(shape, stored);
        return Storage{kind, std::max<int64_t>(1, static_cast<int64_t>(layers)), 64, stored};
    };
    const bool plain_is_bf16 = type == HEED_I8 || compute == HEED_COMPUTE_BF16;
    const Storage storage = storage_of(type), plain = storage_of(plain_is_bf16 ? HEED_BF16 : HEED_F32);
    const char *const option = kind == Storage::linear ? "linear" : kind == Storage::tokens ? "tokens" : "";
    Request request = request_of("attention", shape, option, type);
    request.working_set = static_cast<double>(storage.layers) * touched_bytes(shape, type);
    request.dtype += compute == HEED_COMPUTE_BF16 ? "_pairs" : compute == HEED_COMPUTE_I8 ? "_i8" : "";
    request.make = [=] { return work_in(compute, shape, storage); };
    request.make_plain = [=] { return work_in(type == HEED_I8 ? compute : HEED_COMPUTE_F32, shape, plain); };
    add(request, isa, 1);
}

/* Of bf16, in pairs or as AMX computes it, against the same in floats. */
void add_compute(const Shape &shape, heed_compute compute, const std::string &isa) {
    const Storage storage = {Storage::rows, 1, 64, HEED_BF16};
    Request request = request_of("attention", shape, "", HEED_BF16);
    request.dtype += compute == HEED_COMPUTE_BF16 ? "_pairs" : "_amx";
    request.make = [=] { return work_in(compute, shape, storage); };
    request.make_plain = [=] { return std::make_unique<AttentionWork>(shape, storage); };
    add(request, isa, 1);
}

void add_types(const Shape &shape, bool brief, const std::string &isa) {
    for (heed_type type : {HEED_BF16, HEED_F16}) {
        add_type(shape, Storage::rows, type, brief, isa);
        if (shape.queries == 1)
            add_type(shape, Storage::linear, type, brief, isa);
    }
    if (shape.queries == 1)
        for (heed_compute compute : {HEED_COMPUTE_F32, HEED_COMPUTE_I8})
            add_type(shape, Storage::linear, HEED_I8, brief, isa, compute);
}

/* Decoding in pairs, from what products take as it is. */
void add_decoding_in_pairs(const Plan &plan, const std::string &isa) {
    for (const Shape &shape : plan.brief ? brief_shapes() : typed_shapes()) {
        if (shape.queries != 1)
            continue;
        for (heed_type type : {HEED_BF16, HEED_I8})
            add_type(shape, Storage::linear, type, plan.brief, isa, HEED_COMPUTE_BF16);
        for (Storage::Kind kind : {Storage::rows, Storage::tokens})
            add_type(shape, kind, HEED_BF16, plan.brief, isa, HEED_COMPUTE_BF16);
    }
}

void add_computes(const Plan &plan) {
    const std::vector<Shape> shapes = plan.brief ? brief_shapes() : prefill({512, 1024, 2048, 4096});
    for (const std::string &isa : plan.isas)
        for (const Shape &shape : is_scalar(isa) ? std::vector<Shape>() : shapes)
            for (heed_compute compute : {HEED_COMPUTE_BF16, HEED_COMPUTE_BF16_AMX})
                if (shape.queries > 1 && computes(isa, compute))
                    add_compute(shape, compute, isa);
    for (const std::string &isa : plan.isas)
        if (!is_scalar(isa) && computes(isa, HEED_COMPUTE_BF16))
            add_decoding_in_pairs(plan, isa);
}

} // namespace

void add_attention(const Plan &plan) {
    for (int threads : plan.threads)
        for (const std::string &isa : plan.isas_on(threads))
            for (const Shape &shape : plan.brief ? brief_shapes() : is_scalar(isa) ? scalar_shapes() : all_shapes())
                add_shape(shape, isa, threads);
    add_computes(plan);
    for (const std::string &isa : plan.isas_on(1))
        for (const Shape &shape : is_scalar(isa) ? std::vector<Shape>() : plan.brief ? brief_shapes() : typed_shapes())
            add_types(shape, plan.brief, isa);
}

} // namespace bench
