/* See sequences.h. */
#include "sequences.h"

#include <string.h>

enum { LEAST_COMMON = 16 }; /* tokens of a common beginning that are worth waiting for */
enum { MODEL, DRAFT, MODELS, NONE = -1 };

struct sequence {
    bool active, filling; /* filling: there is more than one token of the prompt to compute */
    int64_t prompt;       /* its number */
    int32_t *tokens;      /* the prompt, what came after it, and what the draft proposes */
    int64_t count, most;  /* the first two of these; at most */
    int64_t proposed;     /* the third */
    int64_t done[MODELS]; /* tokens whose keys and values are in the pages, of each model */
    int32_t *page;
    int64_t pages;
    struct sequence *leader; /* computes the first `common` tokens for this one as well, which waits; NULL: none */
    int64_t common;
    int64_t row; /* of the batch: its first one of logits; NONE: it has none */
    struct random random;
    float *proposals; /* the distributions that they were drawn from, [proposals, vocabulary] */
};

struct state {
    const struct generation *options;
    const struct prompt *prompts;
    int64_t next, count; /* of prompts */
    int64_t vocabulary;
    struct sequence *slot, *end; /* sequences that go on at once, and where they end */
    struct batch batch;
    struct pool pool;
    float *probabilities;
    int32_t *order;
};

static void start_batch(struct batch *batch, enum heed_compute compute) {
    batch->compute = compute;
    batch->sequences = batch->rows = 0;
    batch->starts[0] = 0;
}

/* Tokens of a sequence up to `end` become part of the batch for a model; logits are wanted for the last `rows`. */
static void add(struct state *state, struct sequence *sequence, int which, int64_t end, int64_t rows) {
    struct batch *batch = &state->batch;
    const int64_t i = batch->sequences++, begin = sequence->done[which], start = batch->starts[i], count = end - begin;
    sequence->pages = pages_extend(&state->pool, sequence->page, sequence->pages, begin, end);
    memcpy(batch->tokens + start, sequence->tokens + begin, (size_t)count * sizeof *batch->tokens);
    memcpy(batch->page + i * state->pool.store[MODEL]->kv.table_stride, sequence->page,
           (size_t)sequence->pages * sizeof *batch->page);
    batch->positions[i] = begin;
    batch->starts[i + 1] = start + count;
    sequence->row = rows > 0 ? batch->rows : NONE;
    for (int64_t row = 0; row < rows; row++)
        batch->row[batch->rows++] = (int32_t)(start + count - rows + row);
    sequence->done[which] = end;
}

/* Of those that both compute alike. */
static int64_t common_tokens(const struct state *state, const struct sequence *a, const struct sequence *b) {
    const bool alike = state->options->prompts == state->options->steps;
    const int64_t most = alike ? a->count : state->prompts[a->prompt].count - 1;
    int64_t count = 0;
    while (count < most && count + 1 < b->count && a->tokens[count] == b->tokens[count])
        count++;
    return count;
}

/* The one that begins most like this one, if any does. */
static void find_leader(struct state *state, struct sequence *sequence) {
    sequence->common = LEAST_COMMON - 1;
    for (struct sequence *other = state->slot; other < state->end; other++) {
        const int64_t common = other->active && other != sequence && !other->leader ? common_tokens(state, other, sequence) : 0;
        if (common > sequence->common) {
            sequence->leader = other;
            sequence->common = common;
        }
    }
}

static void start_sequence(struct state *state, struct sequence *sequence) {
    const struct generation *options = state->options;
    const struct prompt *prompt = &state->prompts[state->next];
    const int64_t most = prompt->count + options->tokens, positions = model_config(options->model)->positions;
    *sequence = (struct sequence){.active = true,
                                  .prompt = state->next++,
                                  .tokens = sequence->tokens,
                                  .page = sequence->page,
                                  .proposals = sequence->proposals,
                                  .count = prompt->count,
                                  .most = most < positions ? most : positions};
    sequence->random = random_of(options->sampling.seed, sequence->prompt);
    memcpy(sequence->tokens, prompt->tokens, (size_t)prompt->count * sizeof *prompt->tokens);
    find_leader(state, sequence);
}

/* What the leader has computed is there for this one too: they share its pages. */
static void fork(struct state *state, struct sequence *sequence) {
    const struct sequence *leader = sequence->leader;
    int64_t common = sequence->common < leader->done[MODEL] ? sequence->common : leader->done[MODEL];
    if (state->options->draft && leader->done[DRAFT] < common)
        common = leader->done[DRAFT];
    sequence->pages = pages_for(state->pool.store[MODEL], common);
    pages_share(&state->pool, sequence->page, leader->page, sequence->pages);
    sequence->done[MODEL] = sequence->done[DRAFT] = common;
    sequence->leader = NULL;
}

/* Whether the next token is all that there is to compute: the draft may have a say then. */
static bool is_ready(const struct sequence *sequence) {
    return sequence->active && !sequence->leader && sequence->done[MODEL] == sequence->count - 1;
}

static void distribution(struct state *state, const float *logits, float *probabilities) {
    const struct generation *options = state->options;
    sampling_distribution(&options->sampling, logits, state->vocabulary, probabilities, state->order, &options->exec);
}

/* The draft draws a token for each sequence that is ready, then another one, and so on. */
static void propose(struct state *state) {
    const struct generation *options = state->options;
    for (int64_t k = 0; k < options->proposals; k++) {
        start_batch(&state->batch, options->steps);
        for (struct sequence *sequence = state->slot; sequence < state->end; sequence++) {
            sequence->row = NONE;
            if (is_ready(sequence) && sequence->count + k + 1 < sequence->most)
                add(state, sequence, DRAFT, sequence->count + k, 1);
        }
        if (state->batch.rows == 0)
            return;
        const float *logits = model_run(options->draft, &state->batch);
        for (struct sequence *sequence = state->slot; sequence < state->end; sequence++) {
            if (sequence->row == NONE)
                continue;
            float *probabilities = sequence->proposals + k * state->vocabulary;
            distribution(state, logits + sequence->row * state->vocabulary, probabilities);
            sequence->tokens[sequence->count + k] = sampling_draw(probabilities, state->vocabulary, &sequence->random);
            sequence->proposed = k + 1;
        }
    }
}

/* As much of prompts as a chunk takes, but for their last tokens if `all` is false. */
static void add_prompts(struct state *state, bool all) {
    int64_t room = state->options->chunk;
    for (struct sequence *sequence = state->slot; sequence < state->end; sequence++) {
        const int64_t rest = sequence->count - sequence->done[MODEL] - !all, taken = rest < room ? rest : room;
        sequence->row = NONE;
        sequence->filling = sequence->active && !sequence->leader && !is_ready(sequence) && taken > 0;
        if (!sequence->filling)
            continue;
        add(state, sequence, MODEL, sequence->done[MODEL] + taken, all && taken == rest);
        room -= taken;
    }
}

/* One batch: of each sequence that is ready the next token and what is proposed, and prompts; these before, if they are computed
 * in another way. */
static const float *compute(struct state *state) {
    const struct generation *options = state->options;
    const bool alike = options->prompts == options->steps;
    start_batch(&state->batch, options->prompts);
    add_prompts(state, alike);
    if (!alike && state->batch.sequences > 0)
        model_run(options->model, &state->batch);
    if (!alike)
        start_batch(&state->batch, state->options->steps);
    for (struct sequence *sequence = state->slot; sequence < state->end; sequence++)
        if (is_ready(sequence) && !(alike && sequence->filling))
            add(state, sequence, MODEL, sequence->count + sequence->proposed, sequence->proposed + 1);
    return state->batch.sequences > 0 ? model_run(options->model, &state->batch) : NULL;
}

/* The draft keeps up with prompts. */
static void follow(struct state *state) {
    start_batch(&state->batch, state->options->steps);
    for (struct sequence *sequence = state->slot; sequence < state->end; sequence++) {
        const int64_t row = sequence->row;
        if (sequence->filling)
            add(state, sequence, DRAFT, sequence->done[MODEL], 0);
        sequence->row = row;
    }
    if (state->batch.sequences > 0)
        model_run(state->options->draft, &state->batch);
}

/* Proposals are accepted up to the first that is not, which is replaced; after the last one comes a token of the model's own. */
static void choose(struct state *state, struct sequence *sequence, const float *logits) {
    const struct generation *options = state->options;
    const struct config *config = model_config(options->model);
    bool accepted = true;
    for (int64_t i = 0; i <= sequence->proposed && accepted && sequence->active; i++, logits += state->vocabulary) {
        int32_t *token = &sequence->tokens[sequence->count];
        distribution(state, logits, state->probabilities);
        accepted = i < sequence->proposed && sampling_accepts(state->probabilities, sequence->proposals + i * state->vocabulary,
                                                              state->vocabulary, *token, &sequence->random);
        if (!accepted)
            *token = sampling_draw(state->probabilities, state->vocabulary, &sequence->random);
        options->token(options->context, sequence->prompt, *token, logits);
        sequence->count++;
        sequence->active = sequence->count < sequence->most && !config_stops(config, *token);
    }
    for (int which = MODEL; which < MODELS; which++)
        if (sequence->done[which] > sequence->count - 1)
            sequence->done[which] = sequence->count - 1;
    sequence->proposed = 0;
}

/* Before pages are dropped, those who wait for them get their share. */
static void settle(struct state *state, const float *logits) {
    for (struct sequence *sequence = state->slot; sequence < state->end; sequence++)
        if (sequence->row != NONE)
            choose(state, sequence, logits + sequence->row * state->vocabulary);
    for (struct sequence *sequence = state->slot; sequence < state->end; sequence++) {
        const struct sequence *leader = sequence->leader;
        if (leader && (leader->done[MODEL] >= sequence->common || !leader->active))
            fork(state, sequence);
    }
    for (struct sequence *sequence = state->slot; sequence < state->end; sequence++) {
        if (sequence->active || sequence->pages == 0)
            continue;
        pages_leave(&state->pool, sequence->page, sequence->pages);
        sequence->pages = 0;
        state->options->end(state->options->context, sequence->prompt);
    }
}

/* As pages lie after many sequences have come and gone (Fisher and Yates). */
static void shuffle(struct pool *pool, int64_t seed) {
    struct random random = random_of(seed, 0);
    for (int64_t i = pool->spares - 1; i > 0; i--) {
        const int64_t j = (int64_t)(random_number(&random) * (double)(i + 1));
        const int32_t page = pool->spare[i];
        pool->spare[i] = pool->spare[j];
        pool->spare[j] = page;
    }
}

/* Tokens of the longest sequence. */
static int64_t most_tokens(const struct state *state) {
    const int64_t positions = model_config(state->options->model)->positions;
    int64_t most = 0;
    for (int64_t i = 0; i < state->count; i++)
        most = state->prompts[i].count > most ? state->prompts[i].count : most;
    most += state->options->tokens;
    return most < positions ? most : positions;
}

static void make_room(struct state *state, int64_t slots) {
    const struct generation *options = state->options;
    const int64_t length = most_tokens(state), pages = (length + PAGE_TOKENS - 1) / PAGE_TOKENS;
    const int64_t rows = slots * (options->proposals + 1);
    const struct room room = {options->chunk + rows, rows, slots * pages, pages, options->cache};
    struct batch *batch = &state->batch;
    batch->starts = allocate(slots + 1, sizeof *batch->starts);
    batch->positions = allocate(slots, sizeof *batch->positions);
    batch->tokens = allocate(room.tokens, sizeof *batch->tokens);
    batch->page = allocate(room.pages, sizeof *batch->page);
    batch->row = allocate(rows, sizeof *batch->row);
    state->probabilities = allocate(state->vocabulary, sizeof *state->probabilities);
    state->order = allocate(state->vocabulary, sizeof *state->order);
    state->slot = allocate(slots, sizeof *state->slot);
    state->end = state->slot + slots;
    for (struct sequence *sequence = state->slot; sequence < state->end; sequence++)
        *sequence = (struct sequence){.tokens = allocate(length, sizeof *sequence->tokens),
                                      .page = allocate(pages, sizeof *sequence->page),
                                      .proposals = allocate(options->proposals * state->vocabulary, sizeof(float))};
    state->pool.store[MODEL] = model_make_room(options->model, &room);
    if (options->draft)
        state->pool.store[DRAFT] = model_make_room(options->draft, &room);
    pool_begin(&state->pool);
    if (options->page_seed)
        shuffle(&state->pool, options->page_seed);
}

/* Prompts that wait take the slots that are free; false: all is done. */
static bool fill_slots(struct state *state) {
    bool active = false;
    for (struct sequence *sequence = state->slot; sequence < state->end; sequence++) {
        if (!sequence->active && state->next < state->count)
            start_sequence(state, sequence);
        active |= sequence->active;
    }
    return active;
}

void generate(const struct generation *generation, const struct prompt *prompts, int64_t count) {
    struct state state = {.options = generation, .prompts = prompts, .count = count};
    state.vocabulary = model_config(generation->model)->vocabulary;
    make_room(&state, count < generation->slots ? count : generation->slots);
    while (fill_slots(&state)) {
        if (generation->draft)
            propose(&state);
        const float *logits = compute(&state);
        if (generation->draft)
            follow(&state);
        settle(&state, logits);
    }
}
