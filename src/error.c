/* Status words, and the message of the latest refused call of each thread. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

static _Thread_local char message[256];

enum heed_status heed_fail(enum heed_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status;
}

void heed_fail_in(const char *part) {
    char step[sizeof message];
    memcpy(step, message, sizeof step);
    heed_fail(HEED_OK, "%s: %s", part, step);
}

HEED_API const char *heed_error_message(void) { return message; }

HEED_API const char *heed_status_string(enum heed_status status) {
    switch (status) {
    case HEED_OK:
        return "success";
    case HEED_INVALID_ARGUMENT:
        return "invalid argument";
    case HEED_UNSUPPORTED_ISA:
        return "unsupported instruction set";
    case HEED_OUT_OF_MEMORY:
        return "out of memory";
    case HEED_CANCELLED:
        return "cancelled";
    }
    return "unknown status";
}
