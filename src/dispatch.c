/* The choice of a kernel table: what was compiled, what this machine can run, what the caller or HEED_ISA asks for. */
#include "dispatch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "cpu.h"
#include "error.h"
#include "schedule.h"

extern const struct heed_kernels heed_kernels_amx, heed_kernels_avx512bf16, heed_kernels_avx512, heed_kernels_avx2,
    heed_kernels_neon, heed_kernels_scalarfma, heed_kernels_scalar;

/* Best first, of those that configure found a compiler for. */
static const struct heed_kernels *const compiled[] = {
#if HEED_HAVE_AMX
    &heed_kernels_amx,
#endif
#if HEED_HAVE_AVX512BF16
    &heed_kernels_avx512bf16,
#endif
#if HEED_HAVE_AVX512
    &heed_kernels_avx512,
#endif
#if HEED_HAVE_AVX2
    &heed_kernels_avx2,
#endif
#if HEED_HAVE_NEON
    &heed_kernels_neon,
#endif
#if HEED_HAVE_SCALARFMA
    &heed_kernels_scalarfma,
#endif
    &heed_kernels_scalar,
};
enum { COMPILED = sizeof compiled / sizeof *compiled };

const struct heed_kernels *heed_kernels_compiled(int index) { return index < COMPILED ? compiled[index] : NULL; }

/* Those that do not pay come behind the next one that does. */
const struct heed_kernels *heed_kernels_usable_with(unsigned features, unsigned costly, int index) {
    const struct heed_kernels *late[COMPILED];
    for (int i = 0, held = 0; i < COMPILED; i++) {
        if (compiled[i]->requires & ~features)
            continue;
        if (compiled[i]->requires & costly) {
            late[held++] = compiled[i];
            continue;
        }
        if (index == 0)
            return compiled[i];
        if (index <= held)
            return late[index - 1];
        index -= 1 + held;
        held = 0;
    }
    return NULL;
}

const struct heed_kernels *heed_kernels_usable(int index) {
    return heed_kernels_usable_with(heed_cpu_features(), heed_cpu_costly(), index);
}

static enum heed_status fail_with_names(const char *name, const char *source) {
    char names[128] = "";
    const struct heed_kernels *kernels;
    for (int i = 0; (kernels = heed_kernels_usable(i)); i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", kernels->name);
    }
    return heed_fail(HEED_UNSUPPORTED_ISA, "%s is \"%.40s\", usable on this machine: %s", source, name, names);
}

enum heed_status heed_kernels_find(const char *name, const char *source, const struct heed_kernels **kernels) {
    static _Atomic(const struct heed_kernels *) latest; /* which small calls ask for again: walking the tables takes 20 ns */
    *kernels = atomic_load_explicit(&latest, memory_order_acquire);
    if (*kernels && name && (name == (*kernels)->name || strcmp(name, (*kernels)->name) == 0)) /* heed_info tells the very name */
        return HEED_OK;
    for (int i = 0; (*kernels = heed_kernels_usable(i)); i++)
        if (!name || !*name || strcmp(name, (*kernels)->name) == 0) {
            atomic_store_explicit(&latest, *kernels, memory_order_release);
            return HEED_OK;
        }
    return fail_with_names(name, source);
}

enum heed_status heed_kernels_for(const struct heed_exec *exec, const struct heed_kernels **kernels) {
    static _Atomic(const struct heed_kernels *) chosen;
    if (exec && exec->isa)
        return heed_kernels_find(exec->isa, "exec.isa", kernels);
    *kernels = atomic_load_explicit(&chosen, memory_order_acquire);
    if (*kernels)
        return HEED_OK;
    const enum heed_status status = heed_kernels_find(getenv("HEED_ISA"), "HEED_ISA", kernels);
    if (status == HEED_OK)
        atomic_store_explicit(&chosen, *kernels, memory_order_release);
    return status;
}

enum heed_status heed_exec_kernels(const struct heed_exec *exec, const struct heed_kernels **kernels) {
    const enum heed_status status = heed_exec_check(exec);
    return status ? status : heed_kernels_for(exec, kernels);
}

const struct heed_dots *heed_kernels_dots(const struct heed_kernels *kernels, enum heed_compute compute) {
    if (compute == HEED_COMPUTE_BF16)
        return kernels->pairs;
    if (compute != HEED_COMPUTE_BF16_AMX)
        return NULL;
    const struct heed_dots *dots = kernels->dots;
    return dots->permitted && !dots->permitted() ? dots->otherwise->dots : dots;
}

const struct heed_i8_kernels *heed_kernels_i8(const struct heed_kernels *kernels) {
    const struct heed_i8_kernels *better = kernels->i8->better;
    if (!better || better->requires & ~heed_cpu_features())
        return kernels->i8;
    return better->permitted && !better->permitted() ? better->otherwise : better;
}
