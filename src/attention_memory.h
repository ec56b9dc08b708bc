/* The memory of an attention request. */
#ifndef HEED_ATTENTION_MEMORY_H
#define HEED_ATTENTION_MEMORY_H

#include "heed.h"
#include "region.h"

/* Every tensor within the address space, aligned, there if it is needed; no output overlaps itself or anything else.  Sizes and
 * starts have been checked. */
enum heed_status heed_attention_check_memory(const struct heed_attention *request);
/* Something else that is written has nothing of what says what queries see and what becomes of scores: masks and arrays. */
enum heed_status heed_attention_check_apart(const struct heed_attention *request, const struct heed_region *output);

/* Of a request that has been checked: where there is one index, a stride may be any number, and a kernel that reckons with more
 * rows than there are would overflow; such strides become 0. */
void heed_attention_forget_strides(struct heed_attention *request);

#endif
