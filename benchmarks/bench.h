/* What the benchmarks share: data, requests that are checked and timed, and the list of what to run.
 *
 * bench_<word>.cc describes the requests of one kind and adds them; bench.cc checks and times each; limits.cc measures what the
 * machine can do, machine.cc says which machine it is; report.cc prints, picture_<word>.cc draw; main.cc reads the command line.
 * Heed is used through its public header alone. */
#ifndef HEED_BENCHMARKS_BENCH_H
#define HEED_BENCHMARKS_BENCH_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed.h"

namespace bench {

/* What to run on, and how much of it. */
struct Plan {
    bool brief; /* does it run, and are its results right; the figures are worth little */
    std::vector<std::string> isas;
    std::vector<int> threads;
    std::vector<std::string> isas_on(int threads) const;
};

/* The scalar tables take hundreds of times as long, and get fewer and smaller requests, on one thread unless brief. */
bool is_scalar(const std::string &isa);
/* Whether this table's products of this kind are its own: `amx` and `avx512bf16` have few such kinds, the rest being avx512's. */
bool computes(const std::string &isa, heed_compute compute);

/* Floats in memory of their own, every page touched.  Large ones ask for huge pages, so that the kernels are measured and not the
 * page walks of one system's allocator.  Starts are staggered: buffers that all begin where a page does compete for the same lines
 * of L1. */
class Buffer {
  public:
    explicit Buffer(int64_t floats); /* zeros */
    ~Buffer();
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    /* Random floats in (-amplitude, amplitude), none of them 0: a processor may treat zeros specially. */
    void fill(float amplitude, uint64_t seed);
    float *data() { return data_; }
    const float *data() const { return data_; }

  private:
    void *memory_;
    int64_t mapped_, floats_;
    float *data_;
};

/* One request to heed with its data. */
class Work {
  public:
    virtual ~Work() = default;
    virtual heed_status call(const heed_exec &exec) = 0;
    /* Of all calls so far, where the work times them itself; else 0. */
    virtual double own_seconds() const { return 0; }
    /* What is wrong with the output of the latest call; empty if nothing. */
    virtual std::string check() = 0;
};

using Maker = std::function<std::unique_ptr<Work>()>;

/* What a request is judged by: flops at the FMA peak, bytes at the read bandwidth whatever the flops, or the time of a call so
 * small that its work does not matter. */
enum class Figure { flops, bytes, time };

/* Where a picture of shares by length shows a request: the panel, its line there, and the length. */
struct Curve {
    std::string panel, line;
    int64_t length = 0;
};

/* A request before it has data.  Flops are useful ones, bytes are what a perfect cache would read and write. */
struct Request {
    std::string group, shape, dtype = "f32"; /* dtype: of the inputs */
    std::string dtype_and_shape() const { return dtype + "/" + shape; }
    std::string label; /* in pictures, of those that stand for their kind; empty: of no other */
    Curve curve;       /* length 0: none */
    double flops = 0, bytes = 0;
    Figure figure = Figure::flops;
    bool copies = false;    /* half of the bytes are written, so that copies are its limit and not reads */
    double working_set = 0; /* bytes of all data that calls take in turn; 0: they all take the same */
    Maker make;
    /* The call that the price is asked of: one without the option that the request is about.  The price is the request's time
     * over the plain call's, for as much work: plain_work is that of the plain call with the request's as 1. */
    Maker make_plain;
    double plain_work = 1;
};

/* A request on one ISA and thread count. */
struct Benchmark {
    Request request;
    std::string isa;
    int threads;
    std::string name() const;
};
void add(const Request &request, const std::string &isa, int threads);
const Benchmark &benchmark_of(const std::string &name);
std::vector<std::string> groups(); /* of all that were added, in that order */
/* For kinds with very many requests: makes benchmarks of all, or of few in a brief run, then on the most threads alone, and of the
 * scalar tables. */
void add_many(const Plan &plan, const std::function<std::vector<Request>(bool few, int threads)> &requests);

void add_gemm(const Plan &plan);
void add_linear(const Plan &plan);
void add_linear_group(const Plan &plan);
void add_softmax(const Plan &plan);
void add_rows(const Plan &plan);
void add_attention(const Plan &plan);
void add_options(const Plan &plan);
void add_decode(const Plan &plan);
void add_cache(const Plan &plan);
class FirstCalls;
void add_first_call(const Plan &plan, FirstCalls &calls);

/* Rows to check of many: the first, the last and some between, as many as about 2^22 multiply-adds allow, but at least four. */
std::vector<int64_t> rows_to_check(int64_t rows, int64_t flops_per_row);

/* Compares a row of a result bit by bit with the scalar kernels, and with the exact result in double: |got[i] - exact[i]| may be
 * absolute + relative * |exact[i]|.  Empty if all is well. */
struct Tolerance {
    double absolute, relative;
};
std::string compare_row(int64_t row, const float *got, const std::vector<float> &scalar, const std::vector<double> &exact,
                        Tolerance tolerance);

/* How the scalar kernels are asked for the rows that compare_row takes. */
extern const heed_exec scalar_exec;

} // namespace bench

#endif
