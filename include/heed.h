/* heed: attention, matrix products and softmax for CPUs, with the same bits everywhere.
 *
 * The only public header.  Every computing function takes a descriptor (what to compute), filled with designated initialisers, and
 * an optional heed_exec (how to run it, never what comes out), and returns a heed_status.
 *
 *   Units      sizes, strides and leading dimensions count elements (floats, unless a tensor has another type), never bytes.
 *   Sizes      every size may be 0; a call without elements does nothing and returns HEED_OK.
 *   Bits       a result depends on the descriptor and the data alone: not on the instruction set, the compiler, the number of
 *              threads, alignment, strides, the other rows of the batch, or the caller's rounding and flush-to-zero modes.
 *              Every NaN that heed computes is the quiet NaN 0x7fc00000; what is only copied keeps its own.  The rules, and two
 *              exceptions, are in README.md and src/arithmetic.md of the source.
 *   Errors     a bad request returns a status and sets heed_error_message(); no output is touched.  Nothing aborts or prints.
 *   Aliasing   an output may overlap no input and no other output, unless its function says so.  They may interleave where their
 *              elements are equally large.
 *   Threads    any function may be called from any number of threads at once; there is no state between calls, but that HEED_ISA
 *              is read from the environment once, and that a thread may remember how it read memory quickest, which it times.
 *   Pointers   need the alignment of what they point to (floats 4 bytes, bf16, f16 and blocks 2, HEED_MXFP4 1), nothing more.
 */
#ifndef HEED_H
#define HEED_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#ifdef __GNUC__ /* g++ thinks that heed_gemm(), the function, hides the constructor of struct heed_gemm */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#endif

#define HEED_VERSION "0.1.0"
/* major * 10000 + minor * 100 + patch */
#define HEED_VERSION_NUMBER 100
/* HEED_VERSION of the library that runs. */
const char *heed_version(void);

enum heed_status {
    HEED_OK = 0,
    HEED_INVALID_ARGUMENT, /* a field has a value that it may not have; the message names both */
    HEED_UNSUPPORTED_ISA,  /* heed_exec.isa or the environment's HEED_ISA names no instruction set usable here */
    HEED_OUT_OF_MEMORY,    /* the workspace of a call could not be allocated */
    HEED_CANCELLED         /* heed_exec.cancelled said so; outputs hold anything */
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
 * stays on the calling thread either way and wakes nobody.
 *
 * With OpenMP set OMP_PROC_BIND=true: Linux may else put two workers on one CPU, where one waits some ms for the other, once after
 * a pause, or each time beside busy programs; and have no more threads than CPUs are free for them. */
struct heed_exec {
    int threads; /* workers to use; 0: as many as OpenMP or the pool offers.  May exceed the CPUs; at most 1024 */
    /* "amx", "avx512bf16", "avx512", "avx2", "scalarfma", "scalar", "neon"; NULL: HEED_ISA from the environment, else the best */
    const char *isa;
    void *pool;
    int (*num_threads)(void *pool);
    void (*run)(void *pool, int count, void (*task)(void *context, int index), void *context);
    /* NULL, or asked by all workers between pieces of work, in attention every few tens of microseconds; once it is true, the call
     * ends soon and returns HEED_CANCELLED. */
    bool (*cancelled)(void *cancel_context);
    void *cancel_context;
    /* NULL: a call that needs memory allocates it.  Else memory for it, aligned to 64 bytes, and how much there is: for one call at
     * a time, apart from all of its tensors, which is not checked.  How much a call needs tell heed_gemm_workspace_bytes and its
     * like, and heed_attention_plan.  Not used by heed_attention_run, which is given its own. */
    void *workspace;
    int64_t workspace_bytes;
};

/* How the elements of a tensor are stored.  Inputs become floats exactly, so that a result has the bits which the same values
 * stored as floats give, and an output of 16 bits is the float output rounded to nearest even: denormals too, beyond the range to
 * infinity, any NaN to the one quiet NaN, 0x7fc0 or 0x7e00. */
enum heed_type {
    HEED_F32 = 0,
    HEED_BF16, /* the upper half of a float */
    HEED_F16,  /* IEEE 754's binary16 */
    HEED_I8,   /* signed bytes, times a scale for many of them: keys and values of a cache, weights of heed_gemm */
    HEED_Q8_0, /* weights of heed_gemm in blocks of 32, as ggml and GGUF have them, 34 bytes: a scale of f16, 32 signed bytes */
    HEED_Q4_0, /* the same, 18 bytes: a scale, then 16, of which byte i has element i, plus 8, in its lower 4 bits and element
                  i + 16, plus 8, in its upper */
    /* ggml's K formats, as GGUF files have them, in blocks of 256: of 144, 176 and 210 bytes, 4, 5 and 6 bits for an element beside
     * scales d and m of f16, and scales of groups.  The element of number q, without sign, is fma(d * s, q, -(m * t)), s and t
     * being its group's, d * s and m * t exact; of HEED_Q6_K fma(d * s, q, -(32 * d * s)), which is (d * s) * (q - 32), but that 0
     * is +0, and of infinite d all elements are NaN. */
    HEED_Q4_K,   /* 8 groups of 32, s and t of 6 bits */
    HEED_Q5_K,   /* the same */
    HEED_Q6_K,   /* 16 groups of 16, s of 8 bits with sign */
    HEED_Q5_0,   /* blocks of 32 again, 22 bytes: a scale, 4 bytes, and 16 as HEED_Q4_0 has them; they have the lower 4 bits of an
                    element, plus 16, of element i bit i of the 4 bytes, which begin with their lowest, is the fifth */
    HEED_IQ4_NL, /* as HEED_Q4_0, but that 4 bits, 0 to 15, stand for -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53,
                    69, 89, 113 */
    HEED_MXFP4   /* OCP's, as ggml has it, 17 bytes: e, of which the scale is 2^(e - 128), or 0 if e is less than 26, and 16 as
                    HEED_Q4_0 has them, whose 4 bits stand for 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 */
};

/* Views of [batch, heads, tokens, width] tensors whose last dimension is contiguous: element (b, h, t, d) is
 * data[b * batch_stride + h * head_stride + t * token_stride + d], data being of `type`.  BHSD, BSHD and packed QKV all fit
 * without a copy.  Strides are at least 0; an input may repeat itself through a stride of 0, so one that was forgotten is no error
 * but reads the first head, or row, again; an output's rows may not overlap each other.  "Of any type" below means HEED_F32,
 * HEED_BF16 or HEED_F16; where nothing is said, it must be HEED_F32. */
struct heed_input {
    const void *data;
    int64_t batch_stride, head_stride, token_stride;
    enum heed_type type;
};
struct heed_output {
    void *data;
    int64_t batch_stride, head_stride, token_stride;
    enum heed_type type;
};

/* Where query i of a sequence stands among its keys: at position i + offset, where key 0 of the sequence has position 0.  Causal,
 * window, alibi and relative ask for it.  Decoding wants bottom-right or offsets: a single causal query at the top left sees key 0
 * alone.  Queries padded at their end want top-left or offsets: bottom-right counts all query_tokens.  Of a call that sees a part
 * of the keys (key_position), bottom-right counts these and those before them: only the last part has the bits of the one call over
 * all so; top-left and offsets are the same for all parts. */
enum heed_alignment {
    HEED_ALIGN_TOP_LEFT = 0, /* offset 0: the first query stands at the first key (PyTorch's is_causal, ONNX without a past) */
    HEED_ALIGN_BOTTOM_RIGHT, /* offset = keys - queries of the sequence: the last query stands at its last key (FlashAttention) */
    HEED_ALIGN_OFFSETS       /* offset = query_offsets[sequence]: the tokens that came before, say */
};

/* A query at position p sees the keys p - left ... p + right, both included; -1: no limit on that side (ONNX opset 25,
 * FlashAttention).  All zero: no window; left and right must be 0 unless `on`. */
struct heed_window {
    bool on;
    int64_t left, right;
};

/* Mask and bias are [batch, num_heads, query_tokens, key_tokens] tensors; element (b, h, i, j) is data[b * batch_stride +
 * h * head_stride + i * query_stride + j * key_stride], where i and j count within sequence b, j from key_position on.  Strides of
 * 0 broadcast.
 *
 * Mask: 0 hides key j from query i.  Bias: is added to the score, -inf hides the key.  A key hidden so has a weight of exactly 0
 * whatever its score, NaN too; but its value must be finite, for 0 * NaN is NaN. */
struct heed_mask {
    const uint8_t *data; /* NULL: none */
    int64_t batch_stride, head_stride, query_stride, key_stride;
};
struct heed_bias {
    const float *data; /* NULL: none */
    int64_t batch_stride, head_stride, query_stride, key_stride;
};

/* Tree mask for speculative decoding: of the last `keys` keys of its sequence that the call has, query i of sequence b may see the
 * j-th one only if bit j % 64 of words[b * batch_stride + i * query_stride + j / 64] is set.  Keys before those are not affected;
 * where there are fewer, the first bits are nobody's. */
struct heed_tree {
    const uint64_t *words; /* NULL: none */
    int64_t batch_stride, query_stride;
    int64_t keys;
};

/* T5's relative position bias (Raffel et al. 2020, section 2.1): a learned number per head and bucket of distances is added to the
 * score.  With n = num_buckets, halved if bidirectional (keys after the query have the upper half), distances below n / 2 have a
 * bucket each, those up to max_distance share the others in logarithmic steps, and all beyond have the last one.  If not
 * bidirectional, keys after the query have bucket 0. */
struct heed_relative {
    const float *table; /* NULL: none; bucket k of head h: table[h * head_stride + k * bucket_stride] */
    int64_t head_stride, bucket_stride;
    int64_t num_buckets;  /* at least 2, or 4 if bidirectional, then even; at most 512 */
    int64_t max_distance; /* more than the distances with a bucket each; at most 65536 */
    bool bidirectional;
};

/* Which of the numbers that lead to a weight heed_attention.scores receives.  Keys that a query may not see by causal, window or
 * length hold -inf at every stage, those hidden by mask, tree or bias only in the last. */
enum heed_score_stage {
    HEED_SCORES_RAW = 0, /* scale * q k^T (ONNX qk_matmul_output_mode 0) */
    HEED_SCORES_CAPPED,  /* after softcap (mode 1) */
    HEED_SCORES_BIASED   /* after all that is added and hidden: what softmax sees (mode 2; mode 3 is `weights`) */
};

/* Keys that share one running maximum: part of the arithmetic (src/arithmetic.md), not a tuning knob. */
enum { HEED_CHUNK = 256 };

/* Partial states, one for each row and chunk of HEED_CHUNK keys: output = sum(exp2(z - max) * value), not divided by sum =
 * sum(exp2(z - max)), with max = max(z) over the keys that the row sees in that chunk and z = log2(e) * score.  max is -inf, sum
 * and output are 0 where it sees none.  With chunks = ceil(K / HEED_CHUNK), a row of output is [chunks][value_dim], of max and sum
 * [chunks]. */
struct heed_states {
    struct heed_output output, max, sum; /* data NULL for all three: not wanted */
};

/* Keys and values in pages of the caller's memory, in heed's own layout, the same on every instruction set.  heed_kv_append writes
 * it.  A page holds page_tokens tokens of all key/value heads: with W = the greatest common divisor of page_tokens and 64, V =
 * value_dim rounded up to a multiple of 16, and kb and vb the bytes of an element of key_type and of value_type, in bytes,
 *
 *   page p, head h, token t, element d of its key:    p * page + h * head + (t / W * W * head_dim + d * W + t % W) * kb
 *   page p, head h, token t, element d of its value:  p * page + h * head + values + (t * V + d) * vb
 *   its scales, floats, of the key and of the value:  p * page + h * head + key_scales + 4 * t, value_scales instead of key_scales
 *   key_scales = page_tokens * head_dim * kb rounded up to a multiple of 64
 *   values = key_scales, + 4 * page_tokens if key_type is HEED_I8, which alone has scales
 *   value_scales = values + page_tokens * V * vb rounded up to a multiple of 64
 *   head = value_scales, + 4 * page_tokens if value_type is HEED_I8,  page = num_kv_heads * head = heed_kv_page_bytes()
 *
 * Elements value_dim ... V - 1 of a value are 0: attention reads whole vectors.  Bytes that are nobody's, and slots never written,
 * may hold anything.
 *
 * The token at position t of a sequence is token t % page_tokens of the sequence's page t / page_tokens % pages_per_sequence:
 * number page_table[b * table_stride + that], or b * pages_per_sequence + that if page_table is NULL.  So
 *
 *   linear  one page per sequence, page_tokens = its capacity, no table;
 *   ring    the same, with positions that go on past the capacity, which heed_kv_append does not refuse: a window must keep queries
 *           from what was overwritten, else heed_attention refuses them;
 *   paged   a table: pages in any order, prefixes shared between sequences.
 *
 * Nothing else is stored: to truncate a sequence, use a smaller length; to fork one, copy its row of the table, and give the fork a
 * copy of its last page if that is not full, before either appends to it. */
struct heed_kv_cache {
    void *data; /* aligned to 4 bytes whatever the types are, to 64 for full speed */
    enum heed_type key_type, value_type;
    int64_t num_pages;
    int64_t page_tokens; /* a multiple of 16; of 64 for full speed with few queries */
    int64_t num_kv_heads, head_dim, value_dim;
    int64_t pages_per_sequence;
    const int32_t *page_table; /* NULL: as above; entries of pages that a call has no use for are not looked at */
    int64_t table_stride;
    /* NULL, or [num_kv_heads, head_dim] numbers c, finite and more than 0, the same in all calls on this cache; each call looks at
     * all of them.  Element d of a key of head h is stored as key / c[h * head_dim + d], after rope, and queries are multiplied by
     * them, which gives the same scores.  For HEED_I8, where some channels are larger than others in most tokens: a key's one scale
     * is that of its largest element, beside which small ones keep few bits.  The largest |key| of each channel in a calibration
     * run will do, taken after rope, or before it the larger one of the two channels that rope turns into each other; best as
     * powers of two, by which multiplication and division are exact. */
    const float *key_channel_scales;
};
/* Bytes of one page, -1 without a message if a size or a type is not valid or the product overflows. */
int64_t heed_kv_page_bytes(const struct heed_kv_cache *cache);

/* In which numbers products are computed; sums are floats always. */
enum heed_compute {
    HEED_COMPUTE_F32 = 0,
    /* Factors are rounded to bf16 first, to nearest even; and in all of the call, inputs and results of less than 2^-126 are 0, as
     * vdpbf16ps has it (Intel's Software Developer's Manual, volume 2).  That instruction is used where it is as quick as a
     * multiply-add of floats: Zen 4 and 5, and Cooper Lake. */
    HEED_COMPUTE_BF16,
    /* The same, but summed 32 products at a time as AMX does (tdpbf16ps, same manual), which where there is one makes products five
     * to six times as fast, and attention some five times, with more than some 16 rows, and both slower than HEED_COMPUTE_BF16
     * elsewhere.  The first such call asks Linux for AMX, for all threads of the process. */
    HEED_COMPUTE_BF16_AMX,
    /* Of heed_gemm, heed_linear and the projections of heed_attention_layer, with weights in blocks: each 32 elements of a row of a
     * are rounded to integers of 8 bits times one scale, max|a| / 127, as heed_convert does it with a row to HEED_I8, and sums of
     * products of integers under one scale, 32 or of HEED_Q6_K 16, are exact.  What ggml does with such weights, but that it rounds
     * the scales of a to f16, or with K formats has one scale for 256 elements.
     * Of attention, with keys or values of a cache that are HEED_I8: queries, or weights times the scales of values, are rounded
     * so, which costs about as much accuracy as the bytes of the cache do (tests/README.md); other keys and values are multiplied
     * as in HEED_COMPUTE_F32.  Decoding is quicker so, and prefill somewhat, most where there is an instruction for such products
     * (VNNI, sdot).  Where there is AMX, the first such call asks Linux for it too. */
    HEED_COMPUTE_I8
};

/* output = softmax(score) value, per batch and head (Vaswani et al. 2017, section 3.2.1), with score = softcap(scale * query key^T)
 * + bias + alibi + relative, in this order, as ONNX's Attention has it.  All options may be combined.
 *
 * Query head h attends to key/value head h / (num_heads / num_kv_heads): multi-head, grouped-query and multi-query attention.
 * Keys that a query may not see by causal, window or length are not part of its result even if they hold NaN or Inf, and are not
 * read if no query of the call sees them; a query that sees no key gives an output of exactly 0, weights of 0 and a log-sum-exp of
 * -inf (with a sink: the sink).  A NaN that it does see gives NaN.
 * Memory beyond the tensors: 1 to 2 MiB per worker for widths up to 256, and with relative 8 * max_distance bytes for each head of
 * a group; with mass 8 bytes for each query and head; and where workers share the keys of few queries, what they merge, value_dim +
 * 2 floats for each query, head and HEED_CHUNK keys.  Never tokens times tokens.
 *
 * Packed sequences of various lengths: with query_starts, the queries of sequence b are the tokens query_starts[b] ...
 * query_starts[b + 1] - 1 of tensors that hold all query_tokens tokens one after another; their batch_stride is not used, and rows
 * of outputs that belong to no sequence are not written. key_starts does the same for key and value, and may come with packed
 * queries or with batched ones. */
struct heed_attention {
    int64_t batch;                   /* sequences */
    int64_t num_heads, num_kv_heads; /* query heads, key/value heads; num_kv_heads divides num_heads */
    int64_t query_tokens, key_tokens;
    int64_t head_dim;  /* width of query and key, at least 1 */
    int64_t value_dim; /* width of value and output, at least 1 */
    float scale;       /* 0: 1/sqrt(head_dim); finite */

    /* BF16, BF16_AMX: of both products of a score and of an output: scaled queries, keys, weights and values.  I8: of those that
     * meet bytes.  What becomes of a score, the sum of the weights, lse and weights on request are not rounded so. */
    enum heed_compute compute;

    /* What a query may see: all that every one of these allows. */
    const int64_t *query_starts, *key_starts; /* NULL: batched; else [batch + 1], not descending, from 0 or more to at most
                                                 query_tokens, key_tokens */
    const int64_t *key_lengths;               /* NULL: all keys; else [batch]: the first key_lengths[b] of sequence b */
    int64_t key_position; /* of the first key in its sequence, a multiple of HEED_CHUNK: this call sees a part of the keys */
    bool causal;          /* a query at position p sees keys at positions up to p */
    enum heed_alignment alignment;
    const int64_t *query_offsets; /* [batch], for HEED_ALIGN_OFFSETS; else NULL */
    struct heed_window window;
    struct heed_mask mask;
    struct heed_tree tree;

    /* What becomes of a score. */
    float softcap;             /* 0: none; else softcap * tanh(score / softcap); finite, not negative */
    struct heed_bias bias;     /* added after softcap and scale */
    const float *alibi_slopes; /* NULL: none; else [num_heads]: score - slope * |position - key's position| (Press et al. 2022) */
    struct heed_relative relative;
    const float *sinks; /* NULL: none; else [num_heads]: a score that takes its part of the softmax and has no value;
                           -inf: none for this head; NaN and +inf make its rows NaN; from 2.36e38 on it is infinite, for
                           times log2(e) it is */

    /* Each of any type; with a cache, whose types count then, those of key and value are not looked at. */
    struct heed_input query;           /* [batch, num_heads, query_tokens, head_dim] */
    struct heed_input key;             /* [batch, num_kv_heads, key_tokens, head_dim] */
    struct heed_input value;           /* [batch, num_kv_heads, key_tokens, value_dim] */
    const struct heed_kv_cache *cache; /* NULL, or where keys and values are, instead of in key and value */

    /* data NULL: not wanted.  K below: key_tokens, or with key_starts the keys of the longest sequence.  All but output are floats.
     */
    struct heed_output output;  /* [batch, num_heads, query_tokens, value_dim], of any type */
    struct heed_output weights; /* [batch, num_heads, query_tokens, K]: the softmax itself, 0 where a query sees no key */
    struct heed_output lse;     /* [batch, num_heads, query_tokens, 1]: ln(sum(exp(score))), the sink's too */
    struct heed_output scores;  /* [batch, num_heads, query_tokens, K]: see score_stage */
    enum heed_score_stage score_stage;
    struct heed_states states; /* [batch, num_heads, query_tokens, ...]: for heed_merge_states; they know no sink */
    struct heed_output mass;   /* [batch, num_heads, 1, K]: the sum of weights of each key, over the last mass_queries */
    int64_t mass_queries;      /* queries of each sequence, 0: over all of them; token_stride is not used */
};
enum heed_status heed_attention(const struct heed_attention *attention, const struct heed_exec *exec);

/* The same in two steps, for calls that must not allocate: plan once, run often, on any layer whose request differs from the
 * planned one in nothing but pointers and the contents of tensors, lengths, starts, offsets and tables.  For a sequence that grows,
 * plan with its most tokens as key_tokens, and tell how many there are in key_lengths.  A plan has the pointers of its request,
 * which heed_explain reads, and heed_attention_run without a request: cache, starts, lengths and offsets must live then. */
struct heed_plan {
    int64_t workspace_bytes; /* that heed_attention_run needs, aligned to 64; may be 0 */
    int64_t tasks;           /* independent pieces of work, drawn by the workers as they get free */
    int workers;
    const char *isa;
    struct heed_attention attention; /* the request and how to run it, as planned */
    struct heed_exec exec;
};
enum heed_status heed_attention_plan(const struct heed_attention *attention, const struct heed_exec *exec, struct heed_plan *plan);
/* attention NULL: the planned one.  workspace: at least plan->workspace_bytes, in use until the call returns; its content does not
 * matter before and after.  Any number of runs of one plan may go on at once, each with a workspace of its own. */
enum heed_status heed_attention_run(const struct heed_plan *plan, const struct heed_attention *attention, void *workspace);
/* Writes what a plan will do, and why, as JSON: kernels, tiles, split, bytes, flops.  At most size bytes with the final 0; returns
 * the length of the whole text, like snprintf, -1 if plan is none. */
int64_t heed_explain(const struct heed_plan *plan, char *text, int64_t size);

/* The result of attention over all keys from states over parts of them, with the bits of the one call over all: the parts lie one
 * after another in the sequence, each but the last a multiple of HEED_CHUNK keys long.  All tensors are floats. */
struct heed_states_part {
    int64_t chunks;
    struct heed_input output, max, sum; /* as struct heed_states has them */
};
struct heed_merge {
    int64_t batch, num_heads, query_tokens, value_dim;
    int64_t parts;
    const struct heed_states_part *part;
    const float *sinks;        /* NULL, or [num_heads] */
    enum heed_compute compute; /* of the calls that the states come from */
    struct heed_output output; /* [batch, num_heads, query_tokens, value_dim]; data NULL: not wanted */
    struct heed_output lse;    /* [batch, num_heads, query_tokens, 1]; data NULL: not wanted */
};
enum heed_status heed_merge_states(const struct heed_merge *merge, const struct heed_exec *exec);

/* Rotary position embedding (Su et al. 2021) of the first 2 * pairs elements of a head, those after them stay: with c and s from
 * row `position` of the tables,
 *   x'[a] = x[a] * c[i] - x[b] * s[i],  x'[b] = x[b] * c[i] + x[a] * s[i],
 * a = i, b = i + pairs (half-split: GPT-NeoX, Llama in Hugging Face), or a = 2 i, b = 2 i + 1 (interleaved: GPT-J, and models of
 * the architecture `llama` in GGUF files, whose rows of queries and keys were put in another order for it; not `qwen2` and
 * `qwen3`).  The tables are the caller's, or heed_rope_fill's: scaled frequencies are scaled there. */
struct heed_rope_tables {
    int64_t pairs;        /* 0: none */
    const float *cos;     /* [positions][pairs], rows table_stride apart */
    const float *sin;     /* the same */
    int64_t table_stride; /* at least pairs */
    int64_t positions;    /* rows of the tables */
    bool interleaved;
};

/* Turns the token at position positions[b] + t of sequence b, which is token t of it: queries, or keys that no cache takes in; the
 * bits are those of keys that heed_kv_append turns.  With starts, as query_starts of heed_attention, sequence b has the tokens
 * starts[b] ... starts[b + 1] - 1 of packed tensors; rows of the output that belong to no sequence are not written.  Elements after
 * the turned ones are copied; a NaN among them stays as it is where the output is of floats.  output may be exactly input (same
 * pointer, strides and type). */
struct heed_rope {
    int64_t batch, num_heads;
    int64_t tokens; /* of each sequence; with starts: of all */
    int64_t head_dim;
    const int64_t *starts;    /* NULL: batched */
    const int64_t *positions; /* [batch]: of each sequence's first token; NULL: 0 for all */
    struct heed_rope_tables tables;
    struct heed_input input;   /* [batch, num_heads, tokens, head_dim], of any type */
    struct heed_output output; /* the same */
};
enum heed_status heed_rope(const struct heed_rope *rope, const struct heed_exec *exec);

/* Fills the tables, with the same bits on every machine, which the sines of C libraries differ in: row r has scale * cos(angle) and
 * scale * sin(angle) of angle = (first + r) * frequency. */
struct heed_rope_fill {
    int64_t pairs, positions; /* positions: rows */
    int64_t first;            /* position of the first row, at least 0 */
    const float *frequencies; /* [pairs], radians from one position to the next; NULL: base^(-i / pairs), rounded to float */
    double base;              /* finite and more than 0 where frequencies is NULL, 10000 as a rule; else not looked at */
    float scale;              /* 0: 1; finite (YaRN: its attention factor) */
    float *cos, *sin;         /* [positions][pairs], rows table_stride apart */
    int64_t table_stride;     /* at least pairs */
};
enum heed_status heed_rope_fill(const struct heed_rope_fill *fill, const struct heed_exec *exec);

/* Writes the keys and values of new tokens to a cache: token t of sequence b to position positions[b] + t.  Only the slots of these
 * tokens are written; of more tokens than the pages of a sequence hold, the last ones.  With starts, as query_starts of
 * heed_attention, sequence b brings the tokens starts[b] ... starts[b + 1] - 1 of packed tensors.  Sequences must not share pages
 * that they write to.
 *
 * Keys and values of any type become floats, exactly; rope turns those of keys; then they are rounded to the type of the cache, to
 * nearest even.  What floats hold arrives bit by bit in a cache of floats, but for what rope turns; in other types every NaN
 * becomes the one quiet NaN.
 *
 * HEED_I8: a key or value x of one token and head is stored as scale = max(max|x| / 127, 2^-126) and the integers nearest to
 * x * (1 / scale): each element is off by half a scale at most, roughly.  One with a NaN or an infinity has the scale NaN and
 * integers of 0, so that its scores, or outputs that it is part of, are NaN. */
struct heed_kv_append {
    int64_t batch;
    int64_t tokens;               /* of each sequence; with starts: of all */
    const int64_t *starts;        /* NULL: batched */
    const int64_t *positions;     /* [batch]: of each sequence's first new token; NULL: 0 for all */
    struct heed_rope_tables rope; /* turns keys on their way */
    struct heed_input key;        /* [batch, num_kv_heads, tokens, head_dim], of any type */
    struct heed_input value;      /* [batch, num_kv_heads, tokens, value_dim], of any type */
    const struct heed_kv_cache *cache;
};
enum heed_status heed_kv_append(const struct heed_kv_append *append, const struct heed_exec *exec);

/* c = alpha * op(a) op(b) + beta * c, row-major (BLAS level 3 SGEMM, Dongarra et al. 1990), each matrix of its own type.
 *
 * op(a) is m x k: element (i, p) is a[i * lda + p], or a[p * lda + i] if transpose_a.  op(b) is k x n: element (p, j) is
 * b[p * ldb + j], or b[j * ldb + p] if transpose_b.  c is m x n with leading dimension ldc.  beta 0: c is written, not read.
 * alpha 0: neither a nor b is read.  Row i of c depends on row i of op(a), on b and on nothing else.  Sums are floats: c of 16 bits
 * is rounded once, at the end.  compute BF16: of a and b, not of alpha and beta c.
 *
 * a and c are of HEED_F32, HEED_BF16 or HEED_F16, b of each of enum heed_type.  HEED_I8: the sums of column j, of products with the
 * integers, are multiplied by b_scales[j], once.  Blocks: c has the bits which the floats that the weights are (enum heed_type)
 * give, unless compute is HEED_COMPUTE_I8; a scale may be NaN or infinite.  They run along k, so b is transposed (a tensor of a
 * GGUF file, output channels by k, as it is), and k and ldb, which counts elements, are multiples of 32, of 256 with K formats.
 * packed_b, when set, is what heed_gemm_pack_b made of this b, n, k and transpose_b; b and ldb are then not used, b_type is.
 */
struct heed_gemm {
    int64_t m, n, k;
    float alpha, beta; /* alpha has no default: 0, as if it were forgotten, is beta * c */
    enum heed_compute compute;
    bool transpose_a, transpose_b;
    const void *a;
    enum heed_type a_type;
    int64_t lda; /* at least the row length of a as stored: k, or m if transpose_a */
    const void *b;
    enum heed_type b_type;
    int64_t ldb;           /* at least the row length of b as stored: n, or k if transpose_b */
    const float *b_scales; /* [n] with HEED_I8, else NULL */
    void *c;
    enum heed_type c_type;
    int64_t ldc; /* at least n */
    const void *packed_b;
};
enum heed_status heed_gemm(const struct heed_gemm *gemm, const struct heed_exec *exec);
/* Of exec->workspace, for this request with the same exec and no more threads on offer; -1, with a message, if one of them is not
 * legal.  A request of fewer rows may need more, for it is cut into other blocks: memory for calls of several sizes is the most
 * that one of them needs. */
int64_t heed_gemm_workspace_bytes(const struct heed_gemm *gemm, const struct heed_exec *exec);

/* Packing b once, for weights that are multiplied many times: in its own type, so that a product of few rows reads no more than
 * that.  heed_gemm_packed_bytes: bytes needed for n, k and b_type, -1 without a message if that overflows, a size is negative, k
 * has no whole blocks or the type is none of b.  heed_gemm_pack_b reads n, k, transpose_b, b, b_type and ldb of the descriptor and
 * writes so many: column panels of 64, [ceil(n / 64)][k][64], the last one filled up with zeros; of HEED_BF16 [ceil(n / 64)][ceil(k
 * / 2)][64][2], two rows of b side by side, with zeros after an odd one; of blocks [ceil(n / 64)][k / 32], each of 64 scales, bf16
 * of HEED_MXFP4, and then the other bytes of the 64 blocks, four by four: [8][64] times 4 bytes, or [4][64] of 4 and 5 bits, before
 * which HEED_Q5_0 has [1][64] times 4 bytes, whose bit 8 b + 4 (w % 2) + 2 h + w / 2 is the fifth of element 16 h + 4 w + b; of K
 * formats [ceil(n / 64)][k / 256], each of 64 d, 64 m unless HEED_Q6_K, and 8 groups: of HEED_Q5_K [1][64] times 4 bytes, whose bit
 * 8 b + w is the upper one of element 4 w + b, of HEED_Q6_K as many, whose two bits from 8 b + 2 w on are those of element 4 w + b
 * of the first half; [4][64] times 4 bytes of lower bits, element i + 16 above element i; 64 bytes of s; of HEED_Q6_K the upper
 * bits of the other half; and 64 bytes of t, or of s of the other half.  packed_b is aligned to an element, or the scale of a
 * block, to 64 bytes for full speed.  The layout is the same on every instruction set. */
int64_t heed_gemm_packed_bytes(const struct heed_gemm *gemm);
enum heed_status heed_gemm_pack_b(const struct heed_gemm *gemm, void *packed_b, const struct heed_exec *exec);

/* output row i = softmax(scale * input row i) over its first lengths[i] columns; the columns after them become 0.
 *
 * A row of length 0, or in which scale * input is -inf everywhere, becomes 0.  A NaN within the length makes the row NaN up to it.
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

/* output row i = the sum of row ids[i] of each table, times its factor, in their order: the embedding of tokens, and where a model
 * adds them, those of positions and token types (Devlin et al. 2019).  Sums are floats; an output of 16 bits is rounded once.
 *
 * Tables are of all types: HEED_I8 with a scale for each row, blocks along rows, so that columns and stride are multiples of 32, of
 * 256 with K formats. */
struct heed_lookup {
    const void *data;     /* [rows, columns] */
    int64_t rows, stride; /* stride at least 0 */
    enum heed_type type;
    const float *scales; /* [rows] with HEED_I8, else NULL */
    float factor;        /* 0: 1; finite (Gemma: sqrt(columns)) */
    const int32_t *ids;  /* [rows of the output], each at least 0 and less than the table's rows */
};
struct heed_embedding {
    int64_t rows, columns;
    int64_t tables;
    const struct heed_lookup *lookup;
    struct heed_output output; /* of any type; batch_stride and head_stride are not used */
};
enum heed_status heed_embedding(const struct heed_embedding *embedding, const struct heed_exec *exec);

/* With x = input + residual, row by row, or for each of the heads of a row, over `columns` elements:
 *
 *   heed_layer_norm  output = (x - mean) / sqrt(variance + epsilon) * gain + bias, variance = mean((x - mean)^2) (Ba et al. 2016)
 *   heed_rms_norm    output = x / sqrt(mean(x^2) + epsilon) * gain + bias (Zhang and Sennrich 2019)
 *
 * sum, if wanted, receives x: the residual stream that the next layer adds to.  A NaN or Inf in a row makes all of it NaN, but for
 * heed_rms_norm's finite elements beside an Inf, which become 0 * gain + bias.  Of the views, data, token_stride, type and, where
 * there are heads, head_stride count, each of any type; x is a float in any case, and what is stored of it or of an output in 16
 * bits is rounded once.  output and sum may each be exactly input or exactly residual (same pointer, stride and type), but not both
 * the same. */
struct heed_norm {
    int64_t rows, columns;
    float epsilon; /* finite, at least 0 */
    struct heed_input input;
    struct heed_input residual; /* data NULL: 0 */
    const float *gain;          /* NULL: 1; else [columns] */
    const float *bias;          /* NULL: 0; else [columns] */
    struct heed_output output;
    struct heed_output sum; /* data NULL: not wanted */
    int64_t heads;          /* 0: 1 */
};
enum heed_status heed_layer_norm(const struct heed_norm *norm, const struct heed_exec *exec);
enum heed_status heed_rms_norm(const struct heed_norm *norm, const struct heed_exec *exec);

/* The activation functions of feed-forward layers.  Of the two forms of GELU, models say which they were trained with. */
enum heed_activation {
    HEED_IDENTITY = 0,
    HEED_RELU,      /* max(x, 0) */
    HEED_GELU,      /* x / 2 * (1 + erf(x / sqrt(2))) (Hendrycks and Gimpel 2016) */
    HEED_GELU_TANH, /* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), the same authors' approximation */
    HEED_SILU       /* x / (1 + exp(-x)), swish */
};

/* output = activation(input + bias) * gate + residual, element by element: what follows the products of a feed-forward layer. Gated
 * forms (Shazeer 2020) are input and gate of two products, or of the two halves of one: GEGLU with HEED_GELU, SwiGLU with
 * HEED_SILU, the bilinear form with HEED_IDENTITY.  Values are right within some ULP also where they are nearly 0; but for
 * HEED_IDENTITY they are 0 at -inf, their limit, where PyTorch has NaN.  Of the views, data, token_stride and type count, each of
 * any type.  output may be exactly input, gate or residual (same pointer, stride and type). */
struct heed_activate {
    int64_t rows, columns;
    enum heed_activation activation;
    struct heed_input input;
    const float *bias;          /* NULL: 0; else [columns] */
    struct heed_input gate;     /* data NULL: 1 */
    struct heed_input residual; /* data NULL: 0 */
    struct heed_output output;
};
enum heed_status heed_activate(const struct heed_activate *activate, const struct heed_exec *exec);

/* A matrix of weights as checkpoints hold it: [outputs, inputs], for y = x weights^T + bias (PyTorch's Linear).  Types, scales and
 * blocks are those of heed_gemm's b: HEED_I8 has a scale per output. */
struct heed_weights {
    int64_t outputs, inputs;
    const void *data; /* element (j, p) is data[j * stride + p] */
    enum heed_type type;
    int64_t stride;      /* at least inputs */
    const float *scales; /* [outputs] with HEED_I8, else NULL */
    const float *bias;   /* NULL: 0; else [outputs] */
    const void *packed;  /* NULL, or what heed_pack_weights made of them: data and stride are then not used */
};
/* Packing them once, for speed; the layout is that of heed_gemm_pack_b.  Weights one below the other become one matrix, of more
 * outputs, if they are packed one after another and all but the last have a multiple of 64 outputs. */
int64_t heed_packed_bytes(const struct heed_weights *weights);
enum heed_status heed_pack_weights(const struct heed_weights *weights, void *packed, const struct heed_exec *exec);

/* Elements of one type as another, row by row: weights, as a rule, on their way from a checkpoint to what an engine runs.  With
 * x the input as floats, exactly:
 *
 *   HEED_F32, HEED_BF16, HEED_F16  x, rounded to nearest even
 *   HEED_I8    row i has scales[i] = max(max|x| / 127, 2^-126) and the integers nearest to x * (1 / scales[i]), as keys and values
 *              of a cache have
 *   HEED_Q8_0  a block has the scale d = max|x| / 127, rounded to f16 where it is stored, and round(x * (1 / d)), halves away from
 *              0: what ggml makes of floats
 *   HEED_Q4_0  d = (the first of the elements of largest size) / -8, and min(15, floor(x * (1 / d) + 8.5)): the same
 *   HEED_Q5_0  d = (the first of the elements of largest size) / -16, and min(31, floor(x * (1 / d) + 16.5)): the same
 *
 * A row of bytes, or a block, with a NaN or an infinity has the scale NaN and integers of 0.  Bytes with scales become floats by
 * heed_embedding, or where they are used.  Others are read, not made: what makes good ones searches for scales (llama.cpp). */
struct heed_convert {
    /* columns: a multiple of 32 for blocks, of 256 with K formats, and so is the stride of more than one row of them */
    int64_t rows, columns;
    struct heed_input input;   /* of each of enum heed_type but HEED_I8; data, token_stride and type count */
    struct heed_output output; /* up to HEED_Q4_0, or HEED_Q5_0 */
    float *scales;             /* [rows] with HEED_I8, else NULL */
};
enum heed_status heed_convert(const struct heed_convert *convert, const struct heed_exec *exec);
/* Bytes that so many elements, one after another, take: whole blocks of a type that has them.  -1, with a message, if they are not,
 * or are more than an address space has room for. */
int64_t heed_type_bytes(enum heed_type type, int64_t elements);

/* output = activation(input weights^T + bias) * gate + residual: the bits of heed_gemm with floats as output, heed_activate, and
 * rounding to the output's type, but without a pass over memory for each.  Of the views, data, token_stride and type count: [rows,
 * inputs] and [rows, outputs], each of any type; one row needs no token_stride, more of input lie at least `inputs` apart.  output
 * may be exactly gate or residual (same pointer, stride and type).  compute BF16: of the product alone. */
struct heed_linear {
    int64_t rows;
    struct heed_weights weights;
    enum heed_compute compute;
    enum heed_activation activation;
    struct heed_input input;
    struct heed_input gate;     /* data NULL: 1 */
    struct heed_input residual; /* data NULL: 0 */
    struct heed_output output;
};
enum heed_status heed_linear(const struct heed_linear *linear, const struct heed_exec *exec);
/* As heed_gemm_workspace_bytes. */
int64_t heed_linear_workspace_bytes(const struct heed_linear *linear, const struct heed_exec *exec);
/* Layers that do not wait for one another, in one call, each to the bits that heed_linear gives it: the experts of a mixture, each
 * with the rows that it was given; queries, keys and values of weights that lie apart.  Workers draw pieces of all of them, where
 * one call after another would wait for the last worker of each.  An output must not be where another layer reads or writes. */
enum heed_status heed_linear_group(const struct heed_linear *linears, int64_t count, const struct heed_exec *exec);
int64_t heed_linear_group_workspace_bytes(const struct heed_linear *linears, int64_t count, const struct heed_exec *exec);

/* heed_rms_norm of each head of queries, and of keys (Qwen 3, Gemma 3). */
struct heed_head_norm {
    const float *query_gain, *key_gain; /* NULL: no norm; else [head_dim]: the weights, of Gemma 1 more */
    float epsilon;
};

/* A layer of multi-head attention (Vaswani et al. 2017, section 3.2.2), on rows of tokens:
 *
 *   query, key, value = input qkv^T + bias, whose columns are [num_heads][head_dim], [num_kv_heads][head_dim] and
 *                       [num_kv_heads][value_dim], in this order; or values by weights of their own, of another type, say
 *   output = attention(rope(norm(query)), rope(norm(key)), value) out^T + bias + residual
 *
 * with the bits of heed_linear, heed_rms_norm, heed_rope, heed_kv_append, heed_attention and heed_linear one after another, and
 * floats between them.  norm is there where head_norm has gains.
 * `attention` has the sizes, the options, and compute for all products, HEED_COMPUTE_I8 for those with weights and with bytes of
 * the cache.  Its query, key, value and output are the layer's own, and without a cache key_tokens and key_starts too: each
 * sequence attends to itself.  With a cache, keys and values are appended at positions first, and seen then: key_tokens,
 * key_lengths and offsets count them, so that key_tokens is positions[b] + query_tokens or, where sequences differ, at least the
 * largest of these, with key_lengths for each; and a causal decoder wants HEED_ALIGN_BOTTOM_RIGHT or offsets: with causal, window,
 * alibi or relative the first query must stand at positions[b].  What else it can hand out must be NULL.  Rows are all tokens of a
 * sequence after those of the one before, batch * query_tokens; or query_tokens with query_starts, which then begin at 0 and end
 * there.  output may be where input is, and exactly residual; the cache is apart from all of them. */
struct heed_attention_layer {
    struct heed_attention attention;
    const int64_t *positions; /* [batch]: of each sequence's first token, for rope and cache; NULL: 0 for all */
    struct heed_rope_tables rope;
    struct heed_weights qkv;    /* from the width of input; without the values if `value` has outputs */
    struct heed_weights out;    /* from num_heads * value_dim to the width of output */
    struct heed_input input;    /* of any type; data, token_stride and type count, as in heed_linear */
    struct heed_input residual; /* data NULL: 0 */
    struct heed_output output;
    struct heed_head_norm head_norm;
    struct heed_weights value; /* without outputs: none; else from the width of input to num_kv_heads * value_dim */
};
enum heed_status heed_attention_layer(const struct heed_attention_layer *layer, const struct heed_exec *exec);
/* As heed_gemm_workspace_bytes. */
int64_t heed_attention_layer_workspace_bytes(const struct heed_attention_layer *layer, const struct heed_exec *exec);

/* What heed sees of this machine.  Strings belong to heed and live as long as the program. */
struct heed_info {
    const char *isa;         /* what a call without heed_exec.isa uses; NULL if HEED_ISA names none usable here */
    const char *usable[8];   /* instruction sets usable here, best first, NULL after the last */
    const char *compiled[8]; /* instruction sets in this build, best first, NULL after the last */
    const char *features;    /* CPU features that heed looks for and found: "avx2 fma avx512f ..." */
    int threads;             /* workers of a call without heed_exec */
    bool openmp;             /* built with OpenMP */
    int64_t cache_bytes[3];  /* L1 data, L2, L3: what blocks are cut by; typical sizes where the system does not tell */
};
/* HEED_UNSUPPORTED_ISA if the environment's HEED_ISA is not usable; the rest of info is filled in even then. */
enum heed_status heed_info(struct heed_info *info);

#ifdef __cplusplus
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
}
#endif

#endif
