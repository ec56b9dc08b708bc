/* Runs the probes of limits_<isa>.c on threads of its own, for some milliseconds at a time. */
#include "limits.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>

#include "config.h"
#include "limits_probe.h"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

const limit_probe *const probes[] = {
    &limit_scalar,
#if HEED_HAVE_SCALARFMA
    &limit_scalarfma,
#endif
#if HEED_HAVE_AVX2
    &limit_avx2,
#endif
#if HEED_HAVE_AVX512
    &limit_avx512,
#endif
#if HEED_HAVE_AVX512BF16
    &limit_avx512bf16,
#endif
#if HEED_HAVE_AMX
    &limit_amx,
#endif
#if HEED_HAVE_NEON
    &limit_neon,
#endif
};

struct Peak {
    std::vector<double> start, later;
};
std::map<std::pair<std::string, int>, Peak> peaks;

const limit_probe *find_probe(const std::string &isa) {
    for (const limit_probe *probe : probes)
        if (isa == probe->isa)
            return probe;
    return nullptr;
}

/* Seconds that the slowest thread takes.  By OpenMP, as heed's own threads: others would find the cores taken by those that wait
 * for their next work. */
double seconds_on(int threads, const std::function<void(int)> &work) {
    std::vector<double> seconds(static_cast<size_t>(threads));
#if HEED_HAVE_OPENMP
#pragma omp parallel for num_threads(threads) schedule(static, 1)
#endif
    for (int i = 0; i < threads; i++) {
        const Clock::time_point start = Clock::now();
        work(i);
        seconds[static_cast<size_t>(i)] = std::chrono::duration<double>(Clock::now() - start).count();
    }
    return *std::max_element(seconds.begin(), seconds.end());
}

const int64_t long_rounds = 300000, short_rounds = 4000, first_rounds = 2000; /* some 3 ms, 20 us and 10 us */

double measure_flops(const limit_probe &probe, int threads, int64_t rounds) {
    double seconds = seconds_on(threads, [&](int) { probe.multiply_add(rounds); });
    return static_cast<double>(rounds * probe.flops_per_round) * threads / seconds;
}

/* Passes over each thread's share, until 32 MiB are through. */
double measure_passes(int threads, int64_t share, const std::function<void(int)> &pass) {
    int64_t passes = 1 + (int64_t{32} << 20) / (share * threads);
    double seconds = seconds_on(threads, [&](int index) {
        for (int64_t i = 0; i < passes; i++)
            pass(index);
    });
    return static_cast<double>(passes * share) * threads / seconds;
}

/* Enough measurements for one of them to fall between disturbances. */
std::vector<double> several(const std::function<double()> &measure) {
    Clock::time_point enough = Clock::now() + std::chrono::milliseconds(50);
    std::vector<double> all;
    while (all.size() < 7 || Clock::now() < enough)
        all.push_back(measure());
    return all;
}

/* Of each thread; a smaller one than `least` would measure a loop's first and last turn. */
int64_t share_of(double bytes, int threads, int64_t least) {
    return std::max(least, static_cast<int64_t>(bytes) / threads / least * least);
}

} // namespace

Samples summarize(std::vector<double> values) {
    if (values.empty())
        return {0, 0, 0, 0};
    std::sort(values.begin(), values.end());
    size_t half = values.size() / 2;
    double median = values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
    return {values.front(), median, values.back(), static_cast<int>(values.size())};
}

bool measure_flops_limit(const std::string &isa, int threads, int count) {
    const limit_probe *probe = find_probe(isa);
    if (!probe)
        return false;
    measure_flops(*probe, threads, long_rounds); /* wakes the cores and their vector units */
    Peak &peak = peaks[{isa, threads}];
    for (int i = 0; i < count; i++)
        peak.start.push_back(measure_flops(*probe, threads, long_rounds));
    return true;
}

Bandwidth::Bandwidth(const std::string &isa, int threads, double bytes, bool copies)
    : probe_(*find_probe(isa)), threads_(threads), share_(share_of(bytes, threads, (copies ? 8 : 4) * LIMIT_READ_STEP)),
      copies_(copies), data_(share_ / 4 * threads / (copies ? 2 : 1)), copy_(copies ? share_ / 8 * threads : 0) {}

double Bandwidth::once() {
    const int64_t floats = share_ / (copies_ ? 8 : 4), bytes = floats * 4;
    if (!copies_)
        return measure_passes(threads_, share_, [&](int index) { probe_.read(data_.data() + index * floats, bytes); });
    double best = 0;
    for (auto copy : {probe_.copy, probe_.stream})
        best = std::max(best, measure_passes(threads_, share_, [&](int index) {
                            copy(copy_.data() + index * floats, data_.data() + index * floats, bytes);
                        }));
    return best;
}

double Bandwidth::now() {
    double best = 0;
    for (int i = 0; i < 3; i++)
        best = std::max(best, once());
    return best;
}

Samples measure_reads(const std::string &isa, int threads, double bytes) {
    Bandwidth reads(isa, threads, bytes, false);
    return summarize(several([&] { return reads.once(); }));
}

/* Wide vectors are slow for the first microseconds after instructions that are none. */
double probe_flops(const std::string &isa, int threads) {
    measure_flops(*find_probe(isa), threads, first_rounds);
    return measure_flops(*find_probe(isa), threads, short_rounds);
}

void note_flops(const std::string &isa, int threads, double flops) { peaks.at({isa, threads}).later.push_back(flops); }

std::vector<Noise> noise() {
    std::vector<Noise> all;
    for (const auto &[key, peak] : peaks)
        all.push_back({key.first, key.second, summarize(peak.start), summarize(peak.later)});
    return all;
}

/* Measurements a few milliseconds long of a machine that has nothing else to do differ by less than `steady`. */
std::string noise_warning() {
    const double steady = 0.05;
    for (const Noise &each : noise())
        if (each.start.max - each.start.median > steady * each.start.max)
            return "this machine is noisy: the FMA peak of " + each.isa + " moves by " +
                   std::to_string(std::lround(100 * (each.start.max - each.start.median) / each.start.max)) + " %";
    return "";
}

} // namespace bench
