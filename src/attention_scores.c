/* Rows of scores between product and softmax: scales of keys, softcap, bias, ALiBi, relative bias, mask and tree, in the order of
 * src/arithmetic.md, and the scores that the caller asked for; and what of that is fetched before. */
#include <math.h>
#include <string.h>

#include "attention_block.h"
#include "cache_sizes.h"
#include "internal.h"

/* One row of the current chunk: n scores from key number `key` of the sequence on. */
struct score_row {
    const struct attention_block *block;
    int64_t row, token, head;
    int64_t key;
    int begin, n; /* in the chunk */
    float *s;
};

static const float *bias_of(const struct score_row *r) {
    const struct heed_bias *bias = &r->block->plan->request->bias;
    return bias->data + r->block->sequence.batch * bias->batch_stride + r->head * bias->head_stride +
           r->token * bias->query_stride + r->key * bias->key_stride;
}

static const uint8_t *mask_of(const struct score_row *r) {
    const struct heed_mask *mask = &r->block->plan->request->mask;
    return mask->data + r->block->sequence.batch * mask->batch_stride + r->head * mask->head_stride +
           r->token * mask->query_stride + r->key * mask->key_stride;
}

static void add_bias(const struct score_row *r) {
    const int64_t stride = r->block->plan->request->bias.key_stride;
    const float *from = bias_of(r);
    float *term = r->block->term;
    for (int j = 0; stride != 1 && j < r->n; j++)
        term[j] = from[j * stride];
    r->block->kernels->add_row(r->s, r->n, stride == 1 ? from : term);
}

static void add_alibi(const struct score_row *r) {
    const int64_t position = r->token + r->block->sequence.offset;
    const float slope = r->block->plan->request->alibi_slopes[r->head];
    r->block->kernels->alibi_row(r->s, r->n, slope, (float)(position - r->block->chunk->start), r->begin);
}

static void add_relative(const struct score_row *r) {
    const struct attention_plan *plan = r->block->plan;
    const int64_t most = plan->request->relative.max_distance, position = r->token + r->block->sequence.offset;
    const int64_t after = max_i64(-most - HEED_CHUNK, min_i64(r->key - position, most));
    const float *table = r->block->relative + (r->block->first + r->row) % plan->group * plan->relative_keys;
    r->block->kernels->add_row(r->s, r->n, table + most + HEED_CHUNK + after);
}

static void hide_by_mask(const struct score_row *r) {
    const int64_t stride = r->block->plan->request->mask.key_stride;
    const uint8_t *from = mask_of(r);
    uint8_t bytes[HEED_CHUNK];
    for (int j = 0; stride != 1 && j < r->n; j++)
        bytes[j] = from[j * stride];
    r->block->kernels->hide_row(r->s, r->n, stride == 1 ? from : bytes);
}

static void hide_by_tree(const struct score_row *r) {
    const struct heed_tree *tree = &r->block->plan->request->tree;
    const int64_t first = r->block->sequence.keys - tree->keys; /* key of bit 0; below 0 where a sequence is shorter */
    const int64_t from = max_i64(r->key, first), n = r->key + r->n - from;
    uint8_t bytes[HEED_CHUNK];
    if (n <= 0)
        return; /* a tree of no keys need not lie anywhere */
    const uint64_t *words = tree->words + r->block->sequence.batch * tree->batch_stride + r->token * tree->query_stride;
    for (int64_t j = 0; j < n; j++)
        bytes[j] = words[(from - first + j) / 64] >> ((from - first + j) % 64) & 1;
    r->block->kernels->hide_row(r->s + (from - r->key), n, bytes);
}

static void store_scores(const struct score_row *r, enum heed_score_stage stage, float factor) {
    const struct heed_attention *request = r->block->plan->request;
    if (request->scores.data && request->score_stage == stage)
        r->block->kernels->store_row(r->s, r->n, factor, heed_block_output_row(r->block, &request->scores, r->row) + r->key);
}

void heed_block_pass_scores(const struct attention_block *block, int64_t row, int i) {
    const struct attention_plan *plan = block->plan;
    const struct heed_attention *request = plan->request;
    const int begin = block->chunk->begins[i], end = block->chunk->ends[i];
    float *scores = block->chunk->scores + i * HEED_CHUNK;
    const struct attention_row of_head = heed_block_row(block, row);
    const struct score_row r = {.block = block,
                                .row = row,
                                .token = of_head.token,
                                .head = of_head.head,
                                .key = block->chunk->start + begin,
                                .begin = begin,
                                .n = end - begin,
                                .s = scores + begin};
    if (plan->key_type == HEED_I8)
        block->kernels->scale_row(r.s, r.n, block->chunk->key_scales + begin);
    store_scores(&r, HEED_SCORES_RAW, plan->raw_factor);
    if (request->softcap != 0.0f)
        plan->machine->softcap_row(r.s, r.n, request->softcap);
    store_scores(&r, HEED_SCORES_CAPPED, plan->raw_factor);
    if (request->bias.data)
        add_bias(&r);
    if (request->alibi_slopes)
        add_alibi(&r);
    if (request->relative.table)
        add_relative(&r);
    if (request->mask.data)
        hide_by_mask(&r);
    if (request->tree.words)
        hide_by_tree(&r);
    store_scores(&r, HEED_SCORES_BIASED, plan->raw_factor);
    block->kernels->seal_row(scores, begin, end, plan->score_factor, NULL, block->chunk->row_max + i * HEED_SUM_LANES);
}

/* Of the cache that cores share.  A bias or mask that all heads share, of 1 to 8 MiB in an L3 of 32, takes 1.01 to 1.035 of the
 * time with fetching, of 9 MiB 0.88 and of 16 MiB 0.70 (12 heads of 64, Zen 5). */
#define FAR_SHARE 0.25

/* Rows one after the other, in each as many elements as there are keys: whether their lines have left the cache by the time they
 * are read again. */
static bool is_far(const struct attention_plan *plan, const void *data, int64_t batch_stride, int64_t head_stride,
                   int64_t query_stride, size_t element) {
    const struct heed_attention *request = plan->request;
    double bytes = (double)element * (double)plan->columns;
    if (!data || query_stride == 0)
        return false;
    bytes *= (double)request->query_tokens;
    if (head_stride != 0)
        bytes *= (double)request->num_heads;
    if (batch_stride != 0)
        bytes *= (double)request->batch;
    return bytes > (double)heed_cache_sizes().l2 && bytes > (double)heed_cache_shared() * FAR_SHARE;
}

bool heed_attention_fetches_scores(const struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    const struct heed_bias *bias = &request->bias;
    const struct heed_mask *mask = &request->mask;
    return request->scores.data || request->weights.data ||
           is_far(plan, bias->data, bias->batch_stride, bias->head_stride, bias->query_stride, sizeof *bias->data) ||
           is_far(plan, mask->data, mask->batch_stride, mask->head_stride, mask->query_stride, sizeof *mask->data);
}

void heed_block_fetch_scores(const struct attention_block *block, int64_t from, int rows, int64_t key, int keys) {
    const struct heed_attention *request = block->plan->request;
    const int64_t bytes = keys * (int64_t)sizeof(float);
    for (int64_t row = from; row < from + rows; row++) {
        const struct attention_row of_head = heed_block_row(block, row);
        const struct score_row r = {.block = block, .token = of_head.token, .head = of_head.head, .key = key};
        if (request->bias.data && request->bias.key_stride == 1)
            fetch_bytes(bias_of(&r), bytes);
        if (request->mask.data && request->mask.key_stride == 1)
            fetch_bytes(mask_of(&r), keys);
        if (request->scores.data)
            fetch_bytes(heed_block_output_row(block, &request->scores, row) + key, bytes);
        if (request->weights.data)
            fetch_bytes(heed_block_output_row(block, &request->weights, row) + key, bytes);
    }
}

/* Which of `steps` buckets that share the distances up to `most` in logarithmic steps, `exact` being the first, a distance has. The
 * grain decides ties, which logarithms of different C libraries round to either side, as exact arithmetic would. */
static int64_t logarithmic_bucket(int64_t distance, int64_t exact, int64_t most, int64_t steps) {
    const double grain = 1e-9;
    return (int64_t)(log((double)distance / (double)exact) / log((double)most / (double)exact) * (double)steps + grain);
}

int heed_relative_buckets(const struct heed_relative *relative) {
    return (int)(relative->bidirectional ? relative->num_buckets / 2 : relative->num_buckets);
}

void heed_relative_steps(const struct heed_relative *relative, int *step) {
    const int buckets = heed_relative_buckets(relative), exact = buckets / 2;
    const double ratio = (double)relative->max_distance / exact;
    for (int k = 0; k < buckets; k++) {
        int distance = k;
        if (k > exact)
            distance = (int)(exact * pow(ratio, (double)(k - exact) / (buckets - exact))) - 1;
        while (k > exact &&
               (distance < exact || logarithmic_bucket(distance, exact, relative->max_distance, buckets - exact) < k - exact))
            distance++;
        step[k] = distance;
    }
}

/* Bias of the distances [from, to) on one side of the query, its key's at zero. */
static void fill_side(const struct heed_relative *relative, const int *step, int buckets, const float *bias, int64_t from,
                      int64_t to, int64_t side, float *zero) {
    int bucket = 0;
    for (int64_t distance = from; distance < to; distance++) {
        while (bucket + 1 < buckets && distance >= step[bucket + 1])
            bucket++;
        zero[side * distance] = bias[bucket * relative->bucket_stride];
    }
}

/* Bias by distance of key after query, from -max_distance - 256 on; the outermost 256 on both sides are alike, so that the keys of
 * any chunk are a piece of it.  Those from `begin` on, before `end`. */
static void fill_relative(const struct attention_plan *plan, int64_t head, const int *step, int64_t begin, int64_t end,
                          float *table) {
    const struct heed_relative *relative = &plan->request->relative;
    const float *bias = relative->table + head * relative->head_stride;
    const int buckets = heed_relative_buckets(relative);
    float *zero = table + relative->max_distance + HEED_CHUNK;
    fill_side(relative, step, buckets, bias, max_i64(0, 1 - end), 1 - begin, -1, zero);
    if (relative->bidirectional)
        fill_side(relative, step, buckets, bias + buckets * relative->bucket_stride, max_i64(1, begin), end, 1, zero);
    else
        fill_side(relative, step, 1, bias, max_i64(1, begin), end, 1, zero);
}

/* Of all distances, up to 131584, those from a row of the block to a key of its chunks, and at either end what stands for those
 * beyond it. */
void heed_block_load_relative(const struct attention_block *block, const float *shared) {
    const struct attention_plan *plan = block->plan;
    const int *step = (const int *)(shared + plan->layout.relative_step);
    const int64_t most = plan->request->relative.max_distance;
    const int64_t first = heed_block_row(block, 0).token + block->sequence.offset;
    const int64_t last = heed_block_row(block, block->rows - 1).token + block->sequence.offset;
    const int64_t begin = max_i64(-most - HEED_CHUNK, min_i64(block->first_chunk * HEED_CHUNK - last, most));
    const int64_t end = max_i64(-most, min_i64(block->last_chunk * HEED_CHUNK - first, most + HEED_CHUNK));
    for (int64_t i = 0; i < plan->group; i++)
        fill_relative(plan, block->kv_head * plan->group + i, step, begin, end, block->relative + i * plan->relative_keys);
}
