/* How a function of the library refuses: a status, and a message on the calling thread. */
#ifndef HEED_ERROR_H
#define HEED_ERROR_H

#include "heed.h"

/* Sets heed_error_message() and returns status. */
enum heed_status heed_fail(enum heed_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "part: " before the message of a step that has failed. */
void heed_fail_in(const char *part);

#endif
