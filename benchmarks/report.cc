/* Collects the runs of each benchmark and prints them as tables with the instruction sets side by side. */
#include "report.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace bench {
namespace {

using Run = benchmark::BenchmarkReporter::Run;

/* A peak that moves by more than this between measurements a few milliseconds long is a machine with other things to do. */
const double steady = 0.05;

double counter(const Run &run, const char *name) {
    auto found = run.counters.find(name);
    return found == run.counters.end() ? 0 : static_cast<double>(found->second.value);
}

Samples over(const std::vector<Run> &runs, const std::function<double(const Run &)> &value) {
    std::vector<double> values;
    for (const Run &run : runs)
        values.push_back(value(run));
    return summarize(values);
}

std::string format_time(double nanoseconds) {
    const char *units[] = {"ns", "us", "ms", "s"};
    int unit = 0;
    for (; nanoseconds >= 1000 && unit < 3; unit++)
        nanoseconds /= 1000;
    char text[32];
    std::snprintf(text, sizeof text, "%.*f %s", nanoseconds < 100 ? 1 : 0, nanoseconds, units[unit]);
    return text;
}

const char *plural(int count) { return count == 1 ? "" : "s"; }

/* Whether measurements of one peak lie far from its best; the later ones show a machine that has sped up or slowed down. */
bool unsteady(const Noise &noise) {
    double min = noise.later.count ? std::min(noise.start.median, noise.later.median) : noise.start.median;
    double max = noise.later.count ? std::max(noise.start.max, noise.later.max) : noise.start.max;
    return max - min > steady * max;
}

void warn_if_noisy() {
    for (const Noise &each : noise())
        if (unsteady(each)) {
            std::printf("WARNING: this machine is too noisy to believe: the FMA peak of %s moves by more than %.0f %%\n",
                        each.isa.c_str(), steady * 100);
            return;
        }
}

/* A rate or ratio with about three digits; a dash for what was not counted. */
std::string format_rate(double rate) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", rate < 1 ? 3 : rate < 10 ? 2 : 1, rate);
    return rate > 0 ? text : "-";
}

} // namespace

bool Reporter::ReportContext(const Context &) {
    for (const auto &[key, value] : context_)
        std::printf("%-28s %s\n", key.c_str(), value.c_str());
    std::printf("of_limit: share of the FMA peak right before and after, or of the read bandwidth of a working set as large, if "
                "that allows less\n");
    std::printf("price: time over that of the plain call, without the option, of as much useful work, measured before and after\n");
    warn_if_noisy();
    std::printf("\n%-80s %9s %9s %9s of_limit (least, best) price (least, most)\n", "benchmark, medians", "time", "GFLOP/s",
                "GB/s");
    std::fflush(stdout);
    return true;
}

void Reporter::ReportRuns(const std::vector<Run> &runs) {
    if (runs.empty() || runs.front().run_type == Run::RT_Aggregate)
        return;
    std::string name = runs.front().run_name.str();
    for (const Run &run : runs)
        if (run.error_occurred) {
            failures_++;
            std::printf("%-80s FAILED: %s\n", name.c_str(), run.error_message.c_str());
            std::fflush(stdout);
            return;
        }
    double time = over(runs, [](const Run &run) { return run.real_accumulated_time / static_cast<double>(run.iterations); }).median;
    Samples flops = over(runs, [](const Run &run) { return counter(run, "GFLOPS"); });
    Samples bytes = over(runs, [](const Run &run) { return counter(run, "GBps"); });
    Samples share = over(runs, [](const Run &run) { return counter(run, "of_limit"); });
    Samples price = over(runs, [](const Run &run) { return counter(run, "price"); });
    std::printf("%-80s %9s %9s %9s %5.2f (%.2f, %.2f)", name.c_str(), format_time(time * 1e9).c_str(),
                format_rate(flops.median).c_str(), format_rate(bytes.median).c_str(), share.median, share.min, share.max);
    if (price.median > 0)
        std::printf(" %11.2f (%.2f, %.2f)", price.median, price.min, price.max);
    std::printf("\n");
    std::fflush(stdout);
    remember(name, flops.median > 0 ? Result{"GFLOP/s", flops, share, price} : Result{"GB/s", bytes, share, price});
}

/* name: group/isa/dtype/shape/threads:n */
void Reporter::remember(const std::string &name, const Result &result) {
    std::vector<std::string> words;
    std::istringstream stream(name);
    for (std::string word; std::getline(stream, word, '/');)
        words.push_back(word);
    Group &group = groups_[words[0] + ", " + words[2] + ", " + words[4] + ": " + result.unit];
    if (std::find(group.shapes.begin(), group.shapes.end(), words[3]) == group.shapes.end())
        group.shapes.push_back(words[3]);
    group.results[{words[3], words[1]}] = result;
    group.has_prices |= result.price.median > 0;
}

/* The last number is the price where the group has prices; else the ratio to base, the scalar kernels' rate for the same request,
 * or 0. */
std::string Reporter::cell(const Result &result, double base, bool has_prices) {
    double ratio = has_prices ? result.price.median : base > 0 ? result.rate.median / base : 0;
    char text[64], times[24] = "-";
    if (ratio > 0)
        std::snprintf(times, sizeof times, "%.*fx", has_prices ? 2 : ratio < 10 ? 1 : 0, ratio);
    std::snprintf(text, sizeof text, "%s %5.2f %7s", format_rate(result.rate.median).c_str(), result.of_limit.median, times);
    return text;
}

void Reporter::print_group(const std::string &title, const Group &group) const {
    std::vector<std::string> isas;
    for (const std::string &isa : plan_.isas)
        if (std::any_of(group.results.begin(), group.results.end(), [&](const auto &each) { return each.first.second == isa; }))
            isas.push_back(isa);
    std::printf("\n%s, of_limit, %s\n%-50s", title.c_str(), group.has_prices ? "price" : "ratio to scalar", "");
    for (const std::string &isa : isas)
        std::printf("  %22s", isa.c_str());
    for (const std::string &shape : group.shapes) {
        std::printf("\n%-50s", shape.c_str());
        auto scalar = group.results.find({shape, "scalar"});
        double base = scalar == group.results.end() ? 0 : scalar->second.rate.median;
        for (const std::string &isa : isas) {
            auto found = group.results.find({shape, isa});
            std::printf("  %22s", found == group.results.end() ? "-" : cell(found->second, base, group.has_prices).c_str());
        }
    }
    std::printf("\n");
}

void Reporter::Finalize() {
    for (const auto &[title, group] : groups_)
        print_group(title, group);
    std::printf("\nFMA peaks measured around the benchmarks:\n");
    for (const Noise &each : noise())
        if (each.later.count > 0)
            std::printf("%-10s %2d thread%-1s %9.1f GFLOP/s at most, %9.1f median, %9.1f at least; %9.1f at the start\n",
                        each.isa.c_str(), each.threads, plural(each.threads), each.later.max / 1e9, each.later.median / 1e9,
                        each.later.min / 1e9, each.start.max / 1e9);
    warn_if_noisy();
    if (failures_)
        std::printf("%d benchmark%s FAILED\n", failures_, plural(failures_));
    std::fflush(stdout);
}

} // namespace bench
