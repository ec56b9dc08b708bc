/* A layer as engines run it, on every instruction set that this machine has, timed, with the bits compared. */
#define _POSIX_C_SOURCE 200809L

#include "layer.h"
#include "seeds.h"
#include "terminal.h"
#include "tool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_RUNS = 7, MAX_ISAS = 8 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static struct heed_input part_of(const struct layer *layer, int part) {
    const size_t bytes = layer->type == HEED_F32 ? sizeof(float) : sizeof(uint16_t);
    return (struct heed_input){.data = (const char *)layer->qkv + (size_t)(part * LAYER_ROW) * bytes,
                               .head_stride = LAYER_DIM,
                               .token_stride = 3 * LAYER_ROW,
                               .type = layer->type};
}

static enum heed_status run_layer(const struct layer *layer, const char *isa) {
    struct heed_attention attention = {
        .batch = 1,
        .num_heads = LAYER_HEADS,
        .num_kv_heads = LAYER_HEADS,
        .query_tokens = LAYER_TOKENS,
        .key_tokens = LAYER_TOKENS,
        .head_dim = LAYER_DIM,
        .value_dim = LAYER_DIM,
        .causal = true,
        .query = part_of(layer, 0),
        .key = part_of(layer, 1),
        .value = part_of(layer, 2),
        .output = {.data = layer->output, .head_stride = LAYER_DIM, .token_stride = LAYER_ROW, .type = layer->type},
    };
    return heed_attention(&attention, &(struct heed_exec){.isa = isa});
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Once where a run takes long, else MAX_RUNS times after one that warms up caches and threads. */
struct layer_time layer_measure(const struct layer *layer, const char *isa) {
    struct layer_time measured = {0, HEED_OK};
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

void layer_fill(float *qkv) {
    const float spread = sqrtf(3); /* variance 1, so that scores vary as those of a real layer do */
    seed_random(42, -spread, spread, qkv, LAYER_INPUTS);
}

/* Useful operations alone: two products over the S (S + 1) / 2 pairs of query and key, a multiplication and an addition each. */
static double gflop(void) { return 1e-9 * 4.0 * LAYER_TOKENS * (LAYER_TOKENS + 1) / 2 * LAYER_ROW; }

static bool print_row(const struct layer *layer, const char *isa, float *scalar, double *scalar_milliseconds) {
    if (terminal_is_interactive()) {
        printf("     %-10s running ...", isa);
        fflush(stdout);
    }
    memset(layer->output, 0, LAYER_OUTPUT * sizeof(float));
    struct layer_time measured = layer_measure(layer, isa);
    if (terminal_is_interactive())
        printf("\r");
    if (measured.status != HEED_OK)
        return tool_fail("%s", heed_error_message()) == TOOL_OK;
    bool first = *scalar_milliseconds == 0;
    if (first) {
        *scalar_milliseconds = measured.milliseconds;
        memcpy(scalar, layer->output, LAYER_OUTPUT * sizeof(float));
    }
    bool same = memcmp(scalar, layer->output, LAYER_OUTPUT * sizeof(float)) == 0;
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

static bool print_rows(const struct layer *layer, float *scalar, const struct heed_info *info) {
    int count = 0;
    double scalar_milliseconds = 0;
    bool good = true;
    while (count < MAX_ISAS && info->usable[count])
        count++;
    while (count-- > 0) /* usable is best first, and scalar, the measure of the others, last */
        good &= print_row(layer, info->usable[count], scalar, &scalar_milliseconds);
    return good;
}

int tool_demo_layer(const struct heed_info *info) {
    struct layer layer = {HEED_F32, malloc(LAYER_INPUTS * sizeof(float)), malloc(LAYER_OUTPUT * sizeof(float))};
    float *scalar = malloc(LAYER_OUTPUT * sizeof(float));
    int status = TOOL_FAILED;
    if (!layer.qkv || !layer.output || !scalar) {
        tool_fail("out of memory for the layer");
    } else {
        layer_fill(layer.qkv);
        printf("     %-10s %12s %10s %13s   %s\n", "", "milliseconds", "GFLOP/s", "over scalar", "same bits");
        status = print_rows(&layer, scalar, info) ? TOOL_OK : TOOL_FAILED;
    }
    free(layer.qkv);
    free(layer.output);
    free(scalar);
    return status;
}
