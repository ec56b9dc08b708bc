/* Which machine and which build the figures belong to. */
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "limits.h"
#include "report.h"

namespace bench {
namespace {

/* Linux tells the model's name on x86, and only numbers on most ARM systems. */
std::string cpu_name() {
    std::ifstream file("/proc/cpuinfo");
    std::string line, implementer, part;
    auto value = [&line] { return line.substr(std::min(line.size(), line.find(':') + 2)); };
    while (std::getline(file, line)) {
        if (line.compare(0, 10, "model name") == 0)
            return value();
        if (line.compare(0, 15, "CPU implementer") == 0)
            implementer = value();
        if (line.compare(0, 8, "CPU part") == 0)
            part = value();
    }
    struct utsname names;
    std::string architecture = uname(&names) == 0 ? names.machine : "unknown";
    return implementer.empty() ? architecture : architecture + ", implementer " + implementer + ", part " + part;
}

std::string compiler() {
#ifdef __clang__
    return __VERSION__;
#else
    return "gcc " __VERSION__;
#endif
}

std::string sizes(const int64_t (&bytes)[3]) {
    char text[96];
    std::snprintf(text, sizeof text, "L1 data %lld KiB, L2 %lld KiB, L3 %lld KiB", static_cast<long long>(bytes[0] >> 10),
                  static_cast<long long>(bytes[1] >> 10), static_cast<long long>(bytes[2] >> 10));
    return text;
}

/* Reads from inside each cache and from far outside, in GB/s. */
std::string bandwidths(const std::string &isa, int threads, const int64_t (&cache_bytes)[3]) {
    std::ostringstream text;
    text.precision(3);
    const char *names[] = {"L1", "L2", "L3"};
    /* As far outside as memory allows: some servers report an L3 that is larger than what they give to one machine. */
    const double most = std::min(512e6, 0.125 * static_cast<double>(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)));
    for (int level = 0; level < 3; level++) {
        int sharers = level < 2 ? threads : 1; /* L1 and L2 belong to one core, half of each is surely there */
        double bytes = std::min(most, static_cast<double>(cache_bytes[level] / 2 * sharers));
        if (bytes > 0)
            text << names[level] << ' ' << read_limit(isa, threads, bytes) / 1e9 << ", ";
    }
    text << "memory " << read_limit(isa, threads, most) / 1e9 << " GB/s";
    return text.str();
}

std::string peak(const Samples &samples) {
    char text[96];
    std::snprintf(text, sizeof text, "%.1f GFLOP/s best of %d, %.1f median, %.1f least", samples.max / 1e9, samples.count,
                  samples.median / 1e9, samples.min / 1e9);
    return text;
}

} // namespace

std::vector<std::pair<std::string, std::string>> machine_context(const Plan &plan) {
    struct heed_info info = {};
    heed_info(&info);
    double load = 0;
    getloadavg(&load, 1);
    std::vector<std::pair<std::string, std::string>> context = {
        {"cpu", cpu_name()},
        {"cpus", std::to_string(std::thread::hardware_concurrency()) + ", load " + std::to_string(load)},
        {"features", info.features},
        {"cache sizes", sizes(info.cache_bytes)},
        {"compiler", compiler()},
        {"heed", std::string(HEED_VERSION) + (info.openmp ? ", with OpenMP" : ", without OpenMP")},
    };
    if (!plan.brief)
        for (int threads : plan.threads)
            context.emplace_back("read/" + plan.isas[0] + "/threads:" + std::to_string(threads),
                                 bandwidths(plan.isas[0], threads, info.cache_bytes));
    for (const Noise &each : noise())
        context.emplace_back("fma/" + each.isa + "/f32/threads:" + std::to_string(each.threads), peak(each.start));
    return context;
}

} // namespace bench
