/* `make check-exp`: exp2 of every float from -0 to -126.5, of -inf and of NaN, on every usable table, all cores at work: the
 * largest error against double, whether all tables have the same bits, and how SLEEF's exp2f fares beside it.  The scalar tables
 * see one float in 64: compiled from the same text, they are slower, not different.  Fails above 1 ULP. */
#include "dispatch.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sleef.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 16, MAX_TABLES = 8, MAX_THREADS = 256, SPARSE = 64 };
static const uint32_t first = 0x80000000u, last = 0xc2fd0000u; /* -0, -126.5 */

static _Atomic uint32_t next_block;
static uint32_t blocks;

struct report {
    double worst[MAX_TABLES + 1]; /* of each table, then of SLEEF */
    uint64_t different;           /* from the first table's bits */
    float at[MAX_TABLES + 1];
};

static double error_in_ulps(float got, double want) {
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

static void note(struct report *report, int which, float x, float got, double want) {
    /* below -126 the contract is 0, which SLEEF does not share */
    double error = x < -126.0f ? (which < MAX_TABLES && got != 0 ? INFINITY : 0) : error_in_ulps(got, want);
    if (error > report->worst[which]) {
        report->worst[which] = error;
        report->at[which] = x;
    }
}

static void sweep_block(uint32_t block, struct report *report, float *x, double *want, float *best, float *y) {
    uint32_t start = first + block * BLOCK, n = last - start < BLOCK ? last - start + 1 : BLOCK;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = start + i;
        memcpy(x + i, &bits, sizeof *x);
        want[i] = exp2((double)x[i]);
        note(report, MAX_TABLES, x[i], Sleef_exp2f_u10(x[i]), want[i]);
    }
    for (int t = 0; heed_kernels_usable(t); t++) {
        bool sparse = heed_kernels_usable(t)->lanes == 1 && heed_kernels_usable(1);
        if (sparse && block % SPARSE)
            continue;
        heed_kernels_usable(t)->exp2(x, n, t ? y : best);
        for (uint32_t i = 0; i < n; i++)
            note(report, t, x[i], t ? y[i] : best[i], want[i]);
        for (uint32_t i = 0; t && i < n; i++)
            report->different += memcmp(y + i, best + i, sizeof *y) != 0;
    }
}

static void *sweep(void *argument) {
    float *x = malloc(BLOCK * sizeof *x), *best = malloc(BLOCK * sizeof *best), *y = malloc(BLOCK * sizeof *y);
    double *want = malloc(BLOCK * sizeof *want);
    uint32_t block;
    if (!x || !best || !y || !want)
        abort();
    while ((block = next_block++) < blocks) {
        if (block % (blocks / 50) == 0) {
            fprintf(stderr, "\r%3" PRIu32 " %%", block * 100 / blocks);
            fflush(stderr);
        }
        sweep_block(block, argument, x, want, best, y);
    }
    free(x);
    free(best);
    free(y);
    free(want);
    return NULL;
}

static void merge(struct report *into, const struct report *from) {
    into->different += from->different;
    for (int i = 0; i <= MAX_TABLES; i++) {
        if (from->worst[i] > into->worst[i]) {
            into->worst[i] = from->worst[i];
            into->at[i] = from->at[i];
        }
    }
}

static struct report sweep_all(void) {
    static struct report reports[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int count = cpus < 1 ? 1 : cpus > MAX_THREADS ? MAX_THREADS : (int)cpus;
    blocks = (last - first) / BLOCK + 1;
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, sweep, &reports[i]))
            abort();
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    fputs("\r100 %\n", stderr);
    for (int i = 1; i < count; i++)
        merge(&reports[0], &reports[i]);
    return reports[0];
}

/* 0 for -inf and whatever is below -126; NaN for NaN. */
static bool specials_are_right(const struct heed_kernels *table) {
    const float x[] = {-INFINITY, -126.5f, -3.4e38f, NAN, -NAN, -0.0f, 0.0f, -126.0f};
    float y[8];
    table->exp2(x, 8, y);
    return y[0] == 0 && y[1] == 0 && y[2] == 0 && isnan(y[3]) && isnan(y[4]) && y[5] == 1 && y[6] == 1 && y[7] == 0x1p-126f;
}

int main(void) {
    struct report report = sweep_all();
    bool good = report.different == 0;
    for (int t = 0; heed_kernels_usable(t); t++) {
        const struct heed_kernels *table = heed_kernels_usable(t);
        bool special = specials_are_right(table);
        printf("exp2 %-9s at most %.4f ULP, at %a%s%s\n", table->name, report.worst[t], (double)report.at[t],
               table->lanes == 1 && heed_kernels_usable(1) ? " (1 in 64)" : "", special ? "" : "; WRONG for special values");
        good &= special && report.worst[t] <= 1;
    }
    printf("exp2 SLEEF     at most %.4f ULP, at %a (Sleef_exp2f_u10)\n", report.worst[MAX_TABLES], (double)report.at[MAX_TABLES]);
    printf("%" PRIu64 " results differ between tables\n", report.different);
    puts(good ? "good" : "NOT GOOD: more than 1 ULP, or different bits");
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
