/* The public test sets of attention, in one suite: ONNX's node cases, PyTorch's CPU cases of scaled_dot_product_attention, the
 * parameters of ggml's test_flash_attn_ext and of oneDNN's benchdnn graphs. */
#include "conformance.h"
#include "suites.h"

Suite *conformance_suite(void) {
    Suite *suite = suite_create("conformance");
    suite_add_tcase(suite, conformance_onnx());
    suite_add_tcase(suite, conformance_pytorch());
    suite_add_tcase(suite, conformance_engines());
    return suite;
}
