/* The state of a row: a running maximum and a sum of weights. */
#ifndef HEED_MERGE_H
#define HEED_MERGE_H

#include <stdint.h>

/* Before the first key: a score without a value. */
void heed_state_of_sink(float sink, float *max, float *sum);
/* After the last key. */
float heed_log_sum_exp(float max, float sum);

#endif
