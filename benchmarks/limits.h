/* What this machine can do at best, measured in the run that it judges: multiply-adds and reads, by instruction set and threads. */
#ifndef HEED_BENCHMARKS_LIMITS_H
#define HEED_BENCHMARKS_LIMITS_H

#include <cstdint>
#include <string>
#include <vector>

#include "bench.h"
#include "limits_probe.h"

namespace bench {

/* Several measurements of one thing. */
struct Samples {
    double min, median, max;
    int count;
};
Samples summarize(std::vector<double> values);

/* Measures the FMA peak of an instruction set from heed_info's usable list; false if there is no probe for it. */
bool measure_flops_limit(const std::string &isa, int threads, int count);

/* A working set of its own, as large as that of what is judged by it, which each thread goes through its share of, over and over:
 * from the cache level that such a working set lives in.  Reads take the instruction set's loads.  Copies go from one half to the
 * other, counted read and written together: the better of stores to the caches and stores past them. */
class Bandwidth {
  public:
    Bandwidth(const std::string &isa, int threads, double bytes, bool copies);
    double once(); /* byte/s */
    double now();  /* the best of a few */

  private:
    const limit_probe &probe_;
    const int threads_;
    const int64_t share_;
    const bool copies_;
    Buffer data_, copy_;
};

/* Reads from inside each cache and from far outside. */
struct Level {
    std::string name;
    Samples rates; /* byte/s */
};
Samples measure_reads(const std::string &isa, int threads, double bytes);
std::vector<Level> read_levels(const std::string &isa, int threads);

/* The peak at this moment, in some 30 us: the limit of what is timed beside it. */
double probe_flops(const std::string &isa, int threads);
/* The peak beside a benchmark. */
void note_flops(const std::string &isa, int threads, double flops);

/* The measurements at the start and those since, for every peak measured. */
struct Noise {
    std::string isa;
    int threads;
    Samples start, later;
};
std::vector<Noise> noise();
/* What to say of a machine whose peaks move by more than a few per cent before anything else runs; empty if none does. */
std::string noise_warning();

} // namespace bench

#endif
