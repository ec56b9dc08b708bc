/* The choice of a table: by name, by HEED_ISA, by what the machine can do; and that the tables are sane. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "cpu.h"
#include "cpu_policy.h"
#include "harness.h"
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* HEED_ISA is read once per process, so each value needs a child that has not called heed yet: the suite runs first for that
 * reason. */
static int in_child(const char *heed_isa, int (*examine)(const char *heed_isa)) {
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        setenv("HEED_ISA", heed_isa, 1);
        _exit(examine(heed_isa));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const float one[] = {1};
static float result[1];
static const struct heed_softmax tiny = {
    .rows = 1, .columns = 1, .input = one, .input_stride = 1, .output = result, .output_stride = 1};

static int expect_chosen(const char *name) {
    struct heed_info info;
    if (heed_softmax(&tiny, NULL) != HEED_OK || heed_info(&info) != HEED_OK || strcmp(info.isa, name) != 0)
        return 1;
    return heed_softmax(&tiny, &(struct heed_exec){.isa = heed_kernels_usable(0)->name}) != HEED_OK; /* exec.isa goes first */
}

static int expect_best(const char *name) {
    struct heed_info info;
    (void)name;
    return heed_info(&info) != HEED_OK || strcmp(info.isa, heed_kernels_usable(0)->name) != 0;
}

static bool lists_usable_names(const char *message) {
    bool all = true;
    for (int i = 0; heed_kernels_usable(i); i++)
        all &= strstr(message, heed_kernels_usable(i)->name) != NULL;
    return all;
}

/* Also twice: a refusal must not be remembered as a choice. */
static int expect_refused(const char *name) {
    struct heed_info info;
    for (int i = 0; i < 2; i++) {
        result[0] = 7;
        if (heed_softmax(&tiny, NULL) != HEED_UNSUPPORTED_ISA || result[0] != 7)
            return 1;
        if (!strstr(heed_error_message(), "HEED_ISA") || !strstr(heed_error_message(), name) ||
            !lists_usable_names(heed_error_message()))
            return 2;
    }
    if (heed_info(&info) != HEED_UNSUPPORTED_ISA || strcmp(info.usable[0], heed_kernels_usable(0)->name) != 0 || info.threads < 1)
        return 3;
    return heed_softmax(&tiny, &(struct heed_exec){.isa = "scalar"}) == HEED_OK ? 0 : 4;
}

START_TEST(test_dispatch_by_environment) {
    for (int i = 0; heed_kernels_usable(i); i++)
        ck_assert_msg(in_child(heed_kernels_usable(i)->name, expect_chosen) == 0, "HEED_ISA=%s", heed_kernels_usable(i)->name);
    ck_assert_int_eq(in_child("", expect_best), 0);
    ck_assert_int_eq(in_child("avx1024", expect_refused), 0);
    ck_assert_int_eq(in_child("AVX2", expect_refused), 0);
}
END_TEST

static bool is_usable(const char *name) {
    const struct heed_kernels *found;
    return heed_kernels_find(name, "test", &found) == HEED_OK;
}

START_TEST(test_dispatch_of_tables_that_are_not_here) {
    static const char *const known[] = {"amx", "avx512bf16", "avx512", "avx2", "scalarfma", "neon"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!is_usable(known[i]))
            ck_assert_msg(in_child(known[i], expect_refused) == 0, "HEED_ISA=%s", known[i]);
}
END_TEST

START_TEST(test_dispatch_by_exec) {
    for (int i = 0; heed_kernels_usable(i); i++)
        ck_assert_int_eq(heed_softmax(&tiny, &(struct heed_exec){.isa = heed_kernels_usable(i)->name}), HEED_OK);
    result[0] = 7;
    ck_assert_int_eq(heed_softmax(&tiny, &(struct heed_exec){.isa = "sse9"}), HEED_UNSUPPORTED_ISA);
    ck_assert(result[0] == 7);
    ck_assert_ptr_nonnull(strstr(heed_error_message(), "exec.isa"));
    ck_assert_ptr_nonnull(strstr(heed_error_message(), "sse9"));
    ck_assert(lists_usable_names(heed_error_message()));
}
END_TEST

START_TEST(test_dispatch_find) {
    const struct heed_kernels *found;
    for (int i = 0; heed_kernels_usable(i); i++) {
        ck_assert_int_eq(heed_kernels_find(heed_kernels_usable(i)->name, "test", &found), HEED_OK);
        ck_assert_ptr_eq(found, heed_kernels_usable(i));
    }
    ck_assert_int_eq(heed_kernels_find(NULL, "test", &found), HEED_OK);
    ck_assert_ptr_eq(found, heed_kernels_usable(0));
    ck_assert_int_eq(heed_kernels_find("", "test", &found), HEED_OK);
    ck_assert_ptr_eq(found, heed_kernels_usable(0));
    ck_assert_int_eq(heed_kernels_find("scala", "test", &found), HEED_UNSUPPORTED_ISA);
    ck_assert_int_eq(heed_kernels_find("scalar ", "test", &found), HEED_UNSUPPORTED_ISA);
}
END_TEST

/* Tables come best first: each needs more of the CPU, or has wider vectors, than those after it; scalar, the last, needs nothing.
 */
START_TEST(test_dispatch_tables_are_sane) {
    unsigned features = heed_cpu_features();
    int usable = 0;
    const struct heed_kernels *t, *last = NULL;
    for (int i = 0; (t = heed_kernels_compiled(i)); i++, last = t) {
        ck_assert_msg(t->tile_rows >= 1 && t->tile_rows <= HEED_MAX_TILE_ROWS, "%s: tile_rows %d", t->name, t->tile_rows);
        ck_assert_msg(t->lanes >= 1 && HEED_SUM_LANES % t->lanes == 0, "%s: lanes %d", t->name, t->lanes);
        ck_assert_msg(t->tile_columns % t->lanes == 0 && HEED_PANEL % t->tile_columns == 0, "%s: tile_columns %d", t->name,
                      t->tile_columns);
        ck_assert_msg(!last || t->lanes <= last->lanes, "%s comes before %s", last ? last->name : "", t->name);
        ck_assert(t->pack && t->pack_transposed && t->store_keys && t->pair_queries && t->pair_rows && t->gemm_tile && t->dots &&
                  t->finish_products && t->score_panel && t->exp_rows && t->merge_rows);
        ck_assert(t->value_rows && t->softcap_row && t->add_row && t->alibi_row && t->hide_row && t->seal_row && t->merge_row);
        ck_assert(t->mass_row && t->store_row && t->scale_rows && t->finish_rows && t->weights_row && t->softmax_rows && t->rope &&
                  t->exp2 && t->log);
        ck_assert_msg(HEED_PANEL % t->dots->tile_columns == 0, "%s: dots of %d columns", t->name, t->dots->tile_columns);
        ck_assert(!t->dots->permitted ||
                  (t->dots->otherwise && !t->dots->otherwise->dots->permitted && !(t->dots->otherwise->requires & ~t->requires)));
        ck_assert(t->i8_row && t->i8->product && t->i8->strip_rows > 0 && !t->i8->permitted);
        const struct heed_i8_kernels *better = t->i8->better;
        ck_assert(!better || (better->product && better->cache_product && better->strip_rows > 0));
        ck_assert(!better || !better->permitted ||
                  (better->otherwise && !better->otherwise->permitted && !(better->otherwise->requires & ~better->requires)));
        ck_assert_msg(!t->pairs || HEED_PANEL % t->pairs->tile_columns == 0, "%s: pairs", t->name);
        if (!(t->requires & ~features))
            ck_assert_ptr_eq(heed_kernels_usable_with(features, 0, usable++), t);
    }
    ck_assert_ptr_null(heed_kernels_usable(usable));
    ck_assert_str_eq(last->name, "scalar");
    ck_assert_uint_eq(last->requires, 0);
}
END_TEST

/* Tables that do not pay come right behind the next one that does, and nothing else moves. */
static void check_order(unsigned costly) {
    const struct heed_kernels *t, *late[8];
    int position = 0, held = 0;
    for (int i = 0; (t = heed_kernels_compiled(i)); i++) {
        if (t->requires & costly) {
            late[held++] = t;
            continue;
        }
        ck_assert_ptr_eq(heed_kernels_usable_with(~0u, costly, position++), t);
        for (int j = 0; j < held; j++)
            ck_assert_ptr_eq(heed_kernels_usable_with(~0u, costly, position++), late[j]);
        held = 0;
    }
    ck_assert_ptr_null(heed_kernels_usable_with(~0u, costly, position));
}

START_TEST(test_dispatch_of_costly_tables) {
    check_order(0);
    check_order(HEED_CPU_AVX512);
    check_order(HEED_CPU_AVX512_BF16);
    check_order(HEED_CPU_AVX512 | HEED_CPU_AVX512_BF16);
    ck_assert_uint_eq(heed_cpu_costly() & ~heed_cpu_features(), 0);
}
END_TEST

START_TEST(test_dispatch_policy) {
    enum {
        intel = HEED_TRAIT_RAISES_WEIGHTS | HEED_TRAIT_EXPS_APART,
        zen_3 = HEED_TRAIT_PACKS_FOR_FEW | HEED_TRAIT_FETCHES_I8_ONCE,
        zen_4 = HEED_TRAIT_PACKS_FOR_FEW | HEED_TRAIT_MULTIPLIES_FROM_L2 | HEED_TRAIT_FETCHES_INTO_L2 |
                HEED_TRAIT_TILES_PACK_FROM_FAR | HEED_TRAIT_LONG_BLOCKS_FOR_FEW,
        zen_5 = HEED_TRAIT_PACKS_FOR_FEW | HEED_TRAIT_MULTIPLIES_FROM_L2 | HEED_TRAIT_FETCHES_ONCE
    };
    static const struct {
        unsigned family, model;
        const char *brand;
        bool pays, pairs_pay;
        unsigned traits;
    } cpus[] = {
        {6, 85, "Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz", true, true, intel},
        {6, 85, "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", true, true, intel},
        {6, 85, "Intel(R) Xeon(R) Gold 5120 CPU @ 2.20GHz", false, true, intel},
        {6, 85, "Intel(R) Xeon(R) Gold 5122 CPU @ 3.60GHz", true, true, intel},
        {6, 85, "Intel(R) Xeon(R) Gold 5218 CPU @ 2.30GHz", false, true, intel},
        {6, 85, "Intel(R) Xeon(R) Gold 5222 CPU @ 3.80GHz", true, true, intel},
        {6, 85, "Intel(R) Xeon(R) Gold 5320H CPU @ 2.40GHz", true, true, intel},
        {6, 85, "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", false, true, intel},
        {6, 85, "Intel(R) Xeon(R) Bronze 3104 CPU @ 1.70GHz", false, true, intel},
        {6, 85, "Intel(R) Xeon(R) D-2146NT CPU @ 2.30GHz", false, true, intel},
        {6, 85, "Intel(R) Core(TM) i9-7900X CPU @ 3.30GHz", true, true, intel},
        {6, 85, "Intel Xeon Processor (Skylake, IBRS)", true, true, intel},
        {6, 85, "", true, true, intel},
        {6, 106, "Intel(R) Xeon(R) Silver 4310 CPU @ 2.10GHz", true, false, intel},
        {6, 140, "11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz", true, false, intel},
        {6, 85, "Intel(R) Xeon(R) Gold 6328HL CPU @ 2.80GHz", true, true, intel},
        {6, 143, "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", true, false, intel},
        {6, 207, "Intel(R) Xeon(R) Processor", true, false, intel},
        {25, 1, "AMD EPYC 7763 64-Core Processor", true, true, zen_3},
        {25, 80, "AMD Ryzen 7 5700G with Radeon Graphics", true, true, zen_3},
        {25, 17, "AMD EPYC 9654 96-Core Processor", true, true, zen_4},
        {25, 97, "AMD Ryzen 9 7950X 16-Core Processor", true, true, zen_4},
        {26, 2, "AMD EPYC 9755 128-Core Processor", true, true, zen_5},
    };
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        const unsigned costly = heed_x86_costly(cpus[i].family, cpus[i].model, cpus[i].brand);
        ck_assert_msg(!(costly & HEED_CPU_AVX512) == cpus[i].pays, "%s", cpus[i].brand);
        ck_assert_msg(!(costly & HEED_CPU_AVX512_BF16) == cpus[i].pairs_pay, "%s: pairs", cpus[i].brand);
        ck_assert_msg(heed_x86_traits(cpus[i].family, cpus[i].model) == cpus[i].traits, "%s: traits", cpus[i].brand);
    }
}
END_TEST

START_TEST(test_dispatch_info) {
    struct heed_info info;
    ck_assert_int_eq(heed_info(&info), HEED_OK);
    for (int i = 0; i < 8; i++) {
        const struct heed_kernels *usable = heed_kernels_usable(i), *compiled = heed_kernels_compiled(i);
        ck_assert(usable ? strcmp(info.usable[i], usable->name) == 0 : !info.usable[i]);
        ck_assert(compiled ? strcmp(info.compiled[i], compiled->name) == 0 : !info.compiled[i]);
    }
    ck_assert_ptr_nonnull(info.isa);
    ck_assert_str_eq(info.features, heed_cpu_feature_names());
    ck_assert_int_ge(info.threads, 1);
    for (int i = 0; i < 3; i++)
        ck_assert(info.cache_bytes[i] > 0);
    ck_assert_int_eq(heed_info(NULL), HEED_INVALID_ARGUMENT);
}
END_TEST

Suite *dispatch_suite(void) {
    Suite *suite = suite_create("dispatch");
    TCase *tests = tcase_create("dispatch");
    tcase_add_test(tests, test_dispatch_by_environment);
    tcase_add_test(tests, test_dispatch_of_tables_that_are_not_here);
    tcase_add_test(tests, test_dispatch_by_exec);
    tcase_add_test(tests, test_dispatch_find);
    tcase_add_test(tests, test_dispatch_tables_are_sane);
    tcase_add_test(tests, test_dispatch_of_costly_tables);
    tcase_add_test(tests, test_dispatch_policy);
    tcase_add_test(tests, test_dispatch_info);
    suite_add_tcase(suite, tests);
    return suite;
}
