/* What a run has measured, for the tables and pictures at its end. */
#ifndef HEED_BENCHMARKS_RESULTS_H
#define HEED_BENCHMARKS_RESULTS_H

#include <string>
#include <vector>

#include "bench.h"
#include "format.h"
#include "limits.h"

namespace bench {

struct Result {
    const Benchmark *benchmark;
    Samples seconds, of_limit, price; /* of one call; price.median 0: not asked for */
    Samples quiet;                    /* share of the time that counts; 0: none, so that all of it does */
    bool is_quiet() const { return quiet.median > 0; }
    const Request &request() const { return benchmark->request; }
    double gflops() const { return request().flops / seconds.median / 1e9; }
    double gbps() const { return request().bytes / seconds.median / 1e9; }
};

class Results {
  public:
    void add(const Result &result) { all_.push_back(result); }
    const std::vector<Result> &all() const { return all_; } /* in the order of the run */
    /* How many figures the machine's unrest has a part in, for tables and pictures; empty if none. */
    std::string unrest() const;
    /* The same request elsewhere; NULL if that has not run. */
    const Result *find(const Request &request, const std::string &isa, int threads) const;
    /* That request on one instruction set, or the one of its group that is nearest in size; NULL if none has run. */
    const Result *nearest(const Request &request, const std::string &isa, int threads) const;

  private:
    std::vector<Result> all_;
};

/* "138 GFLOP/s", "21.3 GB/s" or "1.2 us": what the request is judged by. */
std::string figure_of(const Result &result);

} // namespace bench

#endif
