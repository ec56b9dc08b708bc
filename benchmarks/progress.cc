/* See progress.h.  What is left is estimated from the mean of what is done, so it is rough: large requests come in a row. */
#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

const double pause = 5; /* seconds between lines where lines cannot be written over */

struct {
    size_t benchmarks, done;
    Clock::time_point start, reported;
    bool on_terminal;
} progress;

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

std::string clock_time(double seconds) {
    const int whole = static_cast<int>(seconds);
    char text[32];
    std::snprintf(text, sizeof text, "%d:%02d", whole / 60, whole % 60);
    return text;
}

std::string state() {
    const double elapsed = seconds_since(progress.start);
    std::string text =
        std::to_string(progress.done) + " of " + std::to_string(progress.benchmarks) + " done after " + clock_time(elapsed);
    if (progress.done)
        text +=
            ", about " +
            clock_time(elapsed / static_cast<double>(progress.done) * static_cast<double>(progress.benchmarks - progress.done)) +
            " left";
    return text;
}

/* A longer line would wrap, and could not be written over. */
int columns() {
    struct winsize size = {};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

} // namespace

void start_progress(size_t benchmarks) { progress = {benchmarks, 0, Clock::now(), Clock::now(), isatty(STDERR_FILENO) == 1}; }

void begin_progress(const std::string &name) {
    if (progress.on_terminal) {
        const std::string line = "[" + state() + "] " + name;
        std::fprintf(stderr, "\r\033[K%.*s", columns() - 1, line.c_str());
        std::fflush(stderr);
    }
}

void end_progress() {
    progress.done++;
    if (progress.on_terminal) {
        std::fprintf(stderr, "\r\033[K");
        std::fflush(stderr);
    }
}

void report_progress() {
    if (progress.on_terminal || (seconds_since(progress.reported) < pause && progress.done < progress.benchmarks))
        return;
    progress.reported = Clock::now();
    std::printf("[%s]\n", state().c_str());
    std::fflush(stdout);
}

} // namespace bench
