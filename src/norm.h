/* Normalisation of rows as a step of a layer. */
#ifndef HEED_NORM_H
#define HEED_NORM_H

#include "heed.h"

/* All of a request. */
enum heed_status heed_norm_check(const struct heed_norm *request);

#endif
