/* The shapes that `make bench-peers` races over, and what they are called. */
#include <algorithm>
#include <iterator>

#include "peers.h"

namespace peers {
namespace {

const int64_t gemm_shapes[][3] = {{512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {128, 768, 768},
                                  {512, 768, 768}, {512, 3072, 768},   {512, 768, 3072},   {1, 4096, 4096},
                                  {8, 4096, 4096}, {64, 64, 64},       {16, 16, 16},       {3, 3, 4}};
/* As checkpoints have weights, those of small batches first. */
const int64_t transposed_shapes[][3] = {{1, 4096, 4096}, {4, 4096, 4096},  {8, 4096, 4096}, {16, 4096, 4096},
                                        {16, 3072, 768}, {64, 4096, 4096}, {512, 768, 768}};
const int64_t brief_gemm_shapes[][3] = {{128, 768, 768}, {1, 1024, 1024}, {16, 16, 16}};
const int64_t block_shapes[][3] = {{1, 4096, 4096}, {8, 4096, 4096}, {128, 4096, 4096}};
const int64_t brief_block_shapes[][3] = {{1, 1024, 1024}};
const Blocks all_blocks[] = {{HEED_Q8_0, "q8_0", 32, 34},     {HEED_Q4_0, "q4_0", 32, 18},   {HEED_Q5_0, "q5_0", 32, 22},
                             {HEED_Q4_K, "q4_K", 256, 144},   {HEED_Q5_K, "q5_K", 256, 176}, {HEED_Q6_K, "q6_K", 256, 210},
                             {HEED_IQ4_NL, "iq4_nl", 32, 18}, {HEED_MXFP4, "mxfp4", 32, 17}};
const int64_t softmax_shapes[][2] = {{512, 512}, {4096, 4096}, {1, 32000}, {512, 32000}};
const int64_t brief_softmax_shapes[][2] = {{512, 512}};
const int64_t heads_of_layers[][2] = {{12, 64}, {8, 128}}; /* heads, head_dim */
const int64_t lengths[] = {128, 512, 2048, 4096}, brief_lengths[] = {128};
const int64_t contexts[] = {1024, 4096, 32768}, brief_contexts[] = {1024};

template <class T, size_t n> std::vector<T> list(const T (&values)[n]) { return {values, values + n}; }
/* An array within an array is copied by its address. */
template <size_t n, size_t width> std::vector<const int64_t *> rows(const int64_t (&values)[n][width]) {
    std::vector<const int64_t *> pointers;
    for (const auto &row : values)
        pointers.push_back(row);
    return pointers;
}

void add_attention(std::vector<Shape> &works, bool bf16, bool brief) {
    for (bool causal : {false, true})
        for (const int64_t *layer : rows(heads_of_layers))
            for (int64_t length : brief ? list(brief_lengths) : list(lengths)) {
                Shape shape = {};
                shape.kind = attention;
                shape.heads = shape.kv_heads = layer[0], shape.head_dim = layer[1];
                shape.queries = shape.keys = length;
                shape.causal = causal, shape.bf16 = bf16;
                works.push_back(shape);
            }
    for (bool prepared : {false, true}) {
        if (bf16 && !prepared)
            continue;
        for (int64_t keys : brief ? list(brief_contexts) : list(contexts)) {
            Shape shape = {};
            shape.kind = attention;
            shape.prepared = prepared;
            shape.heads = 32, shape.kv_heads = 8, shape.head_dim = 128;
            shape.queries = 1, shape.keys = keys, shape.bf16 = bf16;
            works.push_back(shape);
        }
    }
}

void add_gemm(std::vector<Shape> &works, bool bf16, bool brief) {
    for (bool prepared : {false, true})
        for (const int64_t *size : brief ? rows(brief_gemm_shapes) : rows(gemm_shapes)) {
            Shape shape = {};
            shape.kind = gemm;
            shape.prepared = prepared;
            shape.m = size[0], shape.n = size[1], shape.k = size[2], shape.bf16 = bf16;
            works.push_back(shape);
        }
    for (const int64_t *size : brief ? rows(brief_gemm_shapes) : rows(transposed_shapes)) {
        Shape shape = {};
        shape.kind = gemm_transposed;
        shape.m = size[0], shape.n = size[1], shape.k = size[2], shape.bf16 = bf16;
        works.push_back(shape);
    }
}

void add_blocks(std::vector<Shape> &works, bool brief) {
    for (const Blocks &blocks : all_blocks)
        for (bool as_i8 : {false, true})
            for (bool prepared : {false, true})
                for (const int64_t *size : brief ? rows(brief_block_shapes) : rows(block_shapes)) {
                    Shape shape = {};
                    shape.kind = gemm_blocks;
                    shape.prepared = prepared;
                    shape.m = size[0], shape.n = size[1], shape.k = size[2], shape.weights = blocks.type, shape.as_i8 = as_i8;
                    works.push_back(shape);
                }
}

bool is_product(const Shape &shape) { return shape.kind == gemm || shape.kind == gemm_transposed || shape.kind == gemm_blocks; }

} // namespace

std::vector<Shape> list_of_work(bool brief) {
    std::vector<Shape> works;
    for (bool bf16 : {false, true}) {
        add_gemm(works, bf16, brief);
        add_attention(works, bf16, brief);
    }
    add_blocks(works, brief);
    for (const int64_t *size : brief ? rows(brief_softmax_shapes) : rows(softmax_shapes)) {
        Shape shape = {};
        shape.kind = softmax;
        shape.m = size[0], shape.n = size[1];
        works.push_back(shape);
    }
    return works;
}

const Blocks &blocks_of(int64_t type) {
    return *std::find_if(std::begin(all_blocks), std::end(all_blocks), [=](const Blocks &blocks) { return blocks.type == type; });
}

std::string group_of(const Shape &shape) {
    const std::string type = shape.bf16 ? " bf16" : "";
    if (shape.kind == gemm)
        return (shape.prepared ? "gemm packed" : "gemm plain") + type;
    if (shape.kind == gemm_transposed)
        return "gemm transposed" + type;
    if (shape.kind == gemm_blocks)
        return std::string(shape.prepared ? "gemm packed " : "gemm plain ") + blocks_of(shape.weights).name +
               (shape.as_i8 ? " as i8" : "");
    if (shape.kind == softmax)
        return "softmax";
    if (shape.queries == 1)
        return (shape.prepared ? "decode cache" : "decode rows") + type;
    return (shape.causal ? "attention causal" : "attention full") + type;
}

std::string name_of(const Shape &shape) {
    const auto number = [](const char *letters, int64_t n) { return letters + std::to_string(n); };
    if (is_product(shape))
        return number("", shape.m) + number("x", shape.n) + number("x", shape.k);
    if (shape.kind == softmax)
        return number("", shape.m) + number("x", shape.n);
    if (shape.queries == 1)
        return number("H", shape.heads) + number("_KV", shape.kv_heads) + number("_D", shape.head_dim) + number("_K", shape.keys);
    return number("H", shape.heads) + number("_D", shape.head_dim) + number("_S", shape.keys);
}

double flops_of(const Shape &shape) {
    if (is_product(shape))
        return 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
    if (shape.kind == softmax)
        return 0;
    const int64_t pairs = shape.causal ? shape.keys * (shape.keys + 1) / 2 : shape.queries * shape.keys;
    return 4.0 * static_cast<double>(shape.heads * shape.head_dim * pairs);
}

int64_t output_floats(const Shape &shape) {
    return shape.kind == attention ? shape.heads * shape.queries * shape.head_dim : shape.m * shape.n;
}

} // namespace peers
