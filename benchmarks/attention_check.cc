/* What is checked of attention before it is timed.  A query is checked alone: with the keys of its sequence as plain rows, its own
 * rows of mask and bias, and its position told by an offset, the scalar kernels must give the bits that it has in the whole
 * request.  Over bytes, which have bits of their own, they compute the whole request from the same cache. */
#include "attention_work.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace bench {
namespace {

const double rounding = 1.0 / 16777216;

/* Not before the first use: an option that is not there has no element to point to. */
template <class T> void advance(const T *&data, int64_t elements) {
    if (data)
        data += elements;
}

/* Of one rounding to the type: relative, and absolute where that is more. */
Tolerance rounding_to(heed_type type) {
    return type == HEED_F32 ? Tolerance{0, 0} : type == HEED_BF16 ? Tolerance{0x1p-134, 0x1p-8} : Tolerance{0x1p-25, 0x1p-11};
}

double factor_rounding(heed_compute compute) { return compute == HEED_COMPUTE_F32 ? 0 : 0x1p-8; }

template <class View> const float *element(const View &view, bool packed, int64_t sequence, int64_t head, int64_t token) {
    return static_cast<const float *>(view.data) + (packed ? 0 : sequence * view.batch_stride) + head * view.head_stride +
           token * view.token_stride;
}

/* A row of an output, whatever its type, as floats. */
std::vector<float> row_of(const heed_output &output, bool packed, int64_t sequence, int64_t head, int64_t token, int64_t columns) {
    const int64_t first = (packed ? 0 : sequence * output.batch_stride) + head * output.head_stride + token * output.token_stride;
    if (output.type == HEED_F32) {
        const float *row = static_cast<const float *>(output.data) + first;
        return {row, row + columns};
    }
    const uint16_t *row = static_cast<const uint16_t *>(output.data) + first;
    std::vector<float> floats(static_cast<size_t>(columns));
    std::transform(row, row + columns, floats.begin(), [&](uint16_t half) { return float_of(output.type, half); });
    return floats;
}

heed_input input(const heed_output &output) {
    return {output.data, output.batch_stride, output.head_stride, output.token_stride, HEED_F32};
}

} // namespace

/* The same request of one head alone, with keys and values as rows; it has no outputs. */
struct heed_attention AttentionWork::one_head(int64_t sequence, int64_t head) const {
    const struct ref_sequence s = ref_sequence_of(&request, sequence);
    const int64_t kv_head = head / (request.num_heads / request.num_kv_heads);
    struct heed_attention one = request;
    one.batch = one.num_heads = one.num_kv_heads = 1;
    one.query_tokens = s.queries, one.key_tokens = s.keys;
    one.query_starts = one.key_starts = one.key_lengths = nullptr;
    one.cache = nullptr;
    one.query = query_.floats, one.key = key_.floats, one.value = value_.floats;
    one.query.token_stride = request.query.token_stride;
    one.query.data = element(one.query, request.query_starts, sequence, head, s.first_query);
    one.key.data = element(one.key, request.key_starts, sequence, kv_head, s.first_key);
    one.value.data = element(one.value, request.key_starts, sequence, kv_head, s.first_key);
    advance(one.mask.data, sequence * one.mask.batch_stride + head * one.mask.head_stride);
    advance(one.bias.data, sequence * one.bias.batch_stride + head * one.bias.head_stride);
    advance(one.tree.words, sequence * one.tree.batch_stride);
    advance(one.alibi_slopes, head);
    advance(one.relative.table, head * one.relative.head_stride);
    advance(one.sinks, head);
    one.output = one.weights = one.lse = one.scores = one.mass = {};
    one.states = {};
    return one;
}

struct heed_attention AttentionWork::one_query(const Place &place) {
    struct heed_attention one = one_head(place.sequence, place.head);
    const int64_t query = place.query;
    position_ = ref_sequence_of(&request, place.sequence).offset + query;
    one.alignment = HEED_ALIGN_OFFSETS;
    one.query_offsets = &position_;
    one.query_tokens = 1;
    one.query.data = static_cast<const float *>(one.query.data) + query * one.query.token_stride;
    advance(one.mask.data, query * one.mask.query_stride);
    advance(one.bias.data, query * one.bias.query_stride);
    advance(one.tree.words, query * one.tree.query_stride);
    return one;
}

/* Below, in units of u = 2^-24, D = head_dim: a score x = scale q k^T is below 3 sqrt(D), and off by at most D + 8 times that: its
 * chain, 6 for the roundings of the scale, of the scaled query and of the distance to the maximum, and 2 for a key's scale in
 * bytes, here and there.  A softcap adds 5 of the same size (two products, tanh, and the quotient 1 / softcap); bias, ALiBi,
 * relative bias and the product with a rounded log2(e) add one rounding each, and that constant's own, of the largest sum. Products
 * in bf16 round both factors first. */
double AttentionWork::largest_score() const {
    double size =
        3 * std::sqrt(static_cast<double>(request.head_dim)) + (request.bias.data ? 1 : 0) + (request.relative.table ? 1 : 0);
    if (request.alibi_slopes) {
        float slope = *std::max_element(request.alibi_slopes, request.alibi_slopes + request.num_heads);
        size += static_cast<double>(slope) * static_cast<double>(request.key_tokens);
    }
    return size;
}

double AttentionWork::score_error() const {
    double d = static_cast<double>(request.head_dim);
    bool terms = request.softcap > 0 || request.bias.data || request.alibi_slopes || request.relative.table;
    const double rounded = 1.01 * 2 * factor_rounding(request.compute) * 3 * std::sqrt(d);
    return rounded + 1.01 * ((d + 8 + 5 * (request.softcap > 0)) * 3 * std::sqrt(d) + (terms ? 5 * largest_score() : 0)) * rounding;
}

/* An error of scores changes each weight and their sum by as much.  Beside it stand exp2 (2 u), the sum over a chunk (20 deep), its
 * products with the values (256 deep, and 2 for a value's scale), and for each chunk merged two factors and two roundings of each
 * sum (10 u). */
double AttentionWork::weight_error() const {
    double chunks = static_cast<double>(request.key_tokens / 256 + 1);
    return std::expm1(2 * score_error()) + 1.01 * (282 + 10 * chunks) * rounding + 2.02 * factor_rounding(request.compute);
}

std::string AttentionWork::check_query(const Place &place) {
    const struct ref_sequence s = ref_sequence_of(&request, place.sequence);
    const double log_error = 4 * (largest_score() + std::log(static_cast<double>(s.keys + 1))) * rounding;
    struct heed_attention one = one_query(place);
    struct ref_attention_result result = {};
    const struct {
        const heed_output &whole;
        heed_output &one;
        double *&exact;
        int64_t columns;
        Tolerance tolerance;
    } outputs[] = {
        {request.output, one.output, result.output, request.value_dim, {weight_error(), 0}}, /* values are below 1 */
        {request.weights, one.weights, result.weights, s.keys, {0x1p-126, weight_error()}},
        {request.lse, one.lse, result.lse, 1, {weight_error() + log_error, 0}},
        {request.scores, one.scores, result.scores, s.keys, {score_error(), 0}},
    };
    std::vector<std::vector<float>> scalar;
    std::vector<std::vector<double>> exact;
    for (const auto &each : outputs) {
        scalar.emplace_back(static_cast<size_t>(each.columns));
        exact.emplace_back(static_cast<size_t>(each.columns));
        if (!each.whole.data)
            continue;
        each.one = {scalar.back().data(), each.columns, each.columns, each.columns, HEED_F32};
        each.exact = exact.back().data();
    }
    if (heed_attention(&one, &scalar_exec) != HEED_OK)
        return heed_error_message();
    if (of_cache_)
        scalar[0] = row_of(*of_cache_, false, place.sequence, place.head, place.query, request.value_dim);
    if (!ref_attention(&one, &result))
        return "no memory for the exact result";
    for (size_t i = 0; i < scalar.size(); i++) {
        if (!outputs[i].whole.data)
            continue;
        const heed_output &whole = outputs[i].whole;
        const std::vector<float> got =
            row_of(whole, request.query_starts, place.sequence, place.head, s.first_query + place.query, outputs[i].columns);
        const Tolerance stored = rounding_to(whole.type), tolerance = outputs[i].tolerance;
        if (whole.type != HEED_F32)
            for (float &x : scalar[i])
                x = float_of(whole.type, half_of(whole.type, x));
        std::string wrong = compare_row(ref_row(&request, place.sequence, place.head, place.query), got.data(), scalar[i], exact[i],
                                        {tolerance.absolute * (1 + stored.relative) + stored.absolute,
                                         tolerance.relative * (1 + stored.relative) + stored.relative});
        if (!wrong.empty())
            return wrong;
    }
    return "";
}

/* Of the last head alone: all its queries have a part in it, and as many additions round. */
std::string AttentionWork::check_mass() {
    const int64_t sequence = request.batch - 1, head = request.num_heads - 1;
    struct heed_attention one = one_head(sequence, head);
    std::vector<float> scalar(static_cast<size_t>(one.key_tokens));
    std::vector<double> exact(scalar.size());
    one.mass = {scalar.data(), one.key_tokens, one.key_tokens, one.key_tokens, HEED_F32};
    struct ref_attention_result result = {};
    result.mass = exact.data();
    if (heed_attention(&one, &scalar_exec) != HEED_OK)
        return heed_error_message();
    if (!ref_attention(&one, &result))
        return "no memory for the exact result";
    const double queries = static_cast<double>(one.query_tokens);
    return compare_row(head, element(request.mass, false, sequence, head, 0), scalar, exact,
                       {queries * 0x1p-126, weight_error() + 1.01 * queries * rounding});
}

/* Merged, the states are the output. */
std::string AttentionWork::check_states() {
    const int64_t floats = request.batch * request.output.batch_stride;
    Buffer merged(floats);
    struct heed_states_part part = {(request.key_tokens + 255) / 256, input(request.states.output), input(request.states.max),
                                    input(request.states.sum)};
    struct heed_merge merge = {};
    merge.batch = request.batch, merge.num_heads = request.num_heads;
    merge.query_tokens = request.query_tokens, merge.value_dim = request.value_dim;
    merge.parts = 1, merge.part = &part;
    merge.sinks = request.sinks;
    merge.output = request.output;
    merge.output.data = merged.data();
    if (heed_merge_states(&merge, &scalar_exec) != HEED_OK)
        return heed_error_message();
    bool same = std::memcmp(merged.data(), request.output.data, static_cast<size_t>(floats) * sizeof(float)) == 0;
    return same ? "" : "the states, merged, are not the output";
}

/* The row of a query, counted over all of them, by sequence, head and number within the sequence. */
AttentionWork::Place AttentionWork::place_of(int64_t row) const {
    const int64_t *starts = request.query_starts;
    const int64_t head = row / request.query_tokens, query = row % request.query_tokens;
    if (!starts)
        return {head / request.num_heads, head % request.num_heads, query};
    int64_t sequence = std::upper_bound(starts, starts + request.batch, query) - starts - 1;
    return {sequence, head, query - starts[sequence]};
}

heed_output AttentionWork::attend_by_scalar() {
    struct heed_attention scalar = request;
    scalar.output.data = own(request.batch * request.output.batch_stride).data();
    if (heed_attention(&scalar, &scalar_exec) != HEED_OK)
        throw std::runtime_error(heed_error_message());
    return scalar.output;
}

std::string AttentionWork::check() {
    if (cache_.key_type == HEED_I8 && !of_cache_)
        of_cache_ = std::make_unique<heed_output>(attend_by_scalar());
    for (int64_t row : rows_to_check(ref_rows(&request), 4 * request.key_tokens * request.head_dim)) {
        std::string wrong = check_query(place_of(row));
        if (!wrong.empty())
            return wrong;
    }
    std::string wrong = request.states.output.data ? check_states() : "";
    return wrong.empty() && request.mass.data ? check_mass() : wrong;
}

} // namespace bench
