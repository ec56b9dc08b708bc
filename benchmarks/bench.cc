/* Prepares, checks and times the requests: what every benchmark does whatever it computes. */
#include "bench.h"

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <iterator>
#include <new>

#include "limits.h"
#include "progress.h"
#include "series.h"

namespace bench {
namespace {

const int64_t huge_page = int64_t{2} << 20;

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/* All that were added, in that order; a deque, so that they stay where they are. */
std::deque<Benchmark> benchmarks;

/* The benchmark that is running: Google Benchmark calls its function many times, and the data of one is enough in memory. */
struct Running {
    const Benchmark *benchmark = nullptr;
    std::string error;
    std::unique_ptr<Work> work, plain;
    std::unique_ptr<Bandwidth> bandwidth;
} running;

heed_exec exec_of(const char *isa, int threads) {
    heed_exec exec = {};
    exec.threads = threads;
    exec.isa = isa;
    return exec;
}

/* heed's own string, which it knows by its address: comparing takes 3 ns of the 26 of the smallest products. */
const char *name_of(const std::string &isa) {
    struct heed_info info = {};
    heed_info(&info);
    const char *const *usable = info.usable;
    while (*usable && isa != *usable)
        usable++;
    return *usable;
}

std::unique_ptr<Work> checked(const Maker &make, const heed_exec &exec, std::string &error) {
    std::unique_ptr<Work> work = make();
    error = work->call(exec) == HEED_OK ? work->check() : heed_error_message();
    return work;
}

/* Of requests with more flops for each byte the flops are the limit, on any machine that there is. */
const double most_flops_per_byte = 32;

bool may_wait_for_bytes(const Request &request) {
    return request.figure == Figure::bytes || request.flops < most_flops_per_byte * request.bytes;
}

void prepare(const Benchmark &benchmark, const heed_exec &exec) {
    const Request &request = benchmark.request;
    if (running.benchmark == &benchmark)
        return;
    begin_progress(benchmark.name());
    running = {&benchmark, "", nullptr, nullptr, nullptr}; /* frees the last request's data before the next is made */
    try {
        if (may_wait_for_bytes(request))
            running.bandwidth =
                std::make_unique<Bandwidth>(exec.isa, exec.threads, std::max(request.bytes, request.working_set), request.copies);
        running.work = checked(request.make, exec, running.error);
        if (request.make_plain && running.error.empty())
            running.plain = checked(request.make_plain, exec, running.error);
    } catch (const std::bad_alloc &) {
        running.error = "no memory for the data";
    }
}

/* Clocks and neighbours move a shared machine by tens of per cent within a run, so each repetition is held against the limits
 * around it, not against the run's best. */
double bytes_now() { return running.bandwidth ? running.bandwidth->now() : 0; }

/* The share of the limit follows the roofline model (Williams, Waterman and Patterson 2009): no call can take less time than its
 * flops at the FMA peak, nor than its bytes at the read bandwidth of a working set as large.  Where a request is judged by bytes,
 * those alone count. */
void count(benchmark::State &state, const Request &request, const Series::Timing &timing, double bytes_limit) {
    double compute = request.figure == Figure::bytes ? 0 : request.flops / timing.flops;
    double memory = bytes_limit > 0 ? request.bytes / bytes_limit : 0;
    state.counters["seconds"] = timing.seconds;
    if (request.figure != Figure::bytes)
        state.counters["GFLOPS"] = request.flops / timing.seconds / 1e9;
    if (memory > compute)
        state.counters["GBps"] = request.bytes / timing.seconds / 1e9;
    state.counters["of_limit"] = std::max(compute, memory) / timing.seconds;
    state.counters["peak_GFLOPS"] = timing.flops / 1e9;
    state.counters["quiet"] = timing.quiet;
}

/* Of a repetition's time without the wait for it. */
const double least_quiet_share = 0.4;

/* Half of the plain calls come before the request's own and half after them, so that a drifting clock counts for both alike. */
void time_calls(benchmark::State &state, const Request &request, const heed_exec &exec) {
    const double before = bytes_now();
    Series series(*running.work, exec), plain(running.plain ? *running.plain : *running.work, exec);
    const auto half = [count = running.plain ? (state.max_iterations + 1) / 2 : 0]() mutable { return count-- > 0; };
    plain.run(half);
    series.run([&state] { return state.KeepRunning(); });
    series.run_until_quiet(least_quiet_share);
    plain.run(half);
    if (series.failed() || plain.failed()) {
        state.SkipWithError(heed_error_message());
        return;
    }
    const Series::Timing timing = series.timing();
    note_flops(exec.isa, exec.threads, timing.flops);
    count(state, request, timing, std::max(before, bytes_now()));
    if (running.plain)
        state.counters["price"] = timing.seconds * request.plain_work / plain.timing().seconds;
}

void run(benchmark::State &state, const Benchmark &benchmark) {
    const heed_exec exec = exec_of(name_of(benchmark.isa), benchmark.threads);
    prepare(benchmark, exec);
    if (running.error.empty())
        time_calls(state, benchmark.request, exec);
    else
        state.SkipWithError(running.error.c_str());
}

/* splitmix64 (Steele, Lea and Flood 2014) */
uint64_t next_random(uint64_t &state) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

std::string message(const char *what, int64_t row, size_t column, double got, double expected) {
    char text[160];
    std::snprintf(text, sizeof text, "row %lld, column %zu: %.9g, but %s %.9g", static_cast<long long>(row), column, got, what,
                  expected);
    return text;
}

} // namespace

const heed_exec scalar_exec = exec_of("scalar", 1);

bool is_scalar(const std::string &isa) { return isa.compare(0, 6, "scalar") == 0; }

bool computes(const std::string &isa, heed_compute compute) {
    if (isa == "amx")
        return compute == HEED_COMPUTE_BF16_AMX || compute == HEED_COMPUTE_I8;
    return isa != "avx512bf16" || compute == HEED_COMPUTE_BF16;
}

std::vector<std::string> Plan::isas_on(int count) const {
    std::vector<std::string> chosen;
    std::copy_if(isas.begin(), isas.end(), std::back_inserter(chosen), [&](const std::string &isa) {
        return computes(isa, HEED_COMPUTE_F32) && (brief || count == 1 || !is_scalar(isa));
    });
    return chosen;
}

Buffer::Buffer(int64_t floats) : floats_(floats) {
    static int64_t stagger = 0;
    stagger = (stagger + 5 * 64) % 4096;
    int64_t bytes = std::max<int64_t>(floats * 4 + stagger, 1); /* mmap gives nothing no memory */
    mapped_ = bytes < huge_page ? round_up(bytes, 4096) : round_up(bytes, huge_page) + huge_page;
    memory_ = mmap(nullptr, static_cast<size_t>(mapped_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED)
        throw std::bad_alloc();
    char *start = static_cast<char *>(memory_);
    if (bytes >= huge_page) {
        start += round_up(static_cast<int64_t>(reinterpret_cast<uintptr_t>(start)), huge_page) -
                 static_cast<int64_t>(reinterpret_cast<uintptr_t>(start));
        madvise(start, static_cast<size_t>(round_up(bytes, huge_page)), MADV_HUGEPAGE); /* advice: may fail */
    }
    data_ = reinterpret_cast<float *>(start + stagger);
    std::memset(data_, 0, static_cast<size_t>(floats) * 4);
}

Buffer::~Buffer() { munmap(memory_, static_cast<size_t>(mapped_)); }

void Buffer::fill(float amplitude, uint64_t seed) {
    for (int64_t i = 0; i < floats_; i++) {
        float odd = static_cast<float>(next_random(seed) >> 41) * 2 + 1; /* 1, 3, ..., 2^24 - 1 */
        data_[i] = amplitude * (odd / 8388608.0f - 1);
    }
}

std::string Benchmark::name() const {
    return request.group + "/" + isa + "/" + request.dtype_and_shape() + "/threads:" + std::to_string(threads);
}

void add(const Request &request, const std::string &isa, int threads) {
    const Benchmark &added = benchmarks.emplace_back(Benchmark{request, isa, threads});
    benchmark::RegisterBenchmark(added.name().c_str(), [&added](benchmark::State &state) {
        run(state, added);
    })->ComputeStatistics("min", [](const std::vector<double> &v) {
          return summarize(v).min;
      })->ComputeStatistics("max", [](const std::vector<double> &v) { return summarize(v).max; });
}

const Benchmark &benchmark_of(const std::string &name) {
    return *std::find_if(benchmarks.begin(), benchmarks.end(), [&name](const Benchmark &each) { return each.name() == name; });
}

std::vector<std::string> groups() {
    std::vector<std::string> all;
    for (const Benchmark &each : benchmarks)
        if (std::find(all.begin(), all.end(), each.request.group) == all.end())
            all.push_back(each.request.group);
    return all;
}

void add_many(const Plan &plan, const std::function<std::vector<Request>(bool few, int threads)> &requests) {
    for (int threads : plan.threads)
        for (const std::string &isa : plan.isas_on(threads))
            if (!plan.brief || threads == plan.threads.back())
                for (const Request &request : requests(plan.brief || is_scalar(isa), threads))
                    add(request, isa, threads);
}

std::vector<int64_t> rows_to_check(int64_t rows, int64_t flops_per_row) {
    int64_t affordable = std::max(int64_t{4}, (int64_t{1} << 23) / std::max(int64_t{1}, flops_per_row));
    int64_t count = std::min(rows, affordable);
    std::vector<int64_t> chosen;
    for (int64_t i = 0; i < count; i++)
        chosen.push_back(count == 1 ? 0 : i * (rows - 1) / (count - 1));
    return chosen;
}

std::string compare_row(int64_t row, const float *got, const std::vector<float> &scalar, const std::vector<double> &exact,
                        Tolerance tolerance) {
    for (size_t i = 0; i < scalar.size(); i++) {
        double x = static_cast<double>(got[i]);
        bool close = std::fabs(x - exact[i]) <= tolerance.absolute + tolerance.relative * std::fabs(exact[i]);
        if (!close && !(std::isinf(x) && x == exact[i]))
            return message("the exact value is", row, i, x, exact[i]);
        if (std::memcmp(&got[i], &scalar[i], sizeof(float)) != 0)
            return message("the scalar kernels give other bits:", row, i, x, static_cast<double>(scalar[i]));
    }
    return "";
}

} // namespace bench
