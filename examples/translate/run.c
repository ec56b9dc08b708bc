/* Encoder and decoder.  Rows of all lines lie one after another: there is no padding anywhere.  See model.h. */
#include "parts.h"

enum { PANEL = 64 }; /* tokens that attention to a cache likes to have together */

static int64_t heads_width(const struct model *model) { return model->heads * model->head_dim; }

static void make_room(struct model *model, int64_t rows, int64_t decoder_rows) {
    const int64_t width = model->width, heads = heads_width(model);
    model->hidden = renew(model->hidden, rows * width, sizeof *model->hidden);
    model->normed = renew(model->normed, rows * width, sizeof *model->normed);
    model->projected = renew(model->projected, rows * 2 * heads, sizeof *model->projected);
    model->mixed = renew(model->mixed, decoder_rows * heads, sizeof *model->mixed);
    model->wide = renew(model->wide, rows * model->inner, sizeof *model->wide);
    model->logits = renew(model->logits, decoder_rows * model->vocabulary, sizeof *model->logits);
    model->positions = renew(model->positions, decoder_rows, sizeof *model->positions);
}

static void normalise(const struct model *model, const float *gain, int64_t rows) {
    rms_norm(&model->exec, rows, model->width, model->epsilon, gain, model->hidden, model->normed);
}

/* Scores are not scaled. */
static struct heed_attention attention_of(const struct model *model) {
    return (struct heed_attention){.num_heads = model->heads,
                                   .num_kv_heads = model->heads,
                                   .head_dim = model->head_dim,
                                   .value_dim = model->head_dim,
                                   .scale = 1};
}

/* hidden += attention(norm(hidden)), every sequence on itself */
static void attend_self(const struct model *model, const struct layer *layer, const struct heed_attention *attention,
                        int64_t rows) {
    normalise(model, layer->self_norm, rows);
    attend(
        &model->exec,
        (struct heed_attention_layer){
            .attention = *attention, .positions = attention->cache ? model->positions : NULL, .qkv = layer->qkv, .out = layer->out},
        model->normed, model->hidden);
}

/* hidden += down(activation(up(norm(hidden))) * gate(norm(hidden))) */
static void transform(const struct model *model, const struct layer *layer, int64_t rows) {
    normalise(model, layer->inner_norm, rows);
    feed_forward(&model->exec, rows, &layer->inner, model->normed, model->wide, model->hidden);
}

static void encode(struct model *model, const int32_t *tokens, const int64_t *starts, int64_t lines) {
    const int64_t rows = starts[lines];
    struct heed_attention attention = attention_of(model);
    attention.batch = lines;
    attention.query_tokens = rows;
    attention.query_starts = starts;
    attention.relative = model->encoder.relative;
    look_up(&model->exec, &model->words, tokens, rows, model->hidden);
    for (int64_t i = 0; i < model->encoder.layers; i++) {
        attend_self(model, &model->encoder.layer[i], &attention, rows);
        transform(model, &model->encoder.layer[i], rows);
    }
    normalise(model, model->encoder.norm, rows);
}

/* A page for each line, that is as long as the longest of them. */
static void make_cross_room(struct model *model, const int64_t *starts, int64_t lines) {
    int64_t longest = 0;
    model->lengths = renew(model->lengths, lines, sizeof *model->lengths);
    model->page = renew(model->page, lines, sizeof *model->page);
    for (int64_t i = 0; i < lines; i++) {
        model->page[i] = (int32_t)i;
        model->lengths[i] = starts[i + 1] - starts[i];
        longest = model->lengths[i] > longest ? model->lengths[i] : longest;
    }
    model->cross.kv.page_tokens = (longest + PANEL - 1) / PANEL * PANEL;
    store_begin(&model->cross, lines, 1);
}

/* Keys and values, for the decoder's layers, of what the encoder says, which is in normed. */
static void fill_cross(struct model *model, const int64_t *starts, int64_t lines) {
    const int64_t width = heads_width(model);
    const struct heed_input key = {.data = model->projected, .head_stride = model->head_dim, .token_stride = 2 * width};
    struct heed_input value = key;
    value.data = model->projected + width;
    make_cross_room(model, starts, lines);
    for (int64_t i = 0; i < model->decoder.layers; i++) {
        const struct heed_kv_cache cache = store_layer(&model->cross, i, model->page);
        linear(&model->exec, starts[lines], &model->decoder.layer[i].cross_key_value, model->normed, NULL, model->projected);
        check(heed_kv_append(
            &(struct heed_kv_append){
                .batch = lines, .tokens = starts[lines], .starts = starts, .key = key, .value = value, .cache = &cache},
            &model->exec));
    }
}

void model_begin(struct model *model, const int32_t *tokens, const int64_t *starts, int64_t lines, int64_t beams, int64_t steps) {
    const int64_t rows = lines * beams, pages = pages_for(&model->self, steps);
    make_room(model, rows > starts[lines] ? rows : starts[lines], rows);
    encode(model, tokens, starts, lines);
    fill_cross(model, starts, lines);
    store_begin(&model->self, rows * pages, pages);
    pool_begin(&model->pool);
    model->pages = renew(model->pages, rows * pages, sizeof *model->pages);
    model->before = renew(model->before, rows * pages, sizeof *model->before);
    model->rows = model->tokens = 0;
}

/* hidden += attention(norm(hidden), what the encoder says), the beams of a line being queries to the same keys */
static void attend_cross(const struct model *model, int64_t index, int64_t lines, int64_t beams) {
    const struct layer *layer = &model->decoder.layer[index];
    const struct heed_kv_cache cache = store_layer(&model->cross, index, model->page);
    const int64_t head = model->head_dim, width = heads_width(model);
    struct heed_attention attention = attention_of(model);
    attention.batch = lines;
    attention.query_tokens = beams;
    attention.key_tokens = cache.page_tokens;
    attention.key_lengths = model->lengths;
    attention.cache = &cache;
    attention.query = (struct heed_input){model->projected, beams * width, head, width, HEED_F32};
    attention.output = (struct heed_output){model->mixed, beams * width, head, width, HEED_F32};
    normalise(model, layer->cross_norm, lines * beams);
    linear(&model->exec, lines * beams, &layer->cross_query, model->normed, NULL, model->projected);
    check(heed_attention(&attention, &model->exec));
    linear(&model->exec, lines * beams, &layer->cross_out, model->mixed, model->hidden, model->hidden);
}

/* Lines that are done leave the tables. */
static void keep_lines(struct model *model, int64_t lines, int64_t beams, const int32_t *parents) {
    for (int64_t i = 0; i < lines; i++) {
        const int64_t line = parents[i * beams] / model->beams;
        model->page[i] = model->page[line];
        model->lengths[i] = model->lengths[line];
    }
}

/* New rows have the pages of their parents, and those that no row has any more are spare. */
static void keep_rows(struct model *model, int64_t rows, const int32_t *parents) {
    const int64_t stride = model->self.kv.table_stride, count = pages_for(&model->self, model->tokens);
    int32_t *before = model->pages;
    model->pages = model->before;
    model->before = before;
    for (int64_t i = 0; i < rows; i++)
        pages_share(&model->pool, model->pages + i * stride, before + parents[i] * stride, count);
    for (int64_t i = 0; i < model->rows; i++)
        pages_leave(&model->pool, before + i * stride, count);
}

/* Each row gets a place for one token more.  Nothing is copied but the last page of a row that goes on as several ones, if it is
 * not full, once for each but one: in beam search of four beams with t5-base's shape that is one row in six, of 16 tokens at most,
 * which is little beside the weights that each step reads. */
static void lengthen(struct model *model, int64_t rows) {
    const int64_t tokens = model->tokens, pages = pages_for(&model->self, tokens);
    for (int64_t i = 0; i < rows; i++) {
        pages_extend(&model->pool, model->pages + i * model->self.kv.table_stride, pages, tokens, tokens + 1);
        model->positions[i] = tokens;
    }
    model->rows = rows;
    model->tokens++;
}

/* All rows are as long as each other: they began together. */
static void decode(const struct model *model, int64_t lines, int64_t beams) {
    const int64_t rows = lines * beams;
    struct heed_attention attention = attention_of(model);
    attention.batch = rows;
    attention.query_tokens = 1;
    attention.key_tokens = model->tokens;
    attention.alignment = HEED_ALIGN_BOTTOM_RIGHT;
    attention.relative = model->decoder.relative;
    for (int64_t i = 0; i < model->decoder.layers; i++) {
        const struct heed_kv_cache cache = store_layer(&model->self, i, model->pages);
        attention.cache = &cache;
        attend_self(model, &model->decoder.layer[i], &attention, rows);
        attend_cross(model, i, lines, beams);
        transform(model, &model->decoder.layer[i], rows);
    }
    normalise(model, model->decoder.norm, rows);
    linear(&model->exec, rows, &model->head, model->normed, NULL, model->logits);
}

const float *model_step(struct model *model, int64_t lines, int64_t beams, const int32_t *tokens, const int32_t *parents) {
    const int64_t rows = lines * beams;
    if (parents) {
        keep_lines(model, lines, beams, parents);
        keep_rows(model, rows, parents);
    }
    model->beams = beams;
    lengthen(model, rows);
    look_up(&model->exec, &model->words, tokens, rows, model->hidden);
    decode(model, lines, beams);
    check_finite(&model->checkpoint, "logits", model->logits, rows * model->vocabulary);
    return model->logits;
}
