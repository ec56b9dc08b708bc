/* The test program: says what it is going to test and what it cannot, then runs all suites (CK_RUN_SUITE=name: one of them).
 *
 *   HEED_TEST_SEED=n                random numbers of an earlier run
 *   HEED_TEST_QUICK=1               fewer and smaller cases
 *   HEED_TEST_REQUIRE=avx512,avx2   fail unless these tables are tested
 *   HEED_TEST_EXPECT=avx2           fail unless this is the best table of this machine
 *   HEED_TEST_WRITE_BITS=path       write the hashes of test_bits.c there */
#include "cpu.h"
#include "harness.h"
#include "suites.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_usable(const char *name) {
    for (int i = 0; heed_kernels_usable(i); i++)
        if (strcmp(heed_kernels_usable(i)->name, name) == 0)
            return true;
    return false;
}

static void print_tables(void) {
    static const char *const known[] = {"amx", "avx512bf16", "avx512", "avx2", "scalarfma", "neon", "scalar"};
    printf("seed %" PRIu64 "%s, CPU features: %s\n", test_seed(), test_quick() ? " (quick)" : "", heed_cpu_feature_names());
    if (!masked_loads_are_exact())
        puts("guard pages begin 256 bytes late: this emulator loads masked-out lanes");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        bool compiled = false;
        for (int j = 0; heed_kernels_compiled(j); j++)
            compiled |= strcmp(heed_kernels_compiled(j)->name, known[i]) == 0;
        printf("table %-10s %s\n", known[i],
               is_usable(known[i]) ? "tested"
               : compiled          ? "NOT TESTED: this CPU cannot run it"
                                   : "NOT TESTED: not in this build");
    }
}

/* Whether all tables named in a list with commas are usable. */
static bool required_are_usable(const char *list) {
    bool all = true;
    while (list && *list) {
        char name[32];
        size_t length = strcspn(list, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, list);
        if (length && !is_usable(name)) {
            fprintf(stderr, "HEED_TEST_REQUIRE: table %s is required, but cannot be tested here\n", name);
            all = false;
        }
        list += length + (list[length] == ',');
    }
    return all;
}

static bool best_is(const char *name) {
    if (!name || !*name || strcmp(heed_kernels_usable(0)->name, name) == 0)
        return true;
    fprintf(stderr, "HEED_TEST_EXPECT: the best table is %s, not %s\n", heed_kernels_usable(0)->name, name);
    return false;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* children of Check must not inherit and repeat buffered lines */
    print_tables();
    if (!required_are_usable(getenv("HEED_TEST_REQUIRE")) || !best_is(getenv("HEED_TEST_EXPECT")))
        return EXIT_FAILURE;
    report_crashes();
    /* dispatch comes first: without forks its children must be born before anything has read HEED_ISA */
    Suite *(*const suites[])(void) = {
        dispatch_suite,
        cache_sizes_suite,
        pace_suite,
        harness_suite,
        reference_suite,
        kernels_suite,
        gemm_suite,
        gemm_types_suite,
        gemm_weights_suite,
        gemm_packed_suite,
        linear_suite,
        convert_suite,
        softmax_suite,
        norm_suite,
        activate_suite,
        embedding_suite,
        rope_suite,
        attention_suite,
        attention_small_suite,
        attention_layer_suite,
        attention_dots_suite,
        attention_i8_suite,
        attention_heads_suite,
        attention_packed_suite,
        kv_cache_suite,
        kv_channels_suite,
        options_suite,
        options_parts_suite,
        options_hidden_suite,
        options_edges_suite,
        accuracy_suite,
        formats_suite,
        environment_suite,
        bits_suite,
        threads_suite,
        api_suite,
        seeds_suite,
        conformance_suite,
    };
    SRunner *runner = srunner_create(NULL);
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++)
        srunner_add_suite(runner, suites[i]());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (failed)
        fprintf(stderr, "replay with HEED_TEST_SEED=%" PRIu64 "\n", test_seed());
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
