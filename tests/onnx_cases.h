/* ONNX's Attention cases as tests/onnx/make_cases.py wrote them, and how each becomes a request to heed; onnx_cases.c. */
#ifndef HEED_TESTS_ONNX_CASES_H
#define HEED_TESTS_ONNX_CASES_H

#include "harness.h"

/* A tensor of a case, contiguous: its floats are those from `at` on in onnx/values.txt.  Rank 0: the case has none. */
struct onnx_tensor {
    int rank;
    int64_t shape[4];
    int64_t at;
};

/* Names as ONNX has them.  0 stands for an attribute that is not given, with one meaning in both, but for windows (on or not). */
struct onnx_case {
    const char *name, *type;
    int opset;
    float largest_score; /* the sum of the largest |scale * q k| and |attn_mask| */
    int is_causal, mask_is_bool, has_nonpad, qk_matmul_output_mode;
    int64_t q_num_heads, kv_num_heads;
    float scale, softcap;
    struct heed_window window;
    int64_t nonpad_kv_seqlen[3];
    struct onnx_tensor Q, K, V, attn_mask, past_key, past_value, Y, qk_matmul_output;
};
extern const struct onnx_case onnx_cases[];
extern const int onnx_case_count;

/* One case can be said to heed in several ways. */
enum onnx_way {
    ONNX_PAGED = 1, /* keys and values through heed_kv_append, past and new ones, in pages in no order; else as rows */
    ONNX_MASK_AS_BIAS =
        2, /* booleans as 0 and -inf, a short mask filled up with -inf; else as booleans, a short mask as fewer keys */
    ONNX_NAMED_ALIGNMENT = 4, /* an alignment of heed's where one says it; else as an offset for each sequence */
    ONNX_WAYS = 8
};

/* A case as a request without outputs, and the memory that it is about; each tensor ends at a guard page. */
struct onnx_request {
    struct heed_attention attention;
    struct heed_kv_cache cache;
    struct buffer query, key, value, bias, pages; /* bias: of attn_mask, without data if that goes as booleans */
    uint8_t *mask;
    int32_t page_table[9];
    int64_t offsets[3], lengths[3];
};
/* Fills *request, which refers to itself and must not be copied. */
void onnx_request_new(struct onnx_request *request, const struct onnx_case *c, unsigned ways, const struct heed_exec *exec);
void onnx_request_free(struct onnx_request *request);

int64_t onnx_size(const struct onnx_tensor *tensor);
/* Writes the floats of a tensor to x. */
void onnx_floats(const struct onnx_tensor *tensor, float *x);

#endif
