/* ggml: products with weights stored as it likes them, output feature by output feature, in f32, bf16, f16 or blocks; attention
 * with its flash kernel, keys and values in f32, bf16 or f16, and without it, by two products and a softmax; softmax. */
#include <ggml-cpu.h>
#include <ggml.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "peers.h"

namespace {

using peers::Races;
using peers::Shape;

/* Tensors in one piece of memory, and a graph of one result over them. */
class Graph {
  public:
    explicit Graph(double floats, int threads)
        : threads_(threads), memory_(peers::allocate(static_cast<int64_t>(floats) + (1 << 20))) {
        context_ = ggml_init({(static_cast<size_t>(floats) + (1 << 20)) * sizeof(float), memory_.get(), false});
        ggml_threadpool_params params = ggml_threadpool_params_default(threads);
        pool_ = ggml_threadpool_new(&params);
    }
    ~Graph() {
        ggml_threadpool_free(pool_);
        ggml_free(context_);
    }
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;

    ggml_context *context() { return context_; }
    ggml_tensor *tensor(ggml_type type, int64_t width, int64_t rows, int64_t heads, const float *data) {
        ggml_tensor *made = ggml_new_tensor_3d(context_, type, width, rows, heads);
        if (type == GGML_TYPE_F16)
            ggml_fp32_to_fp16_row(data, static_cast<ggml_fp16_t *>(made->data), width * rows * heads);
        else if (type == GGML_TYPE_BF16)
            ggml_fp32_to_bf16_row(data, static_cast<ggml_bf16_t *>(made->data), width * rows * heads);
        else
            std::memcpy(made->data, data, ggml_nbytes(made));
        return made;
    }
    /* rows[height][width] of each head, transposed. */
    ggml_tensor *transposed(int64_t width, int64_t height, int64_t heads, const float *data) {
        ggml_tensor *made = ggml_new_tensor_3d(context_, GGML_TYPE_F32, height, width, heads);
        float *to = static_cast<float *>(made->data);
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < height; i++)
                for (int64_t j = 0; j < width; j++)
                    to[(h * width + j) * height + i] = data[(h * height + i) * width + j];
        return made;
    }
    void plan(ggml_tensor *result) {
        result_ = result;
        graph_ = ggml_new_graph(context_);
        ggml_build_forward_expand(graph_, result);
        plan_ = ggml_graph_plan(graph_, threads_, pool_);
        work_.resize(plan_.work_size + 64);
        plan_.work_data = work_.data();
    }
    void compute() {
        if (ggml_graph_compute(graph_, &plan_) != GGML_STATUS_SUCCESS)
            throw std::runtime_error("ggml_graph_compute fails");
    }
    const float *result() const { return static_cast<const float *>(result_->data); }

  private:
    int threads_;
    peers::Floats memory_;
    ggml_context *context_;
    ggml_threadpool *pool_;
    ggml_tensor *result_ = nullptr;
    ggml_cgraph *graph_ = nullptr;
    ggml_cplan plan_ = {};
    std::vector<uint8_t> work_;
};

void race_graph(Races &races, const char *variant, Graph &graph, const std::function<void()> &fetch) {
    races.race(
        variant, [&] { graph.compute(); }, fetch);
}

void copy_result(const Graph &graph, const Shape &shape) {
    std::memcpy(shape.output, graph.result(), static_cast<size_t>(peers::output_floats(shape)) * sizeof(float));
}

double count(int64_t a, int64_t b, int64_t c = 1) { return static_cast<double>(a) * static_cast<double>(b * c); }

void race_product(Races &races, const Shape &shape, int threads, const char *variant, ggml_type type) {
    Graph graph(count(shape.m, shape.k) + 2 * count(shape.k, shape.n) + count(shape.m, shape.n), threads);
    ggml_tensor *weights = shape.kind == peers::gemm_transposed ? graph.tensor(GGML_TYPE_F32, shape.k, shape.n, 1, shape.input[1])
                                                                : graph.transposed(shape.n, shape.k, 1, shape.input[1]);
    if (type != GGML_TYPE_F32)
        weights = graph.tensor(type, shape.k, shape.n, 1, static_cast<const float *>(weights->data));
    graph.plan(ggml_mul_mat(graph.context(), weights, graph.tensor(GGML_TYPE_F32, shape.k, shape.m, 1, shape.input[0])));
    race_graph(races, variant, graph, [&] { copy_result(graph, shape); });
}

/* Beside weights of bf16 stand those of f16, which have a kernel of their own: as large, and nearly the same numbers. */
void run_gemm(Races &races, const Shape &shape, int threads) {
    if (!shape.bf16)
        return race_product(races, shape, threads, "mul_mat", GGML_TYPE_F32);
    race_product(races, shape, threads, "mul_mat, bf16 weights", GGML_TYPE_BF16);
    race_product(races, shape, threads, "mul_mat, f16 weights", GGML_TYPE_F16);
}

ggml_type type_named(const char *name) {
    for (int type = 0; type < GGML_TYPE_COUNT; type++)
        if (ggml_type_name(static_cast<ggml_type>(type)) && std::string(name) == ggml_type_name(static_cast<ggml_type>(type)))
            return static_cast<ggml_type>(type);
    throw std::runtime_error(std::string("ggml knows no ") + name);
}

/* Activations are rounded to 8 bits, as ggml has it for weights in blocks. */
void run_blocks(Races &races, const Shape &shape, int threads) {
    const ggml_type type = type_named(peers::blocks_of(shape.weights).name);
    Graph graph(count(shape.m, shape.k) + count(shape.k, shape.n) + count(shape.m, shape.n), threads);
    ggml_tensor *weights = graph.tensor(type, shape.k, shape.n, 1, shape.input[1]);
    graph.plan(ggml_mul_mat(graph.context(), weights, graph.tensor(GGML_TYPE_F32, shape.k, shape.m, 1, shape.input[0])));
    race_graph(races, "mul_mat", graph, [&] { copy_result(graph, shape); });
}

void run_softmax(Races &races, const Shape &shape, int threads) {
    Graph graph(2 * count(shape.m, shape.n), threads);
    graph.plan(ggml_soft_max(graph.context(), graph.tensor(GGML_TYPE_F32, shape.n, shape.m, 1, shape.input[0])));
    race_graph(races, "soft_max", graph, [&] { copy_result(graph, shape); });
}

ggml_tensor *causal_mask(Graph &graph, const Shape &shape) {
    if (!shape.causal)
        return nullptr;
    const int64_t n = shape.keys;
    const peers::Floats mask = peers::allocate(n * n);
    for (int64_t i = 0; i < n * n; i++)
        mask[static_cast<size_t>(i)] = i % n > i / n ? -std::numeric_limits<float>::infinity() : 0;
    return graph.tensor(GGML_TYPE_F16, n, n, 1, mask.get());
}

/* Floats of queries, keys, values, a mask and the result; scores come on top where they are kept. */
double floats_of(const Shape &shape) {
    return 2 * count(shape.heads, shape.queries, shape.head_dim) + 2 * count(shape.kv_heads, shape.keys, shape.head_dim) +
           count(shape.queries, shape.keys);
}

void run_flash(Races &races, const Shape &shape, int threads, const char *variant, ggml_type type) {
    Graph graph(floats_of(shape), threads);
    const int64_t d = shape.head_dim;
    ggml_tensor *query = graph.tensor(GGML_TYPE_F32, d, shape.queries, shape.heads, shape.input[0]);
    ggml_tensor *key = graph.tensor(type, d, shape.keys, shape.kv_heads, shape.input[1]);
    ggml_tensor *value = graph.tensor(type, d, shape.keys, shape.kv_heads, shape.input[2]);
    const float scale = 1 / std::sqrt(static_cast<float>(d));
    graph.plan(ggml_flash_attn_ext(graph.context(), query, key, value, causal_mask(graph, shape), scale, 0, 0));
    race_graph(races, variant, graph, [&] { /* its result is [queries][heads][head_dim] */
                                            for (int64_t row = 0; row < shape.heads * shape.queries; row++) {
                                                const int64_t from = row % shape.queries * shape.heads + row / shape.queries;
                                                std::memcpy(shape.output + row * d, graph.result() + from * d,
                                                            static_cast<size_t>(d) * sizeof(float));
                                            }
    });
}

/* Values are stored transposed, as llama.cpp has them without flash attention. */
void run_products(Races &races, const Shape &shape, int threads) {
    Graph graph(floats_of(shape) + count(shape.heads, shape.queries, shape.keys), threads);
    const int64_t d = shape.head_dim;
    ggml_context *context = graph.context();
    ggml_tensor *query = graph.tensor(GGML_TYPE_F32, d, shape.queries, shape.heads, shape.input[0]);
    ggml_tensor *key = graph.tensor(GGML_TYPE_F32, d, shape.keys, shape.kv_heads, shape.input[1]);
    ggml_tensor *value = graph.transposed(d, shape.keys, shape.kv_heads, shape.input[2]);
    const float scale = 1 / std::sqrt(static_cast<float>(d));
    ggml_tensor *scores = ggml_mul_mat(context, key, query);
    ggml_tensor *weights = ggml_soft_max_ext_inplace(context, scores, causal_mask(graph, shape), scale, 0);
    graph.plan(ggml_mul_mat(context, value, weights));
    race_graph(races, "without flash, f32", graph, [&] { copy_result(graph, shape); });
}

void run(Races &races, const Shape &shape) {
    const int threads = races.threads();
    if ((shape.kind == peers::gemm && shape.prepared) || shape.kind == peers::gemm_transposed)
        run_gemm(races, shape, threads);
    if (shape.kind == peers::gemm_blocks)
        run_blocks(races, shape, threads);
    if (shape.kind == peers::softmax)
        run_softmax(races, shape, threads);
    if (shape.kind != peers::attention)
        return;
    run_flash(races, shape, threads, "flash, f16 keys", GGML_TYPE_F16);
    run_flash(races, shape, threads, shape.bf16 ? "flash, bf16 keys" : "flash, f32", shape.bf16 ? GGML_TYPE_BF16 : GGML_TYPE_F32);
    if (!shape.bf16)
        run_products(races, shape, threads);
}

} // namespace

int main(int argc, char **argv) {
    Races races("ggml", ggml_version(), argc, argv);
    ggml_cpu_init();
    return run_all(races, run);
}
