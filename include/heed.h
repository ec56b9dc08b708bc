/* heed: attention, matrix products and softmax for CPUs, with the same bits everywhere.
 *
 * The only public header.  Every computing function takes a descriptor (what to compute), filled with designated initialisers, and
 * an optional heed_exec (how to run it, never what comes out), and returns a heed_status.
 *
 *   Units      sizes, strides and leading dimensions count elements (floats), never bytes.
 *   Sizes      every size may be 0; a call without elements does nothing and returns HEED_OK.
 *   Bits       a result depends on the descriptor and the data alone: not on the instruction set, the compiler, the number of
 *              threads, alignment, strides, the other rows of the batch, or the caller's rounding and flush-to-zero modes.
 *              Every NaN that heed writes is the quiet NaN 0x7fc00000.  The rules are in src/arithmetic.md.
 *   Errors     a bad request returns a status and sets heed_error_message(); no output is touched.  Nothing aborts or prints.
 *   Aliasing   an output may overlap no input and no other output, unless its function says so.
 *   Threads    any function may be called from any number of threads at once; there is no state between calls.
 *   Pointers   need the alignment of float (4 bytes), nothing more.
 */
#ifndef HEED_H
#define HEED_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEED_VERSION "0.1.0"

enum heed_status {
    HEED_OK = 0,
    HEED_INVALID_ARGUMENT, /* a field has a value that it may not have; the message names both */
    HEED_UNSUPPORTED_ISA,  /* heed_exec.isa or the environment's HEED_ISA names no instruction set usable here */
    HEED_OUT_OF_MEMORY     /* the workspace of a call could not be allocated */
};

/* A few words for a status, never NULL, for any value. */
const char *heed_status_string(enum heed_status status);

/* The message of the latest call on this thread that did not return HEED_OK: "query.token_stride is -4, must be at least 0".
 * The string belongs to heed and lives until this thread's next failing call; "" before the first. */
const char *heed_error_message(void);

/* How to run a call.  NULL, or all zero, means: the best instruction set, OpenMP's threads.
 *
 * Threads come from OpenMP, or from the caller's own pool when `run` is set: heed then asks num_threads(pool) how many workers may
 * run at once (at least 1), and calls run(pool, count, task, context) with count at most that; run must call task(context, i) once
 * for each i in [0, count), on any threads, at once or one after another, and return when all have returned.  A small problem
 * stays on the calling thread either way and wakes nobody. */
struct heed_exec {
    int threads;     /* workers to use; 0: as many as OpenMP or the pool offers.  May exceed the CPUs; at most 1024 */
    const char *isa; /* "avx512", "avx2", "scalarfma", "scalar", "neon"; NULL: HEED_ISA from the environment, else the best */
    void *pool;
    int (*num_threads)(void *pool);
    void (*run)(void *pool, int count, void (*task)(void *context, int index), void *context);
};

/* Views of [batch, heads, tokens, width] tensors whose last dimension is contiguous: element (b, h, t, d) is
 * data[b * batch_stride + h * head_stride + t * token_stride + d].  BHSD, BSHD and packed QKV all fit without a copy.
 * Strides are at least 0; an input may repeat itself through a stride of 0; an output's rows may not overlap each other. */
struct heed_input {
    const float *data;
    int64_t batch_stride, head_stride, token_stride;
};
struct heed_output {
    float *data;
    int64_t batch_stride, head_stride, token_stride;
};

/* Which keys query token i may see, of query_tokens queries and key_tokens keys. */
enum heed_causal {
    HEED_CAUSAL_NONE = 0,    /* all */
    HEED_CAUSAL_TOP_LEFT,    /* key j if j <= i: the first query sees the first key (PyTorch is_causal, ONNX without a past) */
    HEED_CAUSAL_BOTTOM_RIGHT /* key j if j <= i + key_tokens - query_tokens: the last query sees the last key (FlashAttention) */
};

/* output = softmax(scale * query key^T) value, per batch and head (Vaswani et al. 2017, section 3.2.1).
 *
 * Query head h attends to key/value head h / (num_heads / num_kv_heads): multi-head, grouped-query and multi-query attention.
 * Keys that a query may not see are not part of its result even if they hold NaN or Inf; a query that sees no key gives an output
 * of exactly 0, weights of 0 and a log-sum-exp of -inf.  A NaN that it does see gives NaN.
 * Memory beyond the tensors: about 1 MiB per worker for widths up to 256, whatever the number of tokens. */
struct heed_attention {
    int64_t batch;
    int64_t num_heads, num_kv_heads; /* query heads, key/value heads; num_kv_heads divides num_heads */
    int64_t query_tokens, key_tokens;
    int64_t head_dim;  /* width of query and key, at least 1 */
    int64_t value_dim; /* width of value and output, at least 1 */
    float scale;       /* 0: 1/sqrt(head_dim); finite */
    enum heed_causal causal;
    struct heed_input query;    /* [batch, num_heads, query_tokens, head_dim] */
    struct heed_input key;      /* [batch, num_kv_heads, key_tokens, head_dim] */
    struct heed_input value;    /* [batch, num_kv_heads, key_tokens, value_dim] */
    struct heed_output output;  /* [batch, num_heads, query_tokens, value_dim] */
    struct heed_output weights; /* data NULL: not wanted; else [batch, num_heads, query_tokens, key_tokens]: the softmax itself */
    struct heed_output lse;     /* data NULL: not wanted; else [batch, num_heads, query_tokens, 1]: ln(sum(exp(scale * q k^T))) */
};
enum heed_status heed_attention(const struct heed_attention *attention, const struct heed_exec *exec);

/* c = alpha * op(a) op(b) + beta * c, row-major (BLAS level 3 SGEMM, Dongarra et al. 1990).
 *
 * op(a) is m x k: element (i, p) is a[i * lda + p], or a[p * lda + i] if transpose_a.  op(b) is k x n: element (p, j) is
 * b[p * ldb + j], or b[j * ldb + p] if transpose_b.  c is m x n with leading dimension ldc.  beta 0: c is written, not read.
 * alpha 0: neither a nor b is read.  Row i of c depends on row i of op(a), on b and on nothing else.
 * packed_b, when set, is what heed_gemm_pack_b made of this b, n, k and transpose_b; b and ldb are then not used. */
struct heed_gemm {
    int64_t m, n, k;
    float alpha, beta;
    bool transpose_a, transpose_b;
    const float *a;
    int64_t lda; /* at least the row length of a as stored: k, or m if transpose_a */
    const float *b;
    int64_t ldb; /* at least the row length of b as stored: n, or k if transpose_b */
    float *c;
    int64_t ldc; /* at least n */
    const float *packed_b;
};
enum heed_status heed_gemm(const struct heed_gemm *gemm, const struct heed_exec *exec);

/* Packing b once, for weights that are multiplied many times.  heed_gemm_packed_size: floats needed for n and k, -1 if that
 * overflows or a size is negative.  heed_gemm_pack_b reads n, k, transpose_b, b and ldb of the descriptor and writes
 * heed_gemm_packed_size(n, k) floats: column panels of 64, [ceil(n / 64)][k][64], the last one filled up with zeros.  The layout is
 * the same on every instruction set. */
int64_t heed_gemm_packed_size(int64_t n, int64_t k);
enum heed_status heed_gemm_pack_b(const struct heed_gemm *gemm, float *packed_b, const struct heed_exec *exec);

/* output row i = softmax(scale * input row i) over its first lengths[i] columns; the columns after them become 0.
 *
 * A row of length 0, or in which every input is -inf, becomes 0.  A NaN within the length makes the row NaN up to it.
 * output may be exactly input (same pointer, same stride). */
struct heed_softmax {
    int64_t rows, columns;
    float scale;            /* 0: 1; finite */
    const int64_t *lengths; /* NULL: all columns; else `rows` lengths in [0, columns] */
    const float *input;
    int64_t input_stride; /* at least 0 */
    float *output;
    int64_t output_stride; /* at least columns */
};
enum heed_status heed_softmax(const struct heed_softmax *softmax, const struct heed_exec *exec);

/* What heed sees of this machine.  Strings belong to heed and live as long as the program. */
struct heed_info {
    const char *isa;         /* what a call without heed_exec.isa uses */
    const char *usable[8];   /* instruction sets usable here, best first, NULL after the last */
    const char *compiled[8]; /* instruction sets in this build, best first, NULL after the last */
    const char *features;    /* CPU features that heed looks for and found: "avx2 fma avx512f ..." */
    int threads;             /* workers of a call without heed_exec */
    bool openmp;             /* built with OpenMP */
    int64_t cache_bytes[3];  /* L1 data, L2, L3 of one core; 0 where the system does not tell */
};
/* HEED_UNSUPPORTED_ISA if the environment's HEED_ISA is not usable; the rest of info is filled in even then. */
enum heed_status heed_info(struct heed_info *info);

#ifdef __cplusplus
}
#endif

#endif
