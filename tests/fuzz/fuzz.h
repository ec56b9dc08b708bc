/* The differential fuzzer: bytes become requests, valid ones and hostile ones, whose results must be those of the scalar kernels
 * and near the oracle's, or a status.  fuzz_one is all that libFuzzer needs (make fuzz); main.c feeds it without libFuzzer.
 *
 * The first byte chooses the function; the rest is read as it is needed, and all that comes after its end is 0, so that a short
 * input is a plain request and each byte more makes it less so. */
#ifndef HEED_TESTS_FUZZ_H
#define HEED_TESTS_FUZZ_H

#include "entry.h"
#include "harness.h"
#include "reference/reference.h"
#include "stored.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Says what is wrong and with which request, then aborts. */
_Noreturn void fuzz_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What fuzz_fail prints of the request; NULL: nothing.  With FUZZ_VERBOSE set, it is printed at once. */
void fuzz_describe(void (*print)(FILE *file, const void *request), const void *request);

/* --- Choices: choices.c --- */

struct input {
    const uint8_t *data;
    size_t size, at;
};
uint64_t take(struct input *in, int bytes);
int64_t take_range(struct input *in, int64_t low, int64_t high);   /* low and high included; low at the end of the input */
bool take_chance(struct input *in, int one_in);                    /* false at the end */
int64_t take_of(struct input *in, const int64_t *list, int count); /* the first at the end */
#define TAKE_OF(in, ...)                                                                                                           \
    take_of(in, (const int64_t[]){__VA_ARGS__}, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
/* A number that somebody might not have thought of. */
int64_t take_hostile(struct input *in);
/* Mostly normal; finite if it must be. */
enum fill take_fill(struct input *in, bool finite);

/* How to run a call: instruction set, threads of OpenMP or of a pool, cancelled after some questions or not, rounding mode. */
struct how {
    struct heed_exec exec;
    bool planned;      /* heed_attention_plan and heed_attention_run */
    bool early;        /* planned when there are no tokens yet */
    int rounding;      /* of the caller, for fesetround */
    int64_t questions; /* until exec.cancelled says yes */
};
void take_how(struct input *in, struct how *how);
int rounding_mode(void);
void make_hostile_exec(struct input *in, struct heed_exec *exec);
/* Any 8 bytes of an object become a hostile number, or what another 8 bytes are; a pointer comes to lie in another block. */
struct memory;
void overwrite(struct input *in, const struct memory *memory, void *object, size_t bytes);
/* Makes true or false of any byte. */
void make_bool(bool *x);

/* --- Memory: memory.c --- */

/* What a byte of a request's memory is for.  Bytes for nothing hold NaNs and may be neither read nor written.  Structs of the
 * request itself are no inputs that heed would look out for. */
enum role {
    ROLE_NONE,
    ROLE_DESCRIPTOR,
    ROLE_READ_FIRST, /* an input that an output may overlap; to be marked before the others */
    ROLE_INPUT,
    ROLE_OUTPUT
};

/* Allocations exactly as large as needed, so that AddressSanitizer sees what goes beyond them, and between the rows of a tensor,
 * too. */
struct block {
    const char *name;
    uint8_t *base, *data; /* data: where the block begins, as little aligned as allowed */
    size_t bytes;
    uint8_t *role, *before; /* one role for each byte; the bytes before the call */
};
struct memory {
    struct block blocks[32];
    int count;
};
/* All NaN.  align: that of an element.  The input chooses the address within a cache line. */
void *memory_new(struct memory *memory, const char *name, int64_t count, size_t element, struct input *in);
void memory_free(struct memory *memory);
/* Bytes from the pointer to the end of its block; 0 if it is in none. */
size_t memory_room(const struct memory *memory, const void *pointer);

/* Rows of a tensor: width bytes, strides in bytes. */
struct rows {
    const void *data;
    int64_t count[3], stride[3], width;
};
/* A stride of elements in bytes: 0 where there is but one index, and no more than a block can be long. */
int64_t stride_bytes(int64_t stride, int64_t count, size_t element);
enum marked { MARKED, MARKED_OUTSIDE, MARKED_TWICE };
/* Gives bytes their role; says so where they are in no block, or an output is something else already. */
enum marked memory_mark(struct memory *memory, const struct rows *rows, enum role role);
void memory_unmark(struct memory *memory);
/* NaNs into all bytes without a role. */
void memory_scrub(struct memory *memory);
/* Before a call: what is there is remembered; and what has no role is put out of bounds.  After it: fails if a byte has changed
 * that is no output. */
void memory_remember(struct memory *memory);
void memory_begin_call(struct memory *memory);
void memory_end_call(struct memory *memory, bool outputs_may_change);
/* Bytes as they were before the call; and a copy of what they are, to be compared with what another call makes of them. */
void memory_restore(struct memory *memory);
void memory_copy(const struct memory *memory, uint8_t *image);
size_t memory_bytes(const struct memory *memory);
void memory_must_equal(const struct memory *memory, const uint8_t *image, const char *which);

/* --- Attention: attention_*.c --- */

struct attention_fuzz {
    struct memory memory;
    struct heed_attention request; /* under test */
    struct heed_attention plain;   /* the same with keys and values from rows */
    struct heed_kv_cache *cache;   /* in memory; NULL: none */
    struct how how;
    bool bytes;    /* the cache has scales, of tokens or of channels, and so has bits of its own */
    bool moderate; /* all values finite and of a size that cannot overflow */
    bool large;    /* enough work for several threads */
};
/* A valid request: attention_make.c, attention_cache.c. */
void make_attention(struct input *in, struct attention_fuzz *f);
void make_cache(struct input *in, struct attention_fuzz *f);
enum heed_type fuzz_take_cache_type(struct input *in);
/* Scales of channels, any or powers of two, from 1 on. */
float *fuzz_make_channels(struct input *in, struct memory *memory, int64_t count, bool powers);
/* Whether those of a hostile cache are there, or none, or too many for any memory. */
bool fuzz_has_channels(const struct memory *memory, const struct heed_kv_cache *cache);
/* Some tensors stored in 16 bits: attention_types.c.  The plain request then has what these hold, but the same output. */
void make_types(struct input *in, struct attention_fuzz *f);
enum heed_type fuzz_take_type(struct input *in); /* of 16 bits */
/* A row becomes what the type can hold. */
void fuzz_round(struct attention_fuzz *f, enum heed_type type, float *row, int64_t width);
float fuzz_value(enum heed_type type, const void *data, int64_t i);
void print_attention(FILE *file, const void *request);
/* Roles for all that a request reads and writes: attention_mark.c. */
enum marked mark_attention(struct memory *memory, const struct heed_attention *request);
/* Whether a query of the sequence sees the key. */
bool key_is_seen(const struct heed_attention *request, int64_t b, int64_t j);
/* Multiplications, and elements of the weights: about what a call costs. */
double attention_work(const struct heed_attention *request);
/* Within the bounds that follow from src/arithmetic.md: attention_oracle.c. */
void check_against_oracle(const struct attention_fuzz *f);
void fuzz_attention(struct input *in);

/* --- The other functions: requests.c --- */

struct function {
    enum heed_status (*call)(const void *request, const struct heed_exec *exec);
    void (*print)(FILE *file, const void *request);
    /* Roles for all that a request reads and writes. */
    enum marked (*mark)(struct memory *memory, const void *request);
    /* Whether all that is read to validate the request is there; NULL: nothing is. */
    bool (*may_be_validated)(const struct memory *memory, const void *request);
    /* The result itself; NULL: bits are all that is compared. */
    void (*check)(const struct memory *memory, const void *request);
};
/* A valid request of the function is run, or one that has been changed; memory is freed. */
void fuzz_request(struct input *in, const struct function *function, struct memory *memory, const void *request, bool valid);
/* Packed sequences or none, and positions or none, up to most_position: append.c. */
void fuzz_take_sequences(struct input *in, struct memory *memory, int64_t batch, int64_t tokens, int64_t most_position,
                         const int64_t **starts, const int64_t **positions);
/* Whether an array is NULL or has this many bytes in memory. */
bool memory_has(const struct memory *memory, const void *array, __int128 bytes);

/* Matrices: matrices.c.  Large: more than a fuzzer has time for. */
bool is_large(int64_t a, int64_t b, int64_t c);
int64_t take_dimension(struct input *in);
enum heed_type take_type(struct input *in); /* f32, bf16 or f16 */
struct rows typed_rows(const void *data, enum heed_type type, int64_t rows, int64_t columns, int64_t stride);
void *new_typed(struct input *in, struct memory *memory, const char *name, enum heed_type type, int64_t rows, int64_t columns,
                int64_t stride);
/* Of bytes and blocks too, whose scales are numbers as a rule. */
void *new_weights(struct input *in, struct memory *memory, const char *name, enum heed_type type, int64_t rows, int64_t columns,
                  int64_t stride);
struct rows matrix_rows(const float *data, int64_t rows, int64_t columns, int64_t stride);
float *new_matrix(struct input *in, struct memory *memory, const char *name, int64_t rows, int64_t columns, int64_t stride,
                  enum fill mode);

void fuzz_gemm(struct input *in);            /* matrices.c */
void fuzz_softmax(struct input *in);         /* matrices.c */
void fuzz_linear(struct input *in);          /* linear.c */
void fuzz_attention_layer(struct input *in); /* linear.c */
void fuzz_norm(struct input *in);            /* rows.c */
void fuzz_activate(struct input *in);        /* rows.c */
void fuzz_embedding(struct input *in);       /* embedding.c */
void fuzz_convert(struct input *in);         /* embedding.c */
void fuzz_rope(struct input *in);            /* rope.c */
void fuzz_rope_fill(struct input *in);       /* rope.c */
void fuzz_append(struct input *in);          /* append.c */
void fuzz_merge(struct input *in);           /* merge.c */

#endif
