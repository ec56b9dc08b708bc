/* The state of a row: a running maximum and a sum of weights. */
#ifndef HEED_MERGE_H
#define HEED_MERGE_H

#include <stdint.h>

/* Before the first key: nothing, or the sink of a query head, a score without a value. */
void heed_state_start(const float *sinks, int64_t head, float *max, float *sum);
/* After the last key. */
float heed_log_sum_exp(float max, float sum);

#endif
