/* The demo's pictures of what a query may see: queries of 0 weigh all keys that they see alike, so the weights are the pattern. */
#include "terminal.h"
#include "tool.h"

#include <stdio.h>

enum { TOKENS = 12, FORK = 4, SECOND = 8 };

static void set_causal(struct heed_attention *attention) { attention->causal = true; }

static void set_window(struct heed_attention *attention) {
    attention->causal = true;
    attention->window = (struct heed_window){.on = true, .left = 3, .right = 0};
}

static void set_alibi(struct heed_attention *attention) {
    static const float slope = 0.25f;
    attention->causal = true;
    attention->alibi_slopes = &slope;
}

/* Two drafts go on from the first tokens; the second does not see the first. */
static void set_tree(struct heed_attention *attention) {
    static uint64_t words[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        for (int j = 0; j <= i; j++)
            words[i] |= (uint64_t)(j < FORK || i < SECOND || j >= SECOND) << j;
    attention->tree = (struct heed_tree){.words = words, .query_stride = 1, .keys = TOKENS};
}

static const struct {
    const char *name;
    void (*set)(struct heed_attention *attention);
} patterns[] = {{"causal", set_causal}, {"window of 4", set_window}, {"ALiBi, slope 1/4", set_alibi}, {"two drafts", set_tree}};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static enum heed_status weigh(int pattern, float weights[TOKENS][TOKENS]) {
    static const float zero, value[TOKENS];
    struct heed_attention attention = {
        .batch = 1,
        .num_heads = 1,
        .num_kv_heads = 1,
        .query_tokens = TOKENS,
        .key_tokens = TOKENS,
        .head_dim = 1,
        .value_dim = 1,
        .query = {.data = &zero},
        .key = {.data = &zero},
        .value = {.data = value},
        .weights = {.data = weights[0], .token_stride = TOKENS},
    };
    patterns[pattern].set(&attention);
    return heed_attention(&attention, NULL);
}

static void print_row(const float weights[TOKENS]) {
    float most = 0;
    for (int j = 0; j < TOKENS; j++)
        most = weights[j] > most ? weights[j] : most;
    for (int j = 0; j < TOKENS; j++)
        terminal_cell(weights[j] / most);
}

int tool_demo_patterns(void) {
    static float weights[PATTERNS][TOKENS][TOKENS];
    printf("  ");
    for (int p = 0; p < PATTERNS; p++) {
        if (weigh(p, weights[p]) != HEED_OK)
            return tool_fail("%s", heed_error_message());
        printf("   %-*s", 2 * TOKENS, patterns[p].name);
    }
    for (int i = 0; i < TOKENS; i++) {
        printf("\n  ");
        for (int p = 0; p < PATTERNS; p++) {
            printf("   ");
            print_row(weights[p][i]);
        }
    }
    printf("\n");
    return TOOL_OK;
}
