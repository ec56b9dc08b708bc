/* What every test needs, in the manner of dav1d's checkasm: replayable random numbers, nasty values, memory that notices a stray
 * access, and reports that say what was run.
 *
 * A check returns NULL, or a text that says what is wrong; must() turns a text into a failure of the test.  So the self-test
 * (test_harness.c) can plant wrong kernels and see that each is caught. */
#ifndef HEED_TESTS_HARNESS_H
#define HEED_TESTS_HARNESS_H

#include "dispatch.h"
#include "heed.h"
#include "kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- The run: harness.c --- */

/* HEED_TEST_SEED, else a new one in each run; printed by main and in every failure. */
uint64_t test_seed(void);
/* HEED_TEST_QUICK: fewer and smaller cases, for emulators and valgrind. */
bool test_quick(void);
/* Of a loop: full, or a few when quick. */
int64_t test_count(int64_t full);

/* The number of usable tables, for loop tests. */
int usable_tables(void);
/* Whether the table's logarithm has the bits of all others: not the scalar one's on an x86 CPU without FMA (src/arithmetic.md). */
bool log_is_exact(const struct heed_kernels *table);

/* What of a request's arithmetic is worth a word, after a blank. */
const char *compute_name(enum heed_compute compute);
/* The case under test, for reports: also printed when it crashes. */
void describe(const char *kernel, const char *isa, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Fails the test, with the case and the seed, if a check found a problem. */
void must(const char *problem);
/* Prints the described case on SIGSEGV and the like, then lets the signal end the process. */
void report_crashes(void);

/* --- Random numbers: harness_random.c; the same on every machine, because floats are made from integers without rounding --- */

struct rng {
    uint64_t state[4];
};
struct rng rng_seeded(uint64_t seed);
struct rng rng_for(const char *name, int64_t index); /* depends on test_seed() */
struct rng rng_fixed(const char *name);              /* the same in every run */
uint64_t rng_next(struct rng *rng);
int64_t rng_range(struct rng *rng, int64_t low, int64_t high); /* low and high included */

enum fill {
    FILL_NORMAL,    /* bell-shaped, most within 1 */
    FILL_CANCEL,    /* large terms of both signs whose sums are small */
    FILL_EQUAL,     /* one value everywhere */
    FILL_SPIKE,     /* one value of 2^40 */
    FILL_EXP_LIMIT, /* spread over hundreds: exponentials between 1 and 0, through the denormals */
    FILL_DENORMAL,
    FILL_ZEROS, /* of both signs, among a few ones */
    FILL_FINITE_COUNT,
    FILL_MINUS_INF = FILL_FINITE_COUNT, /* here and there */
    FILL_ALL_MINUS_INF,
    FILL_PLUS_INF,
    FILL_OVERFLOW, /* finite, but their products are not */
    FILL_NAN,      /* here and there, of any sign and payload */
    FILL_COUNT
};
enum fill any_fill(struct rng *rng);
const char *any_isa(struct rng *rng); /* the name of a usable table */
int any_threads(struct rng *rng);     /* one of the thread counts that the promise is tested for */
const char *fill_name(enum fill mode);
void fill(struct rng *rng, enum fill mode, float *x, int64_t n);

/* --- Memory: harness_memory.c --- */

/* Whether masked-out lanes of a vector load may lie in an inaccessible page, as processors promise.  qemu 7.2 loads all lanes of
 * AVX2's vmaskmovps; there the page after what may be read has to begin guard_delay bytes late, a panel, elsewhere none. */
bool masked_loads_are_exact(void);
size_t guard_delay(void);

/* Stands where nobody may read or has written yet: a signalling NaN that heed never writes. */
#define POISON 0xffaaaaaau

enum placement { AT_START, AT_END, PLACEMENTS };
enum placement any_placement(struct rng *rng);

/* count floats, all POISON, between two inaccessible pages, directly after the first one or directly before the last one. */
struct buffer {
    float *data;
    int64_t count;
    unsigned char *pages;
    size_t page_bytes; /* of all pages but the two */
};
struct buffer buffer_new(int64_t count, enum placement placement);
void buffer_free(struct buffer *buffer);
uint64_t hash_floats(const float *x, int64_t n);

/* How a [batch, heads, rows, columns] tensor lies in memory; matrices have one batch and one head. */
enum layout { LAYOUT_BHSD, LAYOUT_BSHD, LAYOUT_BHSD_GAPS, LAYOUT_BSHD_GAPS, LAYOUTS };
struct tensor {
    int64_t size[4];
    int64_t stride[3]; /* of batch, heads and rows; columns are contiguous */
    float *data;
    struct buffer memory;
    uint64_t hash;
};
/* A guarded tensor holding `values` (contiguous); what is between its rows is POISON. */
struct tensor tensor_input(const int64_t size[4], enum layout layout, enum placement placement, const float *values);
/* A guarded tensor of POISON. */
struct tensor tensor_output(const int64_t size[4], enum layout layout, enum placement placement);
/* One matrix of given leading dimension; values NULL: an output. */
struct tensor matrix(int64_t rows, int64_t columns, int64_t ld, enum placement placement, const float *values);
/* Copies the elements to `values`, poisons them again, and checks that all of them had been written and nothing around them. */
const char *tensor_take(struct tensor *tensor, float *values);
/* Writes values into the elements. */
void tensor_put(struct tensor *tensor, const float *values);
/* Checks that nothing in the tensor's pages has changed since it was made. */
const char *tensor_unchanged(const struct tensor *tensor);
void tensor_free(struct tensor *tensor);
/* malloc for n floats that cannot fail. */
float *new_floats(int64_t n);
double *new_doubles(int64_t n);
/* n floats from malloc, filled. */
float *new_filled(struct rng *rng, enum fill mode, int64_t n);

/* --- Comparisons: harness_compare.c --- */

/* How alike two results must be: bit for bit; with any NaN for any NaN; the same number, which also takes a zero for the other. */
enum likeness { SAME_BITS, ANY_NAN, SAME_NUMBER };
const char *compare(enum likeness likeness, const float *got, const float *want, int64_t rows, int64_t columns);
/* Units in the last place between two floats; 0 for two NaNs. */
int64_t ulps_between(float a, float b);

/* Errors against the oracle, gathered over many cases and printed in one line. */
struct accuracy {
    double worst_of_bound; /* the largest error / derived bound */
    double worst_ulps;     /* of typical results that did not cancel */
    double worst_relative; /* of typical results, to the magnitude of their terms */
    int64_t results;
    bool typical; /* whether the results that come are of ordinary values; set by the test */
};
/* Takes in one result; magnitude is the sum of its terms' absolute values.  Says so if the error exceeds the bound. */
const char *accuracy_add(struct accuracy *accuracy, float got, double want, double bound, double magnitude);
void accuracy_print(const struct accuracy *accuracy, const char *kernel, const char *isa);

#endif
