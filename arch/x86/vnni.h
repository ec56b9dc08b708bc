/* HEED_COMPUTE_I8 by vpdpbusd, which multiplies bytes without sign, of weights, by bytes with one: what AVX-512 and AVX have in
 * common, given vnni_dot and vnni_raise. */
#ifndef HEED_VNNI_H
#define HEED_VNNI_H

#include <string.h>

#include "cpu.h"

INLINE vi vnni_end(vi acc) { return acc; }
#define I8_DOT        vnni_dot
#define I8_DOT_U7     vnni_dot
#define I8_DOT_U4     vnni_dot
#define I8_DOT_U4_END vnni_end
#define I8_STARTS     true
#define I8_RAISED     128
#define I8_RAISE      vnni_raise
#include "kernels/types.h"
#include "kernels/tile.h"
#include "kernels/fetch_pages.h"
#include "kernels/block_words.h"
#include "kernels/block_columns.h"
#include "kernels/k_words.h"
#include "kernels/k_columns.h"
#include "kernels/i8_product.h"

#endif
