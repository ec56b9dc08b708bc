/* The plan of an attention call: by which kernels, what is packed, how rows are cut into tasks (attention_cut.c), how many workers,
 * how much workspace (attention_layout.c).  None of it can change a bit.  The memory of a plan that is to be used again depends on
 * sizes alone, not on the lengths within them, so that it serves all calls of a growing sequence. */
#include "arithmetic.h"
#include "attention.h"
#include "attention_memory.h"
#include "cache_sizes.h"
#include "cpu.h"
#include "dispatch.h"
#include "internal.h"
#include "schedule.h"

/* Keys and values are packed when at least so many rows share them: strided rows share few cache sets and pages. */
#define PACK_ROWS 48
/* Up to so many rows keys and values are fetched ahead beside products, provided that each row meets many keys, and a head is not
 * done in a microsecond anyway: it takes 10 % longer where they are in L1, 25 % less where they come from memory.  With 32 rows,
 * floats from beyond L2 take 0.8 to 0.95 of the time so, from L2 1.4, and 16 bits 1.07; 48 rows of floats 1.1 (a Xeon).  On Zen 5,
 * from memory, 28 to 64 rows of floats take 0.8 to 0.95, AVX2 0.83 to 1.0, 16 bits and bytes 0.70 to 0.94, a cache's in pairs 0.47
 * to 0.91, and what is in L3 0.83 to 1.07; from L2 32 rows of floats 1.08, 64 rows of pairs 1.14.  On Zen 4, too, where lines are
 * fetched into one cache alone: 28 to 64 rows of 16 bits and bytes take 0.81 to 0.95, a cache's in pairs 0.78 to 0.95, of 1024 keys
 * up to 1.07, 48 and 64 rows of floats 0.89 to 1.04, heads of 64 up to 1.07, AVX2 0.82 to 1.01. */
#define THIN_ROWS            24
#define THIN_ROWS_FAR_FLOATS 32
#define THIN_ROWS_INTO_ONE   64
/* And up to so many where heads are fewer than workers, which then share the keys of a head, not its rows: with two threads, 72 and
 * 128 rows of one head take 0.7 to 0.9 of the time, 96 rows, else two blocks of 48, 0.82 to 1.18 (Zen 4 and 5).  Not of sequences
 * with a plan of their own: for any that may be packed, states to merge would take too much memory. */
#define THIN_ROWS_SHARED  128
#define THIN_KEYS_PER_ROW 8
#define THIN_BYTES_LEAST  (16 * 1024)

static void plan_scores(struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    const float scale = attention_scale(request);
    plan->has_terms = request->softcap != 0.0f || request->bias.data || request->alibi_slopes || request->relative.table != NULL;
    plan->has_passes = plan->has_terms || request->mask.data || request->tree.words || request->scores.data ||
                       (plan->key_type == HEED_I8 && !plan->is_thin);
    plan->query_factor = plan->has_terms ? scale : finite_factor(scale * HEED_LOG2E);
    plan->score_factor = plan->has_terms ? HEED_LOG2E : 1.0f;
    plan->raw_factor = plan->has_terms ? 1.0f : HEED_LN2;
    if (request->relative.table)
        plan->relative_keys = 2 * request->relative.max_distance + 2 * HEED_CHUNK;
}

/* As many as have their scores with a chunk in L1, within reason: the exponentials of the first few have no products beside them.
 * With 48 rows for 24 pairs take 0.97 of the time, floats 0.99. */
static int choose_subrows(void) {
    if (heed_cpu_traits() & HEED_TRAIT_EXPS_APART)
        return HEED_ATTENTION_SUBROWS;
    const int64_t in_cache = heed_cache_sizes().l1 / (HEED_CHUNK * (int64_t)sizeof(float));
    return in_cache < 2 * HEED_ATTENTION_SUBROWS ? HEED_ATTENTION_SUBROWS : 2 * HEED_ATTENTION_SUBROWS;
}

/* In pairs: thin products take elements as they are. */
static bool must_be_rounded(enum heed_type type) { return type == HEED_F32 || type == HEED_F16; }

/* Whether keys and values of all heads are more than L2 holds. */
static bool exceed_l2(const struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    const int64_t key_bytes = request->head_dim * type_bytes(plan->key_type) + request->value_dim * type_bytes(plan->value_type);
    return request->key_tokens > heed_cache_sizes().l2 / key_bytes / max_i64(1, plan->heads);
}

/* Rows of a thin block, at most, by where keys and values are: L2 holds all of them, or it does not. */
static int64_t thin_rows(const struct attention_plan *plan) {
    if (!exceed_l2(plan))
        return THIN_ROWS;
    /* Of pairs that are in no cache, dots take many at once only where they pack them. */
    if (plan->fetch_into != HEED_INTO_L1_AND_L2 && (!plan->pairs || plan->request->cache))
        return plan->heads < plan->most_workers ? THIN_ROWS_SHARED : THIN_ROWS_INTO_ONE;
    return plan->key_type == HEED_F32 && plan->value_type == HEED_F32 ? THIN_ROWS_FAR_FLOATS : THIN_ROWS;
}

/* The same of any call, which has some keys for each row; 0 where thin products do not do. */
static int64_t most_thin_rows(const struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    const int64_t key_bytes = (request->head_dim + request->value_dim) * (int64_t)sizeof(float);
    if (request->compute == HEED_COMPUTE_BF16_AMX || request->key_tokens < ceil_div(THIN_BYTES_LEAST, key_bytes) ||
        (plan->pairs && (must_be_rounded(plan->key_type) || must_be_rounded(plan->value_type))))
        return 0;
    return min_i64(thin_rows(plan), request->key_tokens / THIN_KEYS_PER_ROW);
}

static void plan_memory_access(struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    plan->in_order = request->cache && request->cache->page_tokens >= HEED_CHUNK;
    plan->values_in_order = request->cache ? plan->in_order : request->value.token_stride == request->value_dim;
    plan->tries_pace = plan->is_thin && !(plan->i8_keys && plan->i8_values) && exceed_l2(plan);
    plan->leaves_l2 = plan->is_thin && plan->fetch_into == HEED_INTO_L2 && exceed_l2(plan);
    if (request->cache)
        heed_kv_layout(request->cache, &plan->cache);
}

/* Thin products take keys and values as they are, and so do products of bytes; others may, of floats. */
static bool packs_keys(const struct attention_plan *plan, int64_t rows) {
    if (plan->is_thin || plan->i8_keys)
        return false;
    if (plan->pairs || plan->dots || plan->key_type != HEED_F32 || !plan->request->cache)
        return true;
    return plan->cache.width < plan->kernels->tile_columns && rows >= PACK_ROWS;
}
static bool packs_values(const struct attention_plan *plan, int64_t rows) {
    const struct heed_attention *request = plan->request;
    if (plan->is_thin || plan->i8_values)
        return false;
    if (plan->pairs || plan->dots || plan->value_type != HEED_F32)
        return true;
    if (request->cache)
        return request->cache->page_tokens < HEED_PANEL && rows >= PACK_ROWS;
    return request->value_dim % plan->kernels->lanes != 0 ||
           (request->value.token_stride != request->value_dim && rows >= PACK_ROWS);
}

/* Columns of outputs come in whole panels then, as sums of tiles do. */
static void plan_dots(struct attention_plan *plan, const struct heed_dots *dots) {
    const struct heed_attention *request = plan->request;
    plan->dots = dots;
    plan->pairs = false;
    plan->subrows = (int)max_i64(dots->tile_rows, plan->subrows / dots->tile_rows * dots->tile_rows);
    plan->depth = round_up(request->head_dim, HEED_DOT) / dots->elements;
    plan->value_panel = round_up(plan->chunk_keys, HEED_DOT) * HEED_PANEL / dots->elements;
    plan->output_ld = round_up(request->value_dim, HEED_PANEL);
}

/* Caches pad rows of values to whole vectors. */
static void plan_thin_dots(struct attention_plan *plan, const struct heed_dots *dots) {
    if (!plan->request->cache || !dots->thin_pairs)
        return;
    plan->thin_dots = dots;
    plan->depth = round_up(plan->request->head_dim, HEED_DOT) / dots->elements;
}

/* Keys that a query sees by window, at most. */
static int64_t keys_in_window(const struct heed_attention *request) {
    const struct heed_window *window = &request->window;
    if (!window->on || window->left < 0 || (window->right < 0 && !request->causal))
        return INT64_MAX;
    return window->left + (request->causal ? 0 : window->right) + 1;
}

/* Chunks that the queries of a sequence see, at most: of a ring, however far its positions have come. */
static int64_t chunks_in_reach(const struct heed_attention *request) {
    const int64_t chunks = ceil_div(request->key_tokens, HEED_CHUNK), keys = keys_in_window(request);
    return keys == INT64_MAX ? chunks : min_i64(chunks, ceil_div(keys + request->query_tokens, HEED_CHUNK) + 1);
}

/* Multiplications and additions for all pairs of a query and a key in its reach, roughly; most: whatever the lengths are. */
static double count_flops(const struct attention_plan *plan, bool most) {
    const struct heed_attention *request = plan->request;
    const double per_pair = 2.0 * (double)request->num_heads * (double)(request->head_dim + request->value_dim);
    const bool packed = request->query_starts || request->key_starts;
    const int64_t reach = keys_in_window(request);
    double pairs = 0;
    if (most || !(packed || request->key_lengths))
        return per_pair * (packed ? 1.0 : (double)request->batch) * (double)request->query_tokens *
               (double)min_i64(request->key_tokens, reach);
    for (int64_t b = 0; b < request->batch; b++) {
        const struct attention_sequence s = heed_attention_sequence(request, b);
        if (attention_plan_has(plan, &s))
            pairs += (double)s.queries * (double)min_i64(s.keys, reach);
    }
    return per_pair * pairs;
}

/* With few rows the time is that of reading keys and values, two operations per element and row. */
static int workers_for(const struct attention_plan *plan, int64_t tasks, double flops) {
    const struct heed_attention *request = plan->request;
    const int64_t queries =
        request->query_starts ? ceil_div(request->query_tokens, max_i64(1, request->batch)) : request->query_tokens;
    const double elements = flops / (2.0 * (double)max_i64(1, plan->group * queries));
    return heed_schedule_workers(plan->exec, tasks, heed_schedule_work(flops, elements * (double)type_bytes(plan->key_type)));
}

/* Rows of the plan's longest sequence. */
static int64_t rows_of_longest(const struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    int64_t queries = request->query_starts ? 0 : request->query_tokens;
    for (int64_t b = 0; request->query_starts && b < request->batch; b++) {
        const struct attention_sequence s = heed_attention_sequence(request, b);
        if (attention_plan_has(plan, &s))
            queries = max_i64(queries, s.queries);
    }
    return plan->group * queries;
}

/* The longest sequence decides how many blocks a head has, and how wide a row of weights is. */
static void plan_sequences(struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    int64_t keys = request->key_starts ? 0 : request->key_tokens;
    for (int64_t b = 0; request->key_starts && b < request->batch; b++)
        keys = max_i64(keys, request->key_starts[b + 1] - request->key_starts[b]);
    plan->columns = keys;
    plan->blocks = ceil_div(rows_of_longest(plan), plan->block_rows);
    plan->tasks = request->batch * ceil_div(request->num_kv_heads, plan->beside) * (plan->splits > 1 ? plan->splits : plan->blocks);
    plan->workers = (int)min_i64(workers_for(plan, plan->tasks, count_flops(plan, false)), plan->most_workers);
}

/* Without keys their rows have no elements, and strides that may be any number. */
static void forget_empty_rows(struct attention_plan *plan) {
    if (plan->columns == 0)
        plan->given.weights.data = plan->given.scores.data = plan->given.mass.data = NULL;
}

/* Queries, or weights, become blocks of bytes. */
static void plan_i8(struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    if (request->compute != HEED_COMPUTE_I8)
        return;
    plan->i8_keys = plan->key_type == HEED_I8 && request->head_dim <= I8_DEPTH_MOST;
    plan->i8_values = plan->value_type == HEED_I8;
    if (plan->i8_keys || plan->i8_values)
        plan->i8 = heed_kernels_i8(plan->kernels);
    if (plan->i8_keys)
        plan->depth = ceil_div(request->head_dim, TYPE_BLOCK) * I8_BLOCK_FLOATS;
}

/* What does not depend on rows.  A plan for all sequences, so far. */
static void begin_plan(struct attention_plan *plan, const struct heed_attention *given, const struct heed_exec *exec,
                       const struct heed_kernels *kernels, bool any_lengths) {
    *plan = (struct attention_plan){.given = *given,
                                    .exec = exec,
                                    .kernels = kernels,
                                    .machine = heed_kernels_usable(0),
                                    .fetch_into = heed_fetch_into_by(heed_cpu_traits()),
                                    .most_rows = INT64_MAX,
                                    .any_lengths = any_lengths};
    heed_attention_forget_strides(&plan->given);
    const struct heed_attention *request = plan->request = &plan->given;
    plan->group = request->num_heads / request->num_kv_heads;
    plan->heads = request->batch * request->num_kv_heads;
    plan->chunks = ceil_div(request->key_tokens, HEED_CHUNK);
    plan->reach = chunks_in_reach(request);
    plan->output_ld = round_up(request->value_dim, HEED_SUM_LANES);
    plan->chunk_keys = min_i64(HEED_CHUNK, request->key_tokens);
    plan->pairs = request->compute == HEED_COMPUTE_BF16;
    plan->depth = plan->pairs ? round_up(request->head_dim, 2) : request->head_dim;
    plan->key_type = request->cache ? request->cache->key_type : request->key.type;
    plan->value_type = request->cache ? request->cache->value_type : request->value.type;
    plan_i8(plan);
    plan->most_workers = workers_for(plan, INT64_MAX, count_flops(plan, true));
}

/* rows: the most of a head. */
static void end_plan(struct attention_plan *plan, int64_t rows) {
    const struct heed_attention *request = plan->request;
    plan_memory_access(plan);
    plan->subrows = plan->is_thin ? (int)rows : choose_subrows();
    const struct heed_dots *dots = heed_kernels_dots(plan->kernels, request->compute);
    if (dots && !plan->is_thin)
        plan_dots(plan, dots);
    else if (dots)
        plan_thin_dots(plan, dots);
    plan->pack_keys = packs_keys(plan, rows);
    plan->pack_values = packs_values(plan, rows);
    plan_scores(plan);
    heed_attention_cut(plan, rows);
    plan->keeps_states = plan->is_thin || plan->i8_values || (plan->dots && !plan->dots->finishes) || plan->splits > 1 ||
                         request->states.output.data;
    plan->exps_beside = !plan->keeps_states && plan->value_type != HEED_I8 && !(heed_cpu_traits() & HEED_TRAIT_EXPS_APART);
    plan->takes_turns = heed_attention_takes_turns(plan);
    heed_attention_lay_out(plan);
    plan_sequences(plan);
    forget_empty_rows(plan);
    plan->fetches_scores = heed_attention_fetches_scores(plan);
}

/* Sequences of few rows apart: 17 and 64 of one token each, 32 heads on 8 of 128, with 1024 keys in a cache of bf16, take 0.31 and
 * 0.33 of the time that they take as blocks, of floats 0.83; 31 of them beside one of 256 tokens, with 4096 keys, all together
 * 0.74 and 0.96 (Zen 5).  But not where workers share the keys of all rows of a head, nor sums of weights, which are made once. */
void heed_attention_prepare(const struct heed_attention *given, const struct heed_exec *exec, const struct heed_kernels *kernels,
                            bool any_lengths, struct attention_plans *plans) {
    struct attention_plan *all = &plans->plan[0], *thin = &plans->plan[1];
    begin_plan(all, given, exec, kernels, any_lengths);
    const int64_t rows = max_i64(1, all->group * given->query_tokens), most = most_thin_rows(all);
    const int64_t most_apart = min_i64(most, THIN_ROWS_INTO_ONE);
    const bool packed = given->query_starts && most_apart >= all->group && !given->mass.data;
    plans->count = 1;
    all->is_thin = rows <= most;
    all->most_rows = packed && all->is_thin ? rows : INT64_MAX;
    end_plan(all, packed && all->is_thin ? max_i64(1, rows_of_longest(all)) : rows);
    if (!packed || all->is_thin || all->splits > 1)
        return;
    plans->count = 2;
    begin_plan(thin, given, exec, kernels, any_lengths);
    thin->is_thin = true;
    thin->most_rows = most_apart;
    end_plan(thin, max_i64(1, rows_of_longest(thin)));
    all->least_rows = most_apart + 1;
    plan_sequences(all);
}
