/* The suites of this binary, one per subject; main.c runs them in this order. */
#ifndef HEED_TESTS_SUITES_H
#define HEED_TESTS_SUITES_H

#include <check.h>

Suite *harness_suite(void);
Suite *dispatch_suite(void);
Suite *cache_sizes_suite(void);
Suite *pace_suite(void);
Suite *reference_suite(void);
Suite *kernels_suite(void);
Suite *gemm_suite(void);
Suite *gemm_types_suite(void);
Suite *gemm_weights_suite(void);
Suite *gemm_packed_suite(void);
Suite *linear_suite(void);
Suite *convert_suite(void);
Suite *softmax_suite(void);
Suite *norm_suite(void);
Suite *activate_suite(void);
Suite *embedding_suite(void);
Suite *rope_suite(void);
Suite *attention_suite(void);
Suite *attention_small_suite(void);
Suite *attention_layer_suite(void);
Suite *attention_dots_suite(void);
Suite *attention_i8_suite(void);
Suite *attention_heads_suite(void);
Suite *attention_packed_suite(void);
Suite *kv_cache_suite(void);
Suite *kv_channels_suite(void);
Suite *options_suite(void);
Suite *options_parts_suite(void);
Suite *options_hidden_suite(void);
Suite *options_edges_suite(void);
Suite *accuracy_suite(void);
Suite *formats_suite(void);
Suite *environment_suite(void);
Suite *bits_suite(void);
Suite *threads_suite(void);
Suite *api_suite(void);
Suite *seeds_suite(void);
Suite *conformance_suite(void);

#endif
