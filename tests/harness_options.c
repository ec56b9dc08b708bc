/* The options' levels, and the covering array over them; harness_options.h says what for. */
#include "harness_options.h"

#include <check.h>
#include <stdlib.h>

static const struct {
    const char *name;
    const char *levels[9];
} list[OPTIONS] = {
    [OPT_SHAPE] = {"shape", {"small", "decode", "drafts", "long keys", "long queries", "chunk edges"}},
    [OPT_WIDTH] = {"width", {"odd", "16s", "wide"}},
    [OPT_GROUP] = {"group", {"1", "2", "3", "8"}},
    [OPT_SCALE] = {"scale", {"default", "0.3", "-0.2"}},
    [OPT_FILL] = {"values", {"normal", "finite", "any"}},
    [OPT_CAUSAL] = {"causal", {"no", "yes"}},
    [OPT_ALIGNMENT] = {"alignment", {"top-left", "bottom-right", "offsets"}},
    [OPT_WINDOW] = {"window", {"none", "left", "right", "both", "self", "unbounded"}},
    [OPT_QUERY_FORM] = {"queries", {"batched", "packed", "packed with gaps"}},
    [OPT_KEY_FORM] = {"keys", {"batched", "packed", "packed with gaps"}},
    [OPT_LENGTHS] = {"lengths", {"none", "any", "zeros"}},
    [OPT_KEY_POSITION] = {"key position", {"0", "256", "768"}},
    [OPT_MASK] = {"mask", {"none", "BHQK", "B11K", "11QK", "1H1K", "BHQ1", "1111"}},
    [OPT_BIAS] = {"bias", {"none", "BHQK", "B11K", "11QK", "1H1K", "BHQ1", "1111", "BHQK with -inf"}},
    [OPT_TREE] = {"tree", {"none", "few", "two words", "more than keys"}},
    [OPT_SOFTCAP] = {"softcap", {"none", "0.5", "30"}},
    [OPT_ALIBI] = {"alibi", {"no", "yes"}},
    [OPT_RELATIVE] = {"relative", {"none", "causal", "bidirectional", "causal, odd", "bidirectional, odd"}},
    [OPT_SINKS] = {"sinks", {"none", "finite", "some -inf"}},
    [OPT_OUTPUT] = {"output", {"yes", "no"}},
    [OPT_WEIGHTS] = {"weights", {"no", "yes"}},
    [OPT_LSE] = {"lse", {"no", "yes"}},
    [OPT_SCORES] = {"scores", {"no", "raw", "capped", "biased"}},
    [OPT_STATES] = {"states", {"no", "yes"}},
    [OPT_MASS] = {"mass", {"no", "all", "last"}},
    [OPT_THREADS] = {"threads", {"1", "2", "3", "8"}},
    [OPT_ISA] = {"isa", {NULL}},
    [OPT_PLANNED] = {"planned", {"no", "yes"}},
    [OPT_CACHE] = {"cache", {"none", "linear", "ring", "pages of 16", "pages of 32", "pages of 48", "pages of 64", "pages of 256"}},
    [OPT_QUERY_TYPE] = {"query type", {"f32", "bf16", "f16"}},
    [OPT_KEY_TYPE] = {"key type", {"f32", "bf16", "f16", "i8"}},
    [OPT_VALUE_TYPE] = {"value type", {"f32", "bf16", "f16", "i8"}},
    [OPT_OUTPUT_TYPE] = {"output type", {"f32", "bf16", "f16"}},
    [OPT_COMPUTE] = {"compute", {"f32", "bf16", "bf16 as AMX", "i8"}},
    [OPT_CACHE_SIZES] = {"cache sizes", {"the machine's", "a byte"}},
};

int option_levels(enum option option) {
    int levels = 0;
    if (option == OPT_ISA)
        return usable_tables();
    while (levels < 9 && list[option].levels[levels])
        levels++;
    return levels;
}

const char *option_name(enum option option) { return list[option].name; }

const char *level_name(enum option option, int level) {
    return option == OPT_ISA ? heed_kernels_usable(level)->name : list[option].levels[level];
}

struct choice random_choice(struct rng *rng) {
    struct choice choice;
    for (int o = 0; o < OPTIONS; o++)
        choice.level[o] = (int)rng_range(rng, 0, option_levels((enum option)o) - 1);
    return choice;
}

/* --- The covering array --- */

enum { MOST_LEVELS = 9, CANDIDATES = 8 };

struct pairs {
    bool covered[OPTIONS][MOST_LEVELS][OPTIONS][MOST_LEVELS];
    int64_t left;
};

static bool is_new(const struct pairs *pairs, int a, int level_a, int b, int level_b) {
    return !pairs->covered[a][level_a][b][level_b];
}

static int64_t cover(struct pairs *pairs, const struct choice *row) {
    int64_t news = 0;
    for (int a = 0; a < OPTIONS; a++) {
        for (int b = 0; b < OPTIONS; b++) {
            bool *covered = &pairs->covered[a][row->level[a]][b][row->level[b]];
            news += a < b && !*covered;
            *covered = true;
        }
    }
    pairs->left -= news;
    return news;
}

/* The level of option o that covers most new pairs with the options chosen before it; of equals, any. */
static int best_level(const struct pairs *pairs, const struct choice *row, const int *order, int chosen, struct rng *rng) {
    const int o = order[chosen], levels = option_levels((enum option)o), first = (int)rng_range(rng, 0, levels - 1);
    int best = first, most = -1;
    for (int n = 0; n < levels; n++) {
        int level = (first + n) % levels, news = 0;
        for (int other = 0; other < chosen; other++)
            news += is_new(pairs, o, level, order[other], row->level[order[other]]);
        if (news > most) {
            most = news;
            best = level;
        }
    }
    return best;
}

static struct choice greedy_row(const struct pairs *pairs, struct rng *rng) {
    struct choice row;
    int order[OPTIONS];
    for (int o = 0; o < OPTIONS; o++)
        order[o] = o;
    for (int o = OPTIONS - 1; o > 0; o--) {
        int other = (int)rng_range(rng, 0, o), swap = order[o];
        order[o] = order[other];
        order[other] = swap;
    }
    for (int chosen = 0; chosen < OPTIONS; chosen++)
        row.level[order[chosen]] = best_level(pairs, &row, order, chosen, rng);
    return row;
}

static int64_t count_new(const struct pairs *pairs, const struct choice *row) {
    int64_t news = 0;
    for (int a = 0; a < OPTIONS; a++)
        for (int b = a + 1; b < OPTIONS; b++)
            news += is_new(pairs, a, row->level[a], b, row->level[b]);
    return news;
}

/* A pair that is left, where no candidate holds a new one. */
static void put_in_a_pair(const struct pairs *pairs, struct choice *row) {
    for (int a = 0; a < OPTIONS; a++)
        for (int b = a + 1; b < OPTIONS; b++)
            for (int i = 0; i < option_levels((enum option)a); i++)
                for (int j = 0; j < option_levels((enum option)b); j++)
                    if (is_new(pairs, a, i, b, j)) {
                        row->level[a] = i;
                        row->level[b] = j;
                        return;
                    }
}

struct choice *covering_array(struct rng *rng, int64_t *rows, int64_t *count) {
    struct pairs *pairs = calloc(1, sizeof *pairs);
    struct choice *array = NULL;
    ck_assert(pairs);
    for (int a = 0; a < OPTIONS; a++)
        for (int b = a + 1; b < OPTIONS; b++)
            pairs->left += (int64_t)option_levels((enum option)a) * option_levels((enum option)b);
    *count = pairs->left;
    for (*rows = 0; pairs->left > 0; ++*rows) {
        struct choice best = greedy_row(pairs, rng);
        for (int i = 1; i < CANDIDATES; i++) {
            struct choice other = greedy_row(pairs, rng);
            if (count_new(pairs, &other) > count_new(pairs, &best))
                best = other;
        }
        if (count_new(pairs, &best) == 0)
            put_in_a_pair(pairs, &best);
        array = realloc(array, (size_t)(*rows + 1) * sizeof *array);
        ck_assert(array);
        array[*rows] = best;
        cover(pairs, &best);
    }
    free(pairs);
    return array;
}
