/* Prints what Google Benchmark tells of a run, and keeps the medians for the tables and pictures. */
#include "report.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "progress.h"

namespace bench {
namespace {

using Run = benchmark::BenchmarkReporter::Run;

double counter(const Run &run, const char *name) {
    auto found = run.counters.find(name);
    return found == run.counters.end() ? 0 : static_cast<double>(found->second.value);
}

Samples over(const std::vector<Run> &runs, const char *name) {
    std::vector<double> values;
    for (const Run &run : runs)
        values.push_back(counter(run, name));
    return summarize(values);
}

const char *plural(int count) { return count == 1 ? "" : "s"; }

void warn(const std::string &warning) {
    if (!warning.empty())
        std::printf("WARNING: %s\n", warning.c_str());
}

void print_line(const std::string &name, const Result &result, double flops, double bytes) {
    const Samples &share = result.of_limit, &price = result.price;
    std::printf("%-80s %9s %9s %9s %3.0f%% %5.2f%c(%.2f, %.2f)", name.c_str(), format_time(result.seconds.median).c_str(),
                format_rate(flops).c_str(), format_rate(bytes).c_str(), 100 * result.quiet.median, share.median,
                result.is_quiet() ? ' ' : '?', share.min, share.max);
    if (price.median > 0)
        std::printf(" %11.2f (%.2f, %.2f)", price.median, price.min, price.max);
    std::printf("\n");
}

} // namespace

bool Reporter::ReportContext(const Context &) {
    for (const auto &[key, value] : context_)
        std::printf("%-28s %s\n", key.c_str(), value.c_str());
    std::printf("of_limit: share of the FMA peak right before and after, or of the read bandwidth of a working set as large, if "
                "that allows less\n");
    std::printf(
        "quiet: share of the time that counts, without slices of 0.5 ms beside which something else ran on the same cores\n");
    std::printf("price: time over that of the plain call, without the option, of as much useful work, measured before and after\n");
    warn(noise_warning());
    std::printf("\n%-80s %9s %9s %9s quiet of_limit (least, best) price (least, most)\n", "benchmark, medians", "time", "GFLOP/s",
                "GB/s");
    std::fflush(stdout);
    return true;
}

void Reporter::ReportRuns(const std::vector<Run> &runs) {
    if (runs.empty() || runs.front().run_type == Run::RT_Aggregate)
        return;
    const std::string name = runs.front().run_name.str();
    const auto failed = std::find_if(runs.begin(), runs.end(), [](const Run &run) { return run.error_occurred; });
    end_progress();
    if (failed != runs.end()) {
        failures_++;
        std::printf("%-80s FAILED: %s\n", name.c_str(), failed->error_message.c_str());
    } else {
        results_.add(
            {&benchmark_of(name), over(runs, "seconds"), over(runs, "of_limit"), over(runs, "price"), over(runs, "quiet")});
        print_line(name, results_.all().back(), over(runs, "GFLOPS").median, over(runs, "GBps").median);
    }
    std::fflush(stdout);
    report_progress();
}

void Reporter::Finalize() {
    print_tables(results_);
    std::printf("\nFMA peaks measured around the benchmarks:\n");
    for (const Noise &each : noise())
        if (each.later.count > 0)
            std::printf("%-10s %2d thread%-1s %9.1f GFLOP/s at least, %9.1f median, %9.1f at most; %9.1f at the start\n",
                        each.isa.c_str(), each.threads, plural(each.threads), each.later.min / 1e9, each.later.median / 1e9,
                        each.later.max / 1e9, each.start.max / 1e9);
    warn(results_.unrest());
    if (failures_)
        std::printf("%d benchmark%s FAILED\n", failures_, plural(failures_));
    std::fflush(stdout);
}

} // namespace bench
