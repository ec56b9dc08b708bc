/* The demo's last part: a layer as engines run it, on every instruction set that this machine has, timed, with the bits compared.
 */
#define _POSIX_C_SOURCE 200809L

#include "seeds.h"
#include "terminal.h"
#include "tool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEADS = 12, DIM = 64, TOKENS = 1024, ROW = HEADS * DIM, MAX_RUNS = 7, MAX_ISAS = 8 };

/* Query, key and value of a token lie in one row, as a fused projection leaves them; the output is [tokens, heads, dim]. */
struct layer {
    float *qkv;    /* [TOKENS][3][HEADS][DIM] */
    float *output; /* [TOKENS][HEADS][DIM] */
    float *scalar; /* output of the first instruction set */
};

struct measured {
    double milliseconds; /* median */
    enum heed_status status;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static enum heed_status run_layer(const struct layer *layer, const char *isa) {
    struct heed_attention attention = {
        .batch = 1,
        .num_heads = HEADS,
        .num_kv_heads = HEADS,
        .query_tokens = TOKENS,
        .key_tokens = TOKENS,
        .head_dim = DIM,
        .value_dim = DIM,
        .causal = true,
        .query = {.data = layer->qkv, .head_stride = DIM, .token_stride = 3 * ROW},
        .key = {.data = layer->qkv + ROW, .head_stride = DIM, .token_stride = 3 * ROW},
        .value = {.data = layer->qkv + 2 * ROW, .head_stride = DIM, .token_stride = 3 * ROW},
        .output = {.data = layer->output, .head_stride = DIM, .token_stride = ROW},
    };
    return heed_attention(&attention, &(struct heed_exec){.isa = isa});
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Once where a run takes long, else MAX_RUNS times after one that warms up caches and threads. */
static struct measured measure(const struct layer *layer, const char *isa) {
    struct measured measured = {0, HEED_OK};
    double seconds[MAX_RUNS], begin = now();
    measured.status = run_layer(layer, isa);
    seconds[0] = now() - begin;
    int runs = seconds[0] > 0.3 ? 1 : MAX_RUNS;
    for (int i = 0; runs > 1 && i < runs && measured.status == HEED_OK; i++) {
        begin = now();
        measured.status = run_layer(layer, isa);
        seconds[i] = now() - begin;
    }
    qsort(seconds, (size_t)runs, sizeof *seconds, compare);
    measured.milliseconds = 1e3 * seconds[runs / 2];
    return measured;
}

/* Useful operations alone: two products over the S (S + 1) / 2 pairs of query and key, a multiplication and an addition each. */
static double gflop(void) { return 1e-9 * 4.0 * TOKENS * (TOKENS + 1) / 2 * DIM * HEADS; }

static bool print_row(struct layer *layer, const char *isa, double *scalar_milliseconds) {
    if (terminal_is_interactive()) {
        printf("     %-10s running ...", isa);
        fflush(stdout);
    }
    memset(layer->output, 0, ROW * TOKENS * sizeof(float));
    struct measured measured = measure(layer, isa);
    if (terminal_is_interactive())
        printf("\r");
    if (measured.status != HEED_OK)
        return tool_fail("%s", heed_error_message()) == TOOL_OK;
    bool first = *scalar_milliseconds == 0;
    if (first) {
        *scalar_milliseconds = measured.milliseconds;
        memcpy(layer->scalar, layer->output, ROW * TOKENS * sizeof(float));
    }
    bool same = memcmp(layer->scalar, layer->output, ROW * TOKENS * sizeof(float)) == 0;
    printf("     %-10s %12.2f %10.1f %11.1f x   %s%s%s\n", isa, measured.milliseconds, 1e3 * gflop() / measured.milliseconds,
           *scalar_milliseconds / measured.milliseconds,
           first  ? ""
           : same ? terminal_good()
                  : terminal_bad(),
           first  ? "reference"
           : same ? "yes"
                  : "NO",
           terminal_reset());
    fflush(stdout);
    return same;
}

static bool print_rows(struct layer *layer, const struct heed_info *info) {
    int count = 0;
    double scalar_milliseconds = 0;
    bool good = true;
    while (count < MAX_ISAS && info->usable[count])
        count++;
    while (count-- > 0) /* usable is best first, and scalar, the measure of the others, last */
        good &= print_row(layer, info->usable[count], &scalar_milliseconds);
    return good;
}

int tool_demo_layer(const struct heed_info *info) {
    struct layer layer = {malloc(3 * ROW * TOKENS * sizeof(float)), malloc(ROW * TOKENS * sizeof(float)),
                          malloc(ROW * TOKENS * sizeof(float))};
    int status = TOOL_FAILED;
    if (!layer.qkv || !layer.output || !layer.scalar) {
        tool_fail("out of memory for the layer");
    } else {
        float spread = sqrtf(3); /* variance 1, so that scores vary as those of a real layer do */
        seed_random(42, -spread, spread, layer.qkv, 3 * ROW * TOKENS);
        printf("     %-10s %12s %10s %13s   %s\n", "", "milliseconds", "GFLOP/s", "over scalar", "same bits");
        status = print_rows(&layer, info) ? TOOL_OK : TOOL_FAILED;
    }
    free(layer.qkv);
    free(layer.output);
    free(layer.scalar);
    return status;
}
