/* Calls of a request, timed in slices between probes of the machine: what it can do, and whether it is one's own.  Slices count
 * that have quiet cores on both sides. */
#ifndef HEED_BENCHMARKS_SERIES_H
#define HEED_BENCHMARKS_SERIES_H

#include <chrono>
#include <cstdint>
#include <vector>

#include "bench.h"

namespace bench {

class Series {
  public:
    Series(Work &work, const heed_exec &exec);

    /* Calls as long as `more` says so. */
    template <class More> void run(More more) {
        for (bool goes_on = true; goes_on;) {
            int64_t calls = 0;
            const double own = work_.own_seconds();
            const Clock::time_point start = Clock::now();
            for (; calls < calls_ && (goes_on = more()); calls++)
                failed_ |= work_.call(exec_) != HEED_OK;
            if (calls > 0)
                add(calls, seconds_since(start, own));
        }
    }
    /* Some more, until that share of the time so far was quiet, or ten times as much is gone. */
    void run_until_quiet(double share);

    /* Of the quiet slices, or of all where none is. */
    struct Timing {
        double seconds; /* of one call */
        double flops;   /* a second: the FMA peak beside them */
        double quiet;   /* share of the time */
    };
    Timing timing() const;
    bool failed() const { return failed_; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Moment {
        double flops;
        bool quiet;
    };
    struct Slice {
        int64_t calls;
        double seconds;
        Moment before, after;
        bool is_quiet() const { return before.quiet && after.quiet; }
    };
    static Moment probe(const heed_exec &exec);
    double seconds_since(Clock::time_point start, double own) const;
    void add(int64_t calls, double seconds);
    double seconds(bool quiet) const;

    Work &work_;
    const heed_exec &exec_;
    std::vector<Slice> slices_;
    int64_t calls_ = 1; /* of the next slice */
    Moment latest_;
    bool failed_ = false;
};

} // namespace bench

#endif
