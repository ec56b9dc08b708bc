/* heed_explain: what a plan will do, and why, as JSON. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "attention.h"
#include "cpu.h"
#include "dispatch.h"
#include "error.h"
#include "internal.h"

struct text {
    char *data;
    int64_t size, length; /* length counts what did not fit too */
};

static void append(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(struct text *text, const char *format, ...) {
    const bool fits = text->length < text->size;
    va_list arguments;
    va_start(arguments, format);
    text->length +=
        vsnprintf(fits ? text->data + text->length : NULL, fits ? (size_t)(text->size - text->length) : 0, format, arguments);
    va_end(arguments);
}

struct work {
    double pairs;      /* of a query token and a key that it sees by position */
    double keys, rows; /* key tokens that anyone sees, query tokens; of all sequences */
};

/* Of 0 ... x - 1, none counted as more than `most`. */
static double sum_below(int64_t x, int64_t most) {
    const double ramp = (double)max_i64(0, min_i64(x, most)), flat = (double)max_i64(0, x - most);
    return ramp * (ramp - 1) / 2 + flat * (double)most;
}

/* The keys before token + first, of all tokens: sums, not loops, for a plan of no data may have any number of tokens. */
static double keys_before(const struct attention_sequence *s, int64_t first) {
    return sum_below(first + s->queries, s->keys) - sum_below(first, s->keys);
}

static struct work work_of(const struct heed_attention *request, const struct attention_sequence *s) {
    const struct heed_window *window = &request->window;
    if (s->queries == 0)
        return (struct work){0};
    const struct attention_range first = heed_attention_range(request, s, 0),
                                 last = heed_attention_range(request, s, s->queries - 1);
    int64_t ahead = request->causal ? 0 : s->keys - s->offset; /* all keys are before token 0, and more */
    if (window->on && window->right >= 0)
        ahead = min_i64(ahead, window->right);
    const bool has_left = window->on && window->left >= 0;
    return (struct work){
        .pairs = keys_before(s, s->offset + ahead + 1) - (has_left ? keys_before(s, s->offset - window->left) : 0),
        .keys = (double)max_i64(0, last.end - first.begin),
        .rows = (double)s->queries,
    };
}

static struct work count_work(const struct heed_attention *request) {
    const bool alike =
        !request->query_starts && !request->key_starts && !request->key_lengths && request->alignment != HEED_ALIGN_OFFSETS;
    const double times = alike ? (double)request->batch : 1;
    struct work work = {0};
    for (int64_t b = 0; b < (alike ? 1 : request->batch); b++) {
        const struct attention_sequence s = heed_attention_sequence(request, b);
        const struct work one = work_of(request, &s);
        work.pairs += times * one.pairs;
        work.keys += times * one.keys;
        work.rows += times * one.rows;
    }
    return work;
}

/* Of all that is wanted, for so many tokens. */
static double written_bytes(const struct attention_plan *plan, double tokens) {
    const struct heed_attention *request = plan->request;
    const double value_dim = (double)request->value_dim, columns = (double)plan->columns;
    const double bytes = request->output.data ? (double)type_bytes(request->output.type) * value_dim : 0;
    double floats = (request->weights.data ? columns : 0) + (request->scores.data ? columns : 0) + (request->lse.data ? 1 : 0);
    floats += request->states.output.data ? (double)ceil_div(plan->columns, HEED_CHUNK) * (value_dim + 2) : 0;
    const double mass = request->mass.data ? (double)request->batch * columns : 0;
    return (double)request->num_heads * (tokens * bytes + sizeof(float) * (tokens * floats + mass));
}

static void append_work(struct text *text, const struct attention_plan *plan) {
    const struct heed_attention *request = plan->request;
    const struct work work = count_work(request);
    const double width = (double)(request->head_dim + request->value_dim);
    const double query_bytes = (double)request->num_heads * (double)(request->head_dim * type_bytes(request->query.type));
    const int64_t scales = (plan->key_type == HEED_I8) + (plan->value_type == HEED_I8);
    const double key_bytes = (double)(request->head_dim * type_bytes(plan->key_type) +
                                      request->value_dim * type_bytes(plan->value_type) + scales * (int64_t)sizeof(float));
    append(text, "  \"flops\": %.0f,\n", 2.0 * work.pairs * (double)request->num_heads * width);
    append(text, "  \"read_bytes\": %.0f,\n", work.rows * query_bytes + work.keys * (double)request->num_kv_heads * key_bytes);
    append(text, "  \"written_bytes\": %.0f,\n", written_bytes(plan, work.rows));
}

/* {condition, sentence} */
struct reason {
    bool holds;
    const char *text;
};

static void append_reasons(struct text *text, const struct reason *reasons, unsigned count) {
    const char *separator = "";
    append(text, "  \"reasons\": [");
    for (unsigned i = 0; i < count; i++) {
        if (!reasons[i].holds)
            continue;
        append(text, "%s\n    \"%s\"", separator, reasons[i].text);
        separator = ",";
    }
    append(text, "\n  ]\n");
}

static void append_why(struct text *text, const struct attention_plan *plan, bool few_apart) {
    const struct heed_attention *request = plan->request;
    const bool cached = request->cache != NULL;
    const bool typed = request->query.type != HEED_F32 || plan->key_type != HEED_F32 || plan->value_type != HEED_F32 ||
                       request->output.type != HEED_F32;
    const bool amx = request->compute == HEED_COMPUTE_BF16_AMX;
    const struct reason reasons[] = {
        {plan->most_workers == 1, "workers: one, for there is no other or so little work would not pay for waking it"},
        {plan->most_workers > 1 && plan->workers == 1, "workers: one for the lengths planned, more for longer ones"},
        {plan->splits > 1, "splits: few rows meet many keys, so workers share the keys; chunks of 256 are merged in order"},
        {plan->splits == 1 && plan->tasks > 1, "tasks: blocks of rows of each key/value head, drawn by workers as they get free"},
        {plan->is_thin, "rows: few, so memory is the limit: keys and values are read once, in order, and fetched ahead"},
        {few_apart, "rows: of sequences with few, memory is the limit, so their keys and values are read once, after the others'"},
        {!cached && !plan->pack_keys, "keys: rows are transposed as they are read"},
        {plan->pairs && !plan->is_thin,
         "products: of bf16 pairs, into which queries, keys, weights and values are rounded and packed"},
        {plan->pairs && plan->is_thin,
         "products: of bf16 pairs, into which queries and weights are rounded; keys and values are bf16"},
        {plan->dots && !amx,
         "products: of bf16 pairs by one instruction, for which queries, keys, weights and values are arranged"},
        {amx && plan->dots->elements > 1, "products: by AMX, for which queries, keys, weights and values are rounded and arranged"},
        {amx && plan->dots->elements == 1, "products: in sums of 32 as AMX makes them, by multiply-adds"},
        {plan->i8_keys, "scores: products of integers, for which queries are rounded to bytes"},
        {plan->i8_values, "outputs: products of integers, for which weights are rounded to bytes"},
        {!cached && plan->pack_keys, "keys: rows are packed into panels of 64, once for each block and chunk"},
        {cached && plan->pack_keys,
         "keys: panels of the cache are widened, or narrow ones put side by side, once for each block and chunk"},
        {cached && !plan->pack_keys, "keys: the cache's panels are read in place"},
        {typed,
         "types: elements of 16 or 8 bits become floats as they are read or packed, results are rounded as they are written"},
        {plan->pack_values && !plan->pairs && !plan->dots,
         "values: packed, for their type, width, stride or pages suit the kernels less"},
        {!plan->pack_values, "values: read in place"},
        {plan->has_terms, "scores: terms are added to natural scores, row by row, before the softmax"},
        {plan->has_passes && !plan->has_terms, "scores: rows pass once more, to be scaled, masked or copied"},
        {!plan->has_passes && !plan->is_thin && !plan->dots, "scores: computed, limited and compared in registers"},
        {request->states.output.data && plan->splits == 1,
         "states: each chunk is computed apart and merged, for its state is wanted"},
        {request->mass.data != NULL, "mass: scores are computed a second time, when the sums of all rows are known"},
    };
    append_reasons(text, reasons, sizeof reasons / sizeof *reasons);
}

static const char *compute_name(enum heed_compute compute) {
    static const char *const names[] = {
        [HEED_COMPUTE_F32] = "f32", [HEED_COMPUTE_BF16] = "bf16", [HEED_COMPUTE_BF16_AMX] = "bf16-amx", [HEED_COMPUTE_I8] = "i8"};
    return names[compute];
}

static void explain(struct text *text, const struct heed_plan *plan, const struct heed_kernels *kernels) {
    struct attention_plans plans;
    const struct attention_plan *made;
    const struct heed_attention *request = &plan->attention;
    if (request->batch == 0 || request->num_heads == 0) {
        append(text, "{\n  \"isa\": \"%s\",\n  \"tasks\": 0,\n  \"workspace_bytes\": 0\n}\n", plan->isa);
        return;
    }
    heed_attention_prepare(request, &plan->exec, kernels, false, &plans);
    made = &plans.plan[plans.count > 1 && plans.plan[0].tasks == 0];
    append(text, "{\n  \"isa\": \"%s\",\n  \"lanes\": %d,\n  \"tile\": [%d, %d],\n  \"chunk\": %d,\n", plan->isa, kernels->lanes,
           kernels->tile_rows, kernels->tile_columns, HEED_CHUNK);
    append(text, "  \"group\": %" PRId64 ",\n  \"block_rows\": %" PRId64 ",\n  \"blocks\": %" PRId64 ",\n", made->group,
           made->block_rows, made->blocks);
    append(text, "  \"splits\": %" PRId64 ",\n  \"tasks\": %" PRId64 ",\n  \"workers\": %d,\n", made->splits, plan->tasks,
           plan->workers);
    append(text, "  \"workspace_bytes\": %" PRId64 ",\n", plan->workspace_bytes);
    append(text, "  \"types\": {\"query\": \"%s\", \"key\": \"%s\", \"value\": \"%s\", \"output\": \"%s\"},\n",
           type_name(request->query.type), type_name(made->key_type), type_name(made->value_type),
           request->output.data ? type_name(request->output.type) : "none"); /* whose type may then be any number */
    append(text, "  \"compute\": \"%s\",\n", compute_name(request->compute));
    append_work(text, made);
    append_why(text, made, made == plans.plan && plans.count > 1 && plans.plan[1].tasks > 0);
    append(text, "}\n");
}

HEED_API int64_t heed_explain(const struct heed_plan *plan, char *text, int64_t size) {
    const struct heed_kernels *kernels;
    struct text written = {.data = text, .size = text ? max_i64(0, size) : 0};
    if (!plan || !plan->isa)
        return heed_fail(HEED_INVALID_ARGUMENT, "%s is NULL", plan ? "plan.isa" : "plan"), -1;
    if (heed_kernels_find(plan->isa, "plan.isa", &kernels))
        return -1;
    const uint64_t callers = heed_fp_begin();
    explain(&written, plan, kernels);
    heed_fp_end(callers);
    return written.length;
}
