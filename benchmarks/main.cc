/* heed-bench: heed's kernels on every instruction set of this machine, held against what the machine can do.
 *
 *   heed-bench [--short] [Google Benchmark's options]
 *
 *   --short, or HEED_BENCH_SHORT=1   few small requests, a minute at most: does it run, and are its results right?
 *   BENCH_FILTER=regex               only benchmarks whose name matches, as --benchmark_filter
 *   HEED_BENCH_OUT=file              where the JSON goes, as --benchmark_out [build/bench.json; build/bench-short.json if short]
 *   HEED_ISA=name                    only that instruction set
 *
 * The pictures go to a folder beside the JSON file, named like it without its ending: build/bench/roofline-avx512.svg.
 *
 * The exit status is 1 if a result was wrong, a call failed or a picture could not be written, 2 if nothing could be run. */
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "bench.h"
#include "first_call.h"
#include "limits.h"
#include "pictures.h"
#include "progress.h"
#include "report.h"

namespace {

const std::string listing = "--benchmark_list_tests";

std::string environment(const char *name, const std::string &otherwise) {
    const char *value = std::getenv(name);
    return value && *value ? value : otherwise;
}

bool has_option(const std::vector<std::string> &words, const std::string &option) {
    return std::any_of(words.begin(), words.end(), [&](const std::string &word) { return word.rfind(option, 0) == 0; });
}

/* Repetitions and times are given as options because Google Benchmark writes those set in code into the names. */
void add_defaults(std::vector<std::string> &words, bool brief) {
    auto add = [&words](const std::string &option, const std::string &value) {
        if (!value.empty() && !has_option(words, option + "="))
            words.push_back(option + "=" + value);
    };
    add("--benchmark_repetitions", brief ? "3" : "9");
    add("--benchmark_min_time", brief ? "0.001" : "0.05");
    add("--benchmark_filter", environment("BENCH_FILTER", ""));
    if (!has_option(words, listing)) /* which, too, would empty the file */
        add("--benchmark_out", environment("HEED_BENCH_OUT", brief ? "build/bench-short.json" : "build/bench.json"));
}

std::filesystem::path output_of(const std::vector<std::string> &words) {
    const std::string option = "--benchmark_out=";
    for (const std::string &word : words)
        if (word.rfind(option, 0) == 0)
            return word.substr(option.size());
    return {};
}

/* Google Benchmark does not make the folder of its output. */
void make_folder(const std::filesystem::path &output) {
    std::error_code ignored; /* Google Benchmark says that it cannot write */
    std::filesystem::create_directories(output.parent_path(), ignored);
}

/* Takes the options that are Google Benchmark's; false if there are others. */
bool initialize(std::vector<std::string> &words) {
    std::vector<char *> arguments;
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int count = static_cast<int>(words.size());
    benchmark::Initialize(&count, arguments.data());
    return !benchmark::ReportUnrecognizedArguments(count, arguments.data());
}

bool make_plan(bool brief, bench::Plan &plan) {
    struct heed_info info = {};
    if (heed_info(&info) != HEED_OK) {
        std::fprintf(stderr, "heed-bench: %s\n", heed_error_message());
        return false;
    }
    plan.brief = brief;
    if (!environment("HEED_ISA", "").empty())
        plan.isas = {info.isa};
    else
        for (const char *const *isa = info.usable; *isa; isa++)
            plan.isas.push_back(*isa);
    plan.threads = {1};
    if (info.threads > 1)
        plan.threads.push_back(info.threads);
    return true;
}

bool measure_limits(const bench::Plan &plan) {
    for (const std::string &isa : plan.isas)
        for (int threads : plan.threads)
            if (!bench::measure_flops_limit(isa, threads, plan.brief ? 5 : 25)) {
                std::fprintf(stderr, "heed-bench: benchmarks/ has no limits_%s.c\n", isa.c_str());
                return false;
            }
    return true;
}

/* As many as Google Benchmark would list: it alone knows what its filter lets through. */
size_t count_benchmarks() {
    std::vector<std::string> on = {"heed-bench", listing + "=true"}, off = {"heed-bench", listing + "=false"};
    std::ostringstream names;
    benchmark::ConsoleReporter reporter;
    reporter.SetOutputStream(&names);
    initialize(on);
    const size_t count = benchmark::RunSpecifiedBenchmarks(&reporter);
    initialize(off);
    return count;
}

int list() { return benchmark::RunSpecifiedBenchmarks() == 0 ? 2 : 0; }

/* The last thing of a run, for it says how noisy that was. */
bool draw(const bench::Plan &plan, const bench::Results &results, std::filesystem::path output) {
    const std::string unrest = results.unrest();
    bench::Scene scene = {results, plan.isas, plan.threads, bench::groups(), bench::machine_line()};
    if (!unrest.empty())
        scene.caption += "\n" + unrest;
    return bench::write_pictures(scene, output.replace_extension("").string());
}

int run(const bench::Plan &plan, const std::filesystem::path &output) {
    bench::start_progress(count_benchmarks());
    if (!measure_limits(plan))
        return 2;
    bench::Reporter reporter(plan);
    for (const auto &[key, value] : reporter.context())
        benchmark::AddCustomContext(key, value);
    if (benchmark::RunSpecifiedBenchmarks(&reporter) == 0)
        return 2;
    const bool drawn = draw(plan, reporter.results(), output);
    return reporter.failures() || !drawn ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) {
    bench::FirstCalls first_calls;
    std::vector<std::string> words(argv, argv + argc);
    auto end = std::remove(words.begin(), words.end(), "--short");
    bool brief = end != words.end() || environment("HEED_BENCH_SHORT", "0") != "0";
    words.erase(end, words.end());
    add_defaults(words, brief);
    make_folder(output_of(words));
    bench::Plan plan;
    if (!initialize(words) || !make_plan(brief, plan))
        return 2;
    bench::add_gemm(plan);
    bench::add_linear(plan);
    bench::add_linear_group(plan);
    bench::add_softmax(plan);
    bench::add_rows(plan);
    bench::add_attention(plan);
    bench::add_options(plan);
    bench::add_decode(plan);
    bench::add_cache(plan);
    bench::add_first_call(plan, first_calls);
    int status = has_option(words, listing) ? list() : run(plan, output_of(words));
    benchmark::Shutdown();
    return status;
}
