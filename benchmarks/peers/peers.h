/* What the programs of `make bench-peers` share: work that heed and another library, a peer, both do, and races between the two.
 *
 * shapes.cc has the list of work, works.cc its data, heed's side of it and the exact results; race.cc checks a peer's result and
 * times both in turn; one program per peer sets that peer up at its best.  Peers of Python come through python.cc.  Heed is used
 * through its public header alone. */
#ifndef HEED_BENCHMARKS_PEERS_H
#define HEED_BENCHMARKS_PEERS_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heed.h"

namespace peers {

enum Kind : int64_t { gemm, softmax, attention, gemm_blocks, gemm_transposed };

/* What is to be done, in a form that Python reads too (peers.py has the same fields).  All is row-major without gaps:
 *   gemm       output[m][n] = input[0][m][k] input[1][k][n]; prepared: input[1] is known beforehand and may be packed
 *   softmax    output[m][n] = softmax of the rows of input[0][m][n]
 *   attention  output[heads][queries][head_dim] for query input[0][heads][queries][head_dim], key and value
 *              input[1], input[2][kv_heads][keys][head_dim]; prepared: keys and values may be in a library's own layout
 *   gemm_blocks  output[m][n] = input[0][m][k] times weights[n][k] in ggml's blocks at input[1]; prepared: heed has packed them
 *   gemm_transposed  output[m][n] = input[0][m][k] times input[1][n][k], as checkpoints have weights */
struct Shape {
    Kind kind;
    int64_t prepared;
    int64_t m, n, k;
    int64_t heads, kv_heads, queries, keys, head_dim, causal;
    int64_t bf16;    /* both sides store inputs and results in it: the inputs here are floats that it has */
    int64_t weights; /* of gemm_blocks: a heed_type */
    int64_t as_i8;   /* computed by heed in HEED_COMPUTE_I8 */
    int64_t threads;
    const float *input[3];
    float *output; /* of the peer */
};
std::string group_of(const Shape &shape); /* the table that it belongs to: "gemm packed bf16" */
std::string name_of(const Shape &shape);  /* its row: "512x768x768" */
double flops_of(const Shape &shape);      /* useful ones */
int64_t output_floats(const Shape &shape);

std::vector<Shape> list_of_work(bool brief);

/* A type of blocks: as GGUF files call it, and how long its blocks are. */
struct Blocks {
    heed_type type;
    const char *name;
    int64_t elements, bytes;
};
const Blocks &blocks_of(int64_t type);

/* Zeros, in huge pages if large and the system lets us: both sides read the same memory, and page walks are nobody's merit.
 * Starts are staggered: buffers that all begin where a page does compete for the same lines of L1. */
struct Free {
    void *memory = nullptr;
    void operator()(float *data) const;
};
using Floats = std::unique_ptr<float[], Free>;
Floats allocate(int64_t floats);

/* One piece of work with its random data. */
class Work {
  public:
    virtual ~Work() = default;
    virtual void call_heed() = 0; /* throws std::runtime_error if heed refuses */
    const float *heed_output();   /* of the latest call */
    const Shape &shape() const { return shape_; }
    /* The largest deviation from the result in double, over the largest such result, in some of the rows.  NaN if one is NaN. */
    double error_of(const float *output) const;

  protected:
    explicit Work(const Shape &shape);
    /* What this row of the output should be. */
    virtual std::vector<double> exact_row(int64_t row) const = 0;
    const float *random(int input, int64_t floats, float amplitude);
    /* As heed gets it: in bf16 if the shape says so. */
    heed_type type() const { return shape_.bf16 ? HEED_BF16 : HEED_F32; }
    const void *stored(int input) const { return shape_.bf16 ? halves_[input].get() : inputs_[input].get(); }
    void *result() { return shape_.bf16 ? halves_[3].get() : heed_output_.get(); }

    Shape shape_;
    Floats inputs_[3], heed_output_, output_;
    Floats halves_[4]; /* inputs and heed's output in bf16 */
};
std::unique_ptr<Work> make_work(const Shape &shape);
/* The instruction set that heed runs on. */
std::string heed_isa();

/* The races of one peer on one number of threads.  Options: --threads N, --filter REGEX, --short, --records FILE. */
class Races {
  public:
    Races(std::string peer, std::string version, int argc, char **argv);
    ~Races();

    const std::vector<Shape> &list() const { return list_; }
    int threads() const { return threads_; }

    /* Makes the data of a piece of work, which the races that follow are about. */
    const Shape &start(size_t index);
    /* Checks and times one way to do it: `call` does it, and `fetch`, where the peer does not write to shape.output, copies the
     * result there. */
    void race(const std::string &variant, const std::function<void()> &call, const std::function<void()> &fetch = {});
    /* This way cannot be had of this peer: says so and goes on. */
    void cannot(const std::string &variant, const std::string &why);

    /* Wrong results, of either side. */
    int failures() const { return failures_; }

  private:
    struct Times;
    bool is_right(const char *who, const std::string &variant, double error);
    Times time(const std::function<void()> &call) const;
    void record(const std::string &variant, const Times &times, double error);

    std::string peer_, version_, records_;
    std::vector<Shape> list_;
    std::unique_ptr<Work> work_;
    int threads_ = 1, failures_ = 0;
    bool brief_ = false;
};

/* For native peers: all the work in turn; returns what main should. */
int run_all(Races &races, void (*run)(Races &races, const Shape &shape));

} // namespace peers

#endif
