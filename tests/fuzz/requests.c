/* Requests of all functions but attention: a valid one, whose result is compared with that of the scalar kernels run serially and
 * checked, or a hostile one.  Which function an input is for. */
#include "fuzz.h"

#include <fenv.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static struct {
    void (*print)(FILE *file, const void *request);
    const void *request;
} described;

void fuzz_describe(void (*print)(FILE *file, const void *request), const void *request) {
    described.print = print;
    described.request = request;
    if (print && getenv("FUZZ_VERBOSE"))
        print(stderr, request);
}

void fuzz_fail(const char *format, ...) {
    va_list arguments;
    if (described.print)
        described.print(stderr, described.request);
    fputs("fuzz: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

static enum heed_status run(const struct function *function, const void *request, const struct how *how) {
    fesetround(how->rounding);
    const int before = rounding_mode(); /* not what was asked for where valgrind runs it */
    const enum heed_status status = function->call(request, &how->exec);
    if (rounding_mode() != before)
        fuzz_fail("the rounding mode has changed");
    fesetround(FE_TONEAREST);
    return status;
}

static void run_and_compare(const struct function *function, struct memory *memory, const void *request, const struct how *how) {
    const struct how serial_scalar = {.exec = {.threads = 1, .isa = "scalar"}, .rounding = FE_TONEAREST};
    uint8_t *image = malloc(memory_bytes(memory) + 1);
    if (!image)
        fuzz_fail("no memory");
    memory_begin_call(memory);
    const enum heed_status status = run(function, request, how);
    memory_end_call(memory, true);
    if (status && !(status == HEED_CANCELLED && how->questions < 0))
        fuzz_fail("a valid request is refused: %s", heed_error_message());
    memory_copy(memory, image);
    memory_restore(memory);
    memory_begin_call(memory);
    if (run(function, request, &serial_scalar))
        fuzz_fail("refused when serial: %s", heed_error_message());
    memory_end_call(memory, true);
    if (status == HEED_OK)
        memory_must_equal(memory, image, "the scalar table");
    free(image);
    if (function->check)
        function->check(memory, request);
}

static bool always(void *context) {
    (void)context;
    return true;
}

/* Cancelled before it begins, a call still validates: what it refuses it must refuse again, and what it takes must be in order. */
static void run_hostile(struct input *in, const struct function *function, struct memory *memory, const void *request,
                        struct how *how) {
    struct heed_exec exec = how->exec;
    make_hostile_exec(in, &exec);
    if (function->may_be_validated && !function->may_be_validated(memory, request))
        return;
    exec.cancelled = always;
    memory_remember(memory);
    const enum heed_status status = function->call(request, &exec);
    memory_end_call(memory, false);
    if (status != HEED_CANCELLED && status != HEED_OK) {
        if (!*heed_error_message())
            fuzz_fail("refused without a message");
        exec.cancelled = how->exec.cancelled;
        if (status != HEED_OUT_OF_MEMORY && function->call(request, &exec) != status)
            fuzz_fail("refused with status %d, but only once", (int)status);
        memory_end_call(memory, false);
        return;
    }
    memory_unmark(memory);
    const enum marked marked = function->mark(memory, request);
    how->exec = exec;
    how->exec.cancelled = NULL;
    if (marked == MARKED_TWICE)
        fuzz_fail("an output that overlaps something is accepted");
    if (marked == MARKED)
        run_and_compare(function, memory, request, how);
}

void fuzz_request(struct input *in, const struct function *function, struct memory *memory, const void *request, bool valid) {
    struct how how;
    take_how(in, &how);
    fuzz_describe(function->print, request);
    if (!valid) {
        run_hostile(in, function, memory, request, &how);
    } else {
        if (function->mark(memory, request) != MARKED)
            fuzz_fail("the fuzzer itself has made a request that does not fit its memory");
        memory_scrub(memory);
        run_and_compare(function, memory, request, &how);
    }
    memory_free(memory);
}

size_t fuzz_draw(struct rng *rng, uint8_t bytes[FUZZ_MOST_BYTES]) {
    const size_t size = (size_t)rng_range(rng, 16, 512);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)rng_next(rng);
    return size;
}

void fuzz_one(const uint8_t *data, size_t size) {
    struct input in = {.data = data, .size = size};
    switch (take_range(&in, 0, 19)) {
    case 6:
        fuzz_rope_fill(&in);
        break;
    case 7:
        fuzz_rope(&in);
        break;
    case 8:
        fuzz_embedding(&in);
        break;
    case 9:
        fuzz_linear(&in);
        break;
    case 10:
        fuzz_activate(&in);
        break;
    case 11:
        fuzz_norm(&in);
        break;
    case 12:
        fuzz_gemm(&in);
        break;
    case 13:
        fuzz_softmax(&in);
        break;
    case 14:
        fuzz_append(&in);
        break;
    case 15:
        fuzz_merge(&in);
        break;
    case 16:
        fuzz_attention_layer(&in);
        break;
    case 17:
        fuzz_convert(&in);
        break;
    default:
        fuzz_attention(&in);
    }
    fuzz_describe(NULL, NULL);
}
