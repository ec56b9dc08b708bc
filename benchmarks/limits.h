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
 * each thread its share, over and over.  Measured when first asked for; the limit is the best of several. */
Samples measure_reads(const std::string &isa, int threads, double bytes);
double read_limit(const std::string &isa, int threads, double bytes);

/* Copies from one half of a working set to the other, in byte/s read and written together: the better of stores to the caches and
 * stores past them. */
double copy_limit(const std::string &isa, int threads, double bytes);

/* Reads from inside each cache and from far outside. */
struct Level {
    std::string name;
    Samples rates; /* byte/s */
};
std::vector<Level> read_levels(const std::string &isa, int threads);

/* One more measurement of a peak: the limit of what is timed beside it, and a sign of how steady the machine is. */
double sample_noise(const std::string &isa, int threads);

/* The measurements at the start and those since, for every peak measured. */
struct Noise {
    std::string isa;
    int threads;
    Samples start, later;
};
std::vector<Noise> noise();
/* What to say of a machine whose peaks move by more than a few per cent; empty if none does. */
std::string noise_warning();

} // namespace bench

#endif
