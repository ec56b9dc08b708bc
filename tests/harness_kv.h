/* Key/value caches for tests: the layout once more, random appends, and running one with its tensors placed in any legal way. */
#ifndef HEED_TESTS_HARNESS_KV_H
#define HEED_TESTS_HARNESS_KV_H

#include "harness_attention.h"

/* An append without its tensors and cache, which run_append makes from these contiguous values. */
struct append_case {
    struct heed_kv_append append;
    struct heed_kv_cache cache; /* without its memory */
    float *key, *value, *cos, *sin;
    enum heed_type key_type, value_type; /* of what is appended, which holds key and value exactly */
    enum fill fill;
};

/* The whole cache as floats, and where element d of a key or a value is in it, by the formulas of heed.h. */
int64_t kv_cache_floats(const struct heed_kv_cache *cache);
void *kv_key_at(const struct heed_kv_cache *cache, int64_t b, int64_t h, int64_t position, int64_t d);
void *kv_value_at(const struct heed_kv_cache *cache, int64_t b, int64_t h, int64_t position, int64_t d);
/* The scales of one of HEED_I8. */
float *kv_key_scale_at(const struct heed_kv_cache *cache, int64_t b, int64_t h, int64_t position);
float *kv_value_scale_at(const struct heed_kv_cache *cache, int64_t b, int64_t h, int64_t position);
/* Element 0 of HEED_F32 there. */
float kv_get(const void *at);
/* n scales of channels, powers of two or any; and those of a head, NULL if the cache has none. */
float *new_channel_scales(struct rng *rng, int64_t n, bool powers);
const float *kv_channels_at(const struct heed_kv_cache *cache, int64_t h);
/* Stores a key, divided by them, or a value of a token, rounded to the type of the cache, and the zeros behind a value. */
void kv_put_key(const struct heed_kv_cache *cache, int64_t b, int64_t h, int64_t position, const float *key);
void kv_put_value(const struct heed_kv_cache *cache, int64_t b, int64_t h, int64_t position, const float *value);

/* Pages of random size and order: linear, ring or paged, for `batch` sequences. */
void any_cache(struct rng *rng, int64_t batch, struct heed_kv_cache *cache);
struct append_case any_append_case(struct rng *rng);
void free_append_case(struct append_case *c);
void describe_append(const struct append_case *c, const char *isa);

/* Turns one row. */
void turn_plainly(const struct heed_rope_tables *rope, int64_t position, float *x);
/* Writes the tokens to a cache at data, one after another. */
void append_plainly(const struct append_case *c, float *data);
/* Runs the case on POISON between guard pages, checks everything but the values, and takes the whole memory of the cache. */
void run_append(const struct append_case *c, const struct heed_exec *exec, struct rng *rng, float *result);

#endif
