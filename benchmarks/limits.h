/* What this machine can do at best, measured in the run that it judges: multiply-adds and reads, by instruction set and threads. */
#ifndef HEED_BENCHMARKS_LIMITS_H
#define HEED_BENCHMARKS_LIMITS_H

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

/* Several measurements of one thing. */
struct Samples {
    double min, median, max;
    int count;
};
Samples summarize(std::vector<double> values);

/* Measures the FMA peak of an instruction set from heed_info's usable list; false if there is no probe for it. */
bool measure_flops_limit(const std::string &isa, int threads, int count);

/* Reads of a working set of this many bytes, in byte/s, by that set's loads: from the cache level that such a working set lives in,
 * each thread its share, over and over.  Measured when first asked for, the best of several. */
double read_limit(const std::string &isa, int threads, double bytes);

/* One more measurement of a peak: the limit of what is timed beside it, and a sign of how steady the machine is. */
double sample_noise(const std::string &isa, int threads);

/* The measurements at the start and those since, for every peak measured. */
struct Noise {
    std::string isa;
    int threads;
    Samples start, later;
};
std::vector<Noise> noise();

} // namespace bench

#endif
