/* Runs the probes of limits_<isa>.c on threads of its own, for some milliseconds at a time. */
#include "limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <thread>
#include <tuple>

#include "bench.h"
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
#if HEED_HAVE_NEON
    &limit_neon,
#endif
};

struct Peak {
    std::vector<double> start, later;
};
std::map<std::pair<std::string, int>, Peak> peaks;
std::map<std::tuple<std::string, int, int64_t>, double> bandwidths;

const limit_probe *find_probe(const std::string &isa) {
    for (const limit_probe *probe : probes)
        if (isa == probe->isa)
            return probe;
    return nullptr;
}

/* Seconds from the moment all threads are there until the last has done its work. */
double seconds_on(int threads, const std::function<void(int)> &work) {
    std::atomic<int> waiting{0};
    std::atomic<bool> go{false};
    std::vector<Clock::time_point> ends(static_cast<size_t>(threads));
    auto body = [&](int index) {
        waiting++;
        while (!go)
            std::this_thread::yield();
        work(index);
        ends[static_cast<size_t>(index)] = Clock::now();
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads; i++)
        others.emplace_back(body, i);
    while (waiting < threads - 1)
        std::this_thread::yield();
    Clock::time_point start = Clock::now();
    go = true;
    body(0);
    for (std::thread &other : others)
        other.join();
    return std::chrono::duration<double>(*std::max_element(ends.begin(), ends.end()) - start).count();
}

/* Some 3 ms: long enough for thread start and clock not to count, short enough to fall between disturbances. */
double measure_flops(const limit_probe &probe, int threads) {
    static const int64_t rounds = 300000;
    double seconds = seconds_on(threads, [&](int) { probe.multiply_add(rounds); });
    return static_cast<double>(rounds * probe.flops_per_round) * threads / seconds;
}

double measure_read(const limit_probe &probe, int threads, const Buffer &buffer, int64_t share) {
    int64_t passes = 1 + (int64_t{32} << 20) / (share * threads);
    double seconds = seconds_on(threads, [&](int index) {
        for (int64_t pass = 0; pass < passes; pass++)
            probe.read(buffer.data() + index * (share / 4), share);
    });
    return static_cast<double>(passes * share) * threads / seconds;
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
    measure_flops(*probe, threads); /* wakes the cores and their vector units */
    Peak &peak = peaks[{isa, threads}];
    for (int i = 0; i < count; i++)
        peak.start.push_back(measure_flops(*probe, threads));
    return true;
}

double read_limit(const std::string &isa, int threads, double bytes) {
    const int64_t least = 4096; /* a smaller set would measure the loop's first and last turn */
    int64_t share = std::max(least, static_cast<int64_t>(bytes) / threads / LIMIT_READ_STEP * LIMIT_READ_STEP);
    auto [found, missing] = bandwidths.try_emplace({isa, threads, share}, 0.0);
    if (missing) {
        const limit_probe &probe = *find_probe(isa);
        Buffer buffer(share / 4 * threads);
        Clock::time_point enough = Clock::now() + std::chrono::milliseconds(50);
        for (int i = 0; i < 7 || Clock::now() < enough; i++)
            found->second = std::max(found->second, measure_read(probe, threads, buffer, share));
    }
    return found->second;
}

double sample_noise(const std::string &isa, int threads) {
    std::vector<double> &later = peaks.at({isa, threads}).later;
    later.push_back(measure_flops(*find_probe(isa), threads));
    return later.back();
}

std::vector<Noise> noise() {
    std::vector<Noise> all;
    for (const auto &[key, peak] : peaks)
        all.push_back({key.first, key.second, summarize(peak.start), summarize(peak.later)});
    return all;
}

} // namespace bench
