/* Encoder and decoder.  Rows of all lines lie one after another: there is no padding anywhere.  See model.h. */
#include "layers.h"

#include <math.h>

enum { PANEL = 64 }; /* tokens that attention to a cache likes to have together */

static int64_t heads_width(const struct model *model) { return model->heads * model->head_dim; }

static void make_room(struct model *model, int64_t rows, int64_t decoder_rows) {
    const int64_t width = model->width, heads = heads_width(model);
    model->hidden = renew(model->hidden, rows * width, sizeof *model->hidden);
    model->normed = renew(model->normed, rows * width, sizeof *model->normed);
    model->projected = renew(model->projected, rows * 2 * heads, sizeof *model->projected);
    model->mixed = renew(model->mixed, decoder_rows * heads, sizeof *model->mixed);
    model->wide = renew(model->wide, rows * model->inner, sizeof *model->wide);
    model->gate = renew(model->gate, model->gated ? rows * model->inner : 0, sizeof *model->gate);
    model->logits = renew(model->logits, decoder_rows * model->vocabulary, sizeof *model->logits);
    model->positions = renew(model->positions, decoder_rows, sizeof *model->positions);
}

/* Rows of `stride` floats, in which a head follows the other. */
static struct heed_input heads_of(const struct model *model, const float *data, int64_t stride) {
    return (struct heed_input){.data = data, .head_stride = model->head_dim, .token_stride = stride};
}

static void embed(const struct model *model, const int32_t *tokens, int64_t rows) {
    const struct heed_lookup lookup = lookup_of(&model->words, tokens);
    check(heed_embedding(&(struct heed_embedding){.rows = rows,
                                                  .columns = model->width,
                                                  .tables = 1,
                                                  .lookup = &lookup,
                                                  .output = {.data = model->hidden, .token_stride = model->width}},
                         &model->exec));
}

/* normed = norm(hidden) */
static void normalise(const struct model *model, const float *gain, int64_t rows) {
    check(heed_rms_norm(&(struct heed_norm){.rows = rows,
                                            .columns = model->width,
                                            .epsilon = model->epsilon,
                                            .input = {.data = model->hidden, .token_stride = model->width},
                                            .gain = gain,
                                            .output = {.data = model->normed, .token_stride = model->width}},
                        &model->exec));
}

/* output = linear(input), of rows without gaps */
static void apply(const struct model *model, int64_t rows, struct heed_linear linear, const float *input, float *output) {
    linear.rows = rows;
    linear.input = (struct heed_input){.data = input, .token_stride = linear.weights.inputs};
    linear.output = (struct heed_output){.data = output, .token_stride = linear.weights.outputs};
    check(heed_linear(&linear, &model->exec));
}

static struct heed_input residual(const struct model *model) {
    return (struct heed_input){.data = model->hidden, .token_stride = model->width};
}

/* hidden += down(activation(up(norm(hidden))) * gate(norm(hidden))) */
static void feed_forward(const struct model *model, const struct layer *layer, int64_t rows) {
    struct heed_linear up = {.weights = layer->up, .activation = model->activation};
    normalise(model, layer->inner_norm, rows);
    if (model->gated) {
        apply(model, rows, (struct heed_linear){.weights = layer->gate}, model->normed, model->gate);
        up.gate = (struct heed_input){.data = model->gate, .token_stride = model->inner};
    }
    apply(model, rows, up, model->normed, model->wide);
    apply(model, rows, (struct heed_linear){.weights = layer->down, .residual = residual(model)}, model->wide, model->hidden);
}

/* What all attention here has: scores are not scaled. */
static struct heed_attention attention_of(const struct model *model) {
    return (struct heed_attention){.num_heads = model->heads,
                                   .num_kv_heads = model->heads,
                                   .head_dim = model->head_dim,
                                   .value_dim = model->head_dim,
                                   .scale = 1};
}

/* hidden += attention(norm(hidden)), every sequence on itself */
static void attend_self(const struct model *model, const struct layer *layer, const struct heed_attention *attention,
                        const int64_t *positions, int64_t rows) {
    normalise(model, layer->self_norm, rows);
    check(heed_attention_layer(&(struct heed_attention_layer){.attention = *attention,
                                                              .positions = positions,
                                                              .qkv = layer->qkv,
                                                              .out = layer->out,
                                                              .input = {.data = model->normed, .token_stride = model->width},
                                                              .residual = residual(model),
                                                              .output = {.data = model->hidden, .token_stride = model->width}},
                               &model->exec));
}

/* Keys and values, for the decoder's layers, of what the encoder says, which is in normed. */
static void fill_cross(struct model *model, const int64_t *starts, int64_t lines) {
    const int64_t width = heads_width(model);
    int64_t longest = 0;
    model->lengths = renew(model->lengths, lines, sizeof *model->lengths);
    for (int64_t i = 0; i < lines; i++) {
        model->lengths[i] = starts[i + 1] - starts[i];
        longest = model->lengths[i] > longest ? model->lengths[i] : longest;
    }
    model->cross.kv.page_tokens = (longest + PANEL - 1) / PANEL * PANEL;
    cache_begin(&model->cross, lines, longest);
    cache_step(&model->cross, lines, NULL);
    for (int64_t i = 0; i < model->decoder.layers; i++) {
        const struct heed_kv_cache cache = cache_layer(&model->cross, i);
        apply(model, starts[lines], (struct heed_linear){.weights = model->decoder.layer[i].cross_key_value}, model->normed,
              model->projected);
        check(heed_kv_append(&(struct heed_kv_append){.batch = lines,
                                                      .tokens = starts[lines],
                                                      .starts = starts,
                                                      .key = heads_of(model, model->projected, 2 * width),
                                                      .value = heads_of(model, model->projected + width, 2 * width),
                                                      .cache = &cache},
                             &model->exec));
    }
}

void model_begin(struct model *model, const int32_t *tokens, const int64_t *starts, int64_t lines, int64_t beams, int64_t steps) {
    const int64_t rows = starts[lines];
    struct heed_attention attention = attention_of(model);
    attention.batch = lines;
    attention.query_tokens = rows;
    attention.query_starts = starts;
    attention.relative = model->encoder.relative;
    make_room(model, rows > lines * beams ? rows : lines * beams, lines * beams);
    embed(model, tokens, rows);
    for (int64_t i = 0; i < model->encoder.layers; i++) {
        attend_self(model, &model->encoder.layer[i], &attention, NULL, rows);
        feed_forward(model, &model->encoder.layer[i], rows);
    }
    normalise(model, model->encoder.norm, rows);
    fill_cross(model, starts, lines);
    cache_begin(&model->self, lines * beams, steps);
}

/* hidden += attention(norm(hidden), what the encoder says), the beams of a line being queries to the same keys */
static void attend_cross(const struct model *model, int64_t index, int64_t lines, int64_t beams) {
    const struct layer *layer = &model->decoder.layer[index];
    const struct heed_kv_cache cache = cache_layer(&model->cross, index);
    struct heed_input query = heads_of(model, model->projected, heads_width(model));
    query.batch_stride = beams * query.token_stride;
    struct heed_attention attention = attention_of(model);
    attention.batch = lines;
    attention.query_tokens = beams;
    attention.key_tokens = cache.page_tokens;
    attention.key_lengths = model->lengths;
    attention.cache = &cache;
    attention.query = query;
    attention.output = (struct heed_output){model->mixed, query.batch_stride, query.head_stride, query.token_stride, HEED_F32};
    normalise(model, layer->cross_norm, lines * beams);
    apply(model, lines * beams, (struct heed_linear){.weights = layer->cross_query}, model->normed, model->projected);
    check(heed_attention(&attention, &model->exec));
    apply(model, lines * beams, (struct heed_linear){.weights = layer->cross_out, .residual = residual(model)}, model->mixed,
          model->hidden);
}

/* Lines that are done leave the table. */
static void keep_lines(struct model *model, int64_t lines, int64_t beams, const int32_t *parents) {
    for (int64_t i = 0; i < lines; i++) {
        const int64_t line = parents[i * beams] / model->beams;
        model->cross.table[i] = model->cross.table[line];
        model->lengths[i] = model->lengths[line];
    }
}

static void check_finite(const struct model *model, int64_t rows) {
    bool finite = true;
    for (int64_t i = 0; i < rows * model->vocabulary; i++)
        finite &= isfinite(model->logits[i]) != 0;
    if (!finite)
        fail("%s: gives logits that are not finite", model->checkpoint.path);
}

/* All rows are as long as each other: they began together. */
static void decode(const struct model *model, int64_t lines, int64_t beams) {
    const int64_t rows = lines * beams;
    struct heed_attention attention = attention_of(model);
    attention.batch = rows;
    attention.query_tokens = 1;
    attention.key_tokens = model->self.tokens;
    attention.alignment = HEED_ALIGN_BOTTOM_RIGHT;
    attention.relative = model->decoder.relative;
    for (int64_t i = 0; i < model->decoder.layers; i++) {
        const struct heed_kv_cache cache = cache_layer(&model->self, i);
        attention.cache = &cache;
        attend_self(model, &model->decoder.layer[i], &attention, model->positions, rows);
        attend_cross(model, i, lines, beams);
        feed_forward(model, &model->decoder.layer[i], rows);
    }
    normalise(model, model->decoder.norm, rows);
    apply(model, rows, (struct heed_linear){.weights = model->head}, model->normed, model->logits);
}

const float *model_step(struct model *model, int64_t lines, int64_t beams, const int32_t *tokens, const int32_t *parents) {
    if (parents)
        keep_lines(model, lines, beams, parents);
    model->beams = beams;
    cache_step(&model->self, lines * beams, parents);
    for (int64_t i = 0; i < lines * beams; i++)
        model->positions[i] = model->self.tokens - 1;
    embed(model, tokens, lines * beams);
    decode(model, lines, beams);
    check_finite(model, lines * beams);
    return model->logits;
}
