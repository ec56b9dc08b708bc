/* A race: both results are checked, then heed and the peer take turns, so that whatever happens to the machine happens to both. */
#include "peers.h"

#include "../format.h"
#include "../quiet.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <regex>
#include <stdexcept>
#include <thread>

namespace peers {
namespace {

using Call = std::function<void()>;

/* The deviation from the exact result, as a share of its largest element, that a float computation of these sizes can have: for
 * 4096 terms of random sign it is some 1e-6; reduced precision that nobody asked for (TF32, bf16) has 1e-3 and more. */
const double tolerance = 5e-5;
/* Keys and values that the peer holds in 16 bits because it is at its best with them, and says so in its name.  ggml adds up in
 * 16 bits too, and is off by 0.044 over 32768 keys. */
const double tolerance_f16 = 0.1;
/* Rows of 8 bits with a scale for every 32, which the peer makes of activations where weights are in blocks, and heed if it is
 * asked to. */
const double tolerance_blocks = 0.02;
/* Results of bf16 are off by 2^-9, and so is each of the factors of an output. */
const double tolerance_bf16 = 0.02;

double seconds_of(const Call &call, int64_t times) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < times; i++)
        call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(times);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/* As JSON has it: nothing in these names needs more. */
std::string quoted(const std::string &text) {
    std::string result = "\"";
    for (char c : text)
        result += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c == '\n' ? ' ' : c);
    return result + "\"";
}

struct Sample {
    double seconds;
    bool quiet;
};

/* A sample: as many calls as fill `slice`. */
class Side {
  public:
    Side(Call call, double slice, int threads) : call_(std::move(call)), threads_(threads) {
        seconds_of(call_, 2); /* warm: pages, caches, kernels generated at the first call */
        for (times_ = 1; times_ < (int64_t{1} << 30); times_ *= 2)
            if (seconds_of(call_, times_) * static_cast<double>(times_) >= slice / 2)
                break;
    }
    /* Seconds, and whether the cores were quiet before and after.  The other side's threads spin for a while before they sleep, on
     * CPUs that this side's want: libgomp's for some 10 ms, those of ONNX Runtime for 2^20 pauses, 66 ms where a pause takes 140
     * cycles.  So would those that look whether all cores are quiet before. */
    Sample sample() {
        if (threads_ > 1)
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const bool quiet_before = cores_are_quiet(1);
        warm();
        const double seconds = seconds_of(call_, times_);
        return {seconds, cores_are_quiet(threads_) && quiet_before};
    }

  private:
    /* Has what the other side threw out of the caches brought back; and threads that slept, which Linux lets begin on the CPU of
     * the one that wakes them, moved to CPUs of their own: until then each call may wait for the next tick, 4 ms. */
    void warm() {
        const double moved = 0.03;
        if (times_ > 1 || threads_ > 1)
            call_();
        for (double spent = 0; threads_ > 1 && spent < moved;)
            spent += seconds_of(call_, 1);
    }

    Call call_;
    int threads_;
    int64_t times_ = 1;
};

struct Turn {
    Sample heed, peer;
    double ratio() const { return peer.seconds / heed.seconds; }
    bool is_quiet() const { return heed.quiet && peer.quiet; }
};

double median_of(const std::vector<Turn> &turns, double (*figure)(const Turn &turn)) {
    std::vector<double> values;
    std::transform(turns.begin(), turns.end(), std::back_inserter(values), figure);
    return median(std::move(values));
}

} // namespace

/* Medians; the ratios are the peer's time over heed's right before.  quiet: turns beside which something else ran on the same cores
 * are left out. */
struct Races::Times {
    Times(const std::vector<Turn> &turns, bool are_quiet)
        : heed(median_of(turns, [](const Turn &turn) { return turn.heed.seconds; })),
          peer(median_of(turns, [](const Turn &turn) { return turn.peer.seconds; })),
          ratio(median_of(turns, [](const Turn &turn) { return turn.ratio(); })), quiet(are_quiet) {
        for (const Turn &turn : turns) {
            least = std::min(least, turn.ratio());
            most = std::max(most, turn.ratio());
        }
    }
    double heed, peer, ratio, least = std::numeric_limits<double>::infinity(), most = 0;
    bool quiet;
};

Races::Races(std::string peer, std::string version, int argc, char **argv) : peer_(std::move(peer)), version_(std::move(version)) {
    std::string filter;
    for (int i = 1; i < argc; i++) {
        const std::string option = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
        brief_ |= option == "--short";
        if (option == "--threads")
            threads_ = std::atoi(value.c_str());
        if (option == "--filter")
            filter = value;
        if (option == "--records")
            records_ = value;
    }
    const std::regex wanted(filter);
    for (Shape shape : list_of_work(brief_)) {
        shape.threads = threads_;
        if (std::regex_search(group_of(shape) + "/" + name_of(shape) + "/threads:" + std::to_string(threads_), wanted))
            list_.push_back(shape);
    }
    std::printf("\n%s, %s, %d thread%s\n", peer_.c_str(), version_.c_str(), threads_, threads_ == 1 ? "" : "s");
    std::fflush(stdout);
}

Races::~Races() = default;

const Shape &Races::start(size_t index) {
    work_.reset(); /* before the next: two sets of the largest would be much memory */
    work_ = make_work(list_.at(index));
    return work_->shape();
}

bool Races::is_right(const char *who, const std::string &variant, double error) {
    const bool half = who == peer_ && variant.find(" f16") != std::string::npos;
    const bool rounds = work_->shape().kind == gemm_blocks && (who == peer_ || work_->shape().as_i8);
    if (error <= (half ? tolerance_f16 : rounds ? tolerance_blocks : work_->shape().bf16 ? tolerance_bf16 : tolerance))
        return true;
    failures_++;
    std::printf("%-16s %-22s %-28s WRONG: the result of %s is off by %.2g\n", group_of(work_->shape()).c_str(),
                name_of(work_->shape()).c_str(), variant.c_str(), who, error);
    std::fflush(stdout);
    return false;
}

Races::Times Races::time(const Call &call) const {
    const double slice = brief_ ? 0.5e-3 : 5e-3;
    Side heed([this] { work_->call_heed(); }, slice, threads_), peer(call, slice, threads_);
    std::vector<Turn> turns, quiet;
    const size_t few = 3, wanted = brief_ ? few : 9, most = brief_ ? few : 4 * wanted;
    while (quiet.size() < wanted && turns.size() < most) {
        const Sample first = heed.sample();
        turns.push_back({first, peer.sample()});
        if (turns.back().is_quiet())
            quiet.push_back(turns.back());
        /* Three turns of a peer that takes twice as long settle which is faster. */
        if (turns.size() == few && median_of(turns, [](const Turn &turn) { return turn.ratio(); }) > 2)
            break;
    }
    return quiet.size() >= few ? Times(quiet, true) : Times(turns, false);
}

void Races::race(const std::string &variant, const Call &call, const Call &fetch) {
    const Shape &shape = work_->shape();
    std::fill_n(shape.output, output_floats(shape), std::numeric_limits<float>::quiet_NaN());
    work_->call_heed();
    call();
    if (fetch)
        fetch();
    const double error = work_->error_of(shape.output);
    if (is_right("heed", variant, work_->error_of(work_->heed_output())) && is_right(peer_.c_str(), variant, error))
        record(variant, time(call), error);
}

void Races::cannot(const std::string &variant, const std::string &why) {
    std::printf("%-16s %-22s %-28s cannot: %s\n", group_of(work_->shape()).c_str(), name_of(work_->shape()).c_str(),
                variant.c_str(), why.c_str());
    std::fflush(stdout);
}

void Races::record(const std::string &variant, const Times &times, double error) {
    const Shape &shape = work_->shape();
    const std::string group = group_of(shape), name = name_of(shape);
    std::printf("%-16s %-22s %-28s %9s, heed %9s: %6.2f%c(%.2f, %.2f)\n", group.c_str(), name.c_str(), variant.c_str(),
                bench::format_time(times.peer).c_str(), bench::format_time(times.heed).c_str(), times.ratio,
                times.quiet ? ' ' : '?', times.least, times.most);
    std::fflush(stdout);
    if (records_.empty())
        return;
    char numbers[320];
    std::snprintf(
        numbers, sizeof numbers,
        "\"isa\": \"%s\", \"threads\": %d, \"flops\": %.0f, \"heed_seconds\": %.6g, \"peer_seconds\": %.6g, \"ratio\": %.4f, "
        "\"least\": %.4f, \"most\": %.4f, \"quiet\": %s, \"error\": %.3g",
        heed_isa().c_str(), threads_, flops_of(shape), times.heed, times.peer, times.ratio, times.least, times.most,
        times.quiet ? "true" : "false", error);
    std::ofstream(records_, std::ios::app) << "{\"group\": " << quoted(group) << ", \"work\": " << quoted(name)
                                           << ", \"peer\": " << quoted(peer_) << ", \"version\": " << quoted(version_)
                                           << ", \"variant\": " << quoted(variant) << ", " << numbers << "}\n";
}

int run_all(Races &races, void (*run)(Races &races, const Shape &shape)) {
    for (size_t i = 0; i < races.list().size(); i++) {
        const Shape &shape = races.start(i);
        try {
            run(races, shape);
        } catch (const std::exception &problem) {
            races.cannot("", problem.what());
        }
    }
    return races.failures() ? 1 : 0;
}

} // namespace peers
