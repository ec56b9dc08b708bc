/* A request for attention with its data, its options, and the check of what it gives: the requests of bench_attention.cc,
 * bench_options.cc, bench_decode.cc and bench_cache.cc differ in shape, options and where keys and values are. */
#ifndef HEED_BENCHMARKS_ATTENTION_WORK_H
#define HEED_BENCHMARKS_ATTENTION_WORK_H

#include "bench.h"

extern "C" {
#include "reference/reference.h"
}

namespace bench {

/* The last query stands at the last key. */
struct Shape {
    int64_t batch, heads, kv_heads, queries, keys, head_dim;
    bool causal;
    int64_t window = 0;                /* keys that a causal query sees, its own the last of them; 0: all before it */
    std::vector<int64_t> lengths = {}; /* of packed sequences, as many as batch; queries and keys are then their sum */
};

/* B1_H8_KV8_Q1024_K1024_D64_causal, and what else there is */
std::string name_of(const Shape &shape);
/* Pairs of a query and a key that it sees, of one head. */
double visible_pairs(const Shape &shape);
/* Two multiply-adds per visible pair and element of a head. */
double useful_flops(const Shape &shape);
/* Query, output, and the keys and values that anyone sees. */
double touched_bytes(const Shape &shape, heed_type type = HEED_F32);

/* A request for attention without its data: it has no makers yet.  option: what its name says beside the shape. */
Request request_of(const std::string &group, const Shape &shape, const std::string &option = "", heed_type type = HEED_F32);

/* Where keys and values are, and how all tensors are stored, for each of several layers that calls take in turn: together they
 * should not fit a cache if memory is to be read. */
struct Storage {
    enum Kind { rows, tokens, linear, paged } kind = rows; /* rows: head by head; tokens: the heads of each side by side */
    int64_t layers = 1;
    int64_t page_tokens = 64;  /* of paged ones, whose pages lie in random order */
    heed_type type = HEED_F32; /* HEED_I8: of a linear cache, and floats for the rest */
};

/* The bf16 or f16 that is nearest, and as a float. */
uint16_t half_of(heed_type type, float x);
float float_of(heed_type type, uint16_t half);

class AttentionWork : public Work {
  public:
    explicit AttentionWork(const Shape &shape, const Storage &storage = {});
    heed_status call(const heed_exec &exec) override;
    std::string check() override;

    /* The request, for options to be added to: their memory lives as long as the work. */
    struct heed_attention request;
    const Shape &shape() const { return shape_; }
    Buffer &own(int64_t floats);
    float *random(int64_t floats, float amplitude);
    int64_t *numbers(std::vector<int64_t> values);

  private:
    struct Place {
        int64_t sequence, head, query;
    };
    struct Rows {
        heed_input floats, stored; /* the same numbers */
    };
    Rows rows(int64_t layers, int64_t sequences, int64_t heads, int64_t tokens, float size);
    void store(const Storage &storage);
    void move_to_cache(const Storage &storage);
    void read_back();
    void next_layer();
    struct heed_attention one_head(int64_t sequence, int64_t head) const;
    struct heed_attention one_query(const Place &place);
    double largest_score() const;
    double score_error() const;
    double weight_error() const;
    Place place_of(int64_t row) const;
    std::string check_query(const Place &place);
    heed_output attend_by_scalar();
    std::string check_mass();
    std::string check_states();

    Shape shape_;
    std::vector<std::unique_ptr<Buffer>> owned_;
    std::vector<std::vector<int64_t>> numbers_;
    heed_type type_;
    Rows query_, key_, value_; /* of the first layer; with a cache, where its content came from */
    struct heed_kv_cache cache_;
    std::vector<int32_t> table_;
    std::unique_ptr<heed_output> of_cache_;             /* of bytes: the scalar kernels' */
    int64_t layers_ = 1, layer_ = 0, layer_floats_ = 0; /* of the cache */
    float *first_layer_ = nullptr;                      /* of the cache */
    int64_t position_ = 0;                              /* of the query that is being checked */
};

} // namespace bench

#endif
