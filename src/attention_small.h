/* Attention calls too small for a plan. */
#ifndef HEED_ATTENTION_SMALL_H
#define HEED_ATTENTION_SMALL_H

#include <stdbool.h>

#include "heed.h"
#include "kernels.h"

/* Whether the request is one of those that heed_attention_small computes; then it is valid.  Others may be valid or not. */
bool heed_attention_is_small(const struct heed_attention *request, const struct heed_exec *exec);
/* The bits of the plan's way, on the calling thread, without an allocation. */
void heed_attention_small(const struct heed_attention *request, const struct heed_kernels *kernels);

#endif
