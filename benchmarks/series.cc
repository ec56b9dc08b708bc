/* See series.h. */
#include "series.h"

#include <algorithm>
#include <numeric>

#include "limits.h"
#include "quiet.h"

namespace bench {
namespace {

/* Long beside a probe, short beside what disturbs. */
const double slice_seconds = 500e-6;

} // namespace

Series::Moment Series::probe(const heed_exec &exec) {
    const bool quiet = cores_are_quiet(exec.threads);
    return {probe_flops(exec.isa, exec.threads), quiet};
}

Series::Series(Work &work, const heed_exec &exec) : work_(work), exec_(exec), latest_(probe(exec)) {}

/* Where the work times itself, that counts. */
double Series::seconds_since(Clock::time_point start, double own) const {
    const double wall = std::chrono::duration<double>(Clock::now() - start).count();
    return work_.own_seconds() > own ? work_.own_seconds() - own : wall;
}

void Series::add(int64_t calls, double seconds) {
    const Moment before = latest_;
    latest_ = probe(exec_);
    slices_.push_back({calls, seconds, before, latest_});
    if (seconds < slice_seconds / 2)
        calls_ *= 2;
    else if (seconds > slice_seconds * 2)
        calls_ = std::max<int64_t>(1, calls_ / 2);
}

double Series::seconds(bool quiet) const {
    return std::accumulate(slices_.begin(), slices_.end(), 0.0,
                           [&](double sum, const Slice &slice) { return sum + (!quiet || slice.is_quiet() ? slice.seconds : 0); });
}

void Series::run_until_quiet(double share) {
    const double wanted = share * seconds(false), most = seconds(false) + 10 * wanted;
    while (seconds(true) < wanted && seconds(false) < most)
        run([calls = calls_]() mutable { return calls-- > 0; });
}

Series::Timing Series::timing() const {
    const double all = seconds(false), quiet = seconds(true);
    double calls = 0, flops = 0, counted = 0;
    for (const Slice &slice : slices_)
        if (quiet == 0 || slice.is_quiet()) {
            calls += static_cast<double>(slice.calls);
            counted += slice.seconds;
            flops += slice.seconds * (slice.before.flops + slice.after.flops) / 2;
        }
    return {counted / calls, flops / counted, quiet / all};
}

} // namespace bench
