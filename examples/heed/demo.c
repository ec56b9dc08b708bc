/* heed demo: what the library computes, on numbers that others have published, and how fast. */
#include "seeds.h"
#include "terminal.h"
#include "tool.h"

#include <math.h>
#include <stdio.h>

static void heading(const char *text) { printf("%s%s%s\n", terminal_bold(), text, terminal_reset()); }

/* What was found in one column, whether it is as it must be in the next. */
static bool print_verdict(const char *found, bool good) {
    printf("     %-80s %s%s%s\n", found, good ? terminal_good() : terminal_bad(), good ? "yes" : "NO", terminal_reset());
    return good;
}

/* Weights and output of every token in one line each. */
static void print_numbers(const struct seed_result *result) {
    printf("     %-13s %-*s   %s\n", "", 7 * result->tokens, "attention weights", "output");
    for (int i = 0; i < result->tokens; i++) {
        printf("     %-13s", result->words[i]);
        for (int j = 0; j < result->tokens; j++)
            printf(" %.4f", (double)result->weights[i * result->tokens + j]);
        printf("   ");
        for (int d = 0; d < result->width; d++)
            printf(" %7.4f", (double)result->output[i * result->width + d]);
        printf("\n");
    }
}

/* The checks against the notebook's print, or those against loops in double, in one line. */
static bool print_checks(const struct seed_result *result, bool printed, const char *what) {
    int numbers = 0;
    double worst = 0;
    bool good = true;
    for (int i = 0; i < result->checks; i++) {
        const struct seed_check *check = &result->check[i];
        if (check->printed != printed)
            continue;
        numbers += check->rows * check->columns;
        worst = fmax(worst, seed_difference(check));
        good &= seed_agrees(check);
    }
    char text[128];
    snprintf(text, sizeof text, "%d %s, largest difference %.1e: within rounding", numbers, what, worst);
    return numbers == 0 || print_verdict(text, good);
}

static bool print_seed(const struct seed *seed, const struct seed_result *result) {
    printf("%s%s  %s%s\n", terminal_bold(), seed->name, seed->title, terminal_reset());
    if (result->status != HEED_OK)
        return tool_fail("%s", heed_error_message()) == TOOL_OK;
    print_numbers(result);
    bool good = print_checks(result, true, "printed numbers");
    good &= print_checks(result, false, "unprinted numbers against double");
    for (int i = 0; i < result->claims; i++)
        good &= print_verdict(result->claim[i].text, result->claim[i].holds);
    printf("\n");
    return good;
}

static bool print_seeds(struct seed_result *last) {
    bool good = true;
    for (int i = 0; i < SEED_COUNT; i++) {
        seeds[i].run(NULL, last);
        good &= print_seed(&seeds[i], last);
    }
    return good;
}

int tool_demo(int argc, char **argv) {
    if (argc > 1)
        return tool_usage("demo takes no arguments, but was given %s", argv[1]);
    struct heed_info info;
    if (heed_info(&info) != HEED_OK)
        return tool_fail("%s", heed_error_message());
    struct seed_result sentence;
    printf("heed %s on %s, %d thread%s\n\n", HEED_VERSION, info.isa, info.threads, info.threads == 1 ? "" : "s");
    heading("Five notebooks that explain attention, computed by heed and compared with the numbers they print");
    printf("\n");
    bool good = print_seeds(&sentence);
    heading("Which word of \"The cat chased the mouse\" attends to which (each row adds up to 1)");
    terminal_heat_map(sentence.words, sentence.tokens, sentence.weights);
    printf("\n");
    heading("Which keys (columns) the queries (rows) may see: the weights of queries that like all keys alike");
    good &= tool_demo_patterns() == TOOL_OK;
    printf("\n");
    heading("A layer of 12 heads x 64, 1024 tokens, causal, float32, on every instruction set of this CPU");
    good &= tool_demo_layer(&info) == TOOL_OK;
    printf("\n");
    heading("The same layer stored in 16 bits: query, key, value and output; computed in float32");
    good &= tool_demo_types() == TOOL_OK;
    return good ? TOOL_OK : TOOL_FAILED;
}
