/* Which machine and which build the figures belong to. */
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <thread>

#include "limits.h"
#include "report.h"

namespace bench {
namespace {

/* Linux tells the model's name on x86, which a virtual machine may shorten to a brand, and only numbers on most ARM systems. */
std::string cpu_name() {
    std::ifstream file("/proc/cpuinfo");
    std::map<std::string, std::string> facts; /* of the first CPU */
    for (std::string line; std::getline(file, line);) {
        const size_t colon = line.find(':');
        if (colon != std::string::npos)
            facts.emplace(line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1),
                          line.substr(std::min(line.size(), colon + 2)));
    }
    if (facts.count("model name"))
        return facts["model name"] + ", family " + facts["cpu family"] + " model " + facts["model"];
    struct utsname names;
    std::string architecture = uname(&names) == 0 ? names.machine : "unknown";
    if (facts.count("CPU implementer"))
        architecture += ", implementer " + facts["CPU implementer"] + ", part " + facts["CPU part"];
    return architecture;
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

std::string spread(const Samples &samples, const char *unit) {
    char text[120];
    std::snprintf(text, sizeof text, "min %6.1f, median %6.1f, max %6.1f %s, %d times", samples.min / 1e9, samples.median / 1e9,
                  samples.max / 1e9, unit, samples.count);
    return text;
}

} // namespace

std::vector<Level> read_levels(const std::string &isa, int threads) {
    struct heed_info info = {};
    heed_info(&info);
    std::vector<Level> levels;
    const char *names[] = {"L1", "L2", "L3"};
    /* As far outside as memory allows: some servers report an L3 that is larger than what they give to one machine. */
    const double most = std::min(512e6, 0.125 * static_cast<double>(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)));
    for (int level = 0; level < 3; level++) {
        int sharers = level < 2 ? threads : 1; /* L1 and L2 belong to one core, half of each is surely there */
        double bytes = std::min(most, static_cast<double>(info.cache_bytes[level] / 2 * sharers));
        if (bytes > 0)
            levels.push_back({names[level], measure_reads(isa, threads, bytes)});
    }
    levels.push_back({"memory", measure_reads(isa, threads, most)});
    return levels;
}

std::string machine_line() {
    std::time_t now = std::time(nullptr);
    char date[32];
    std::strftime(date, sizeof date, "%Y-%m-%d", std::localtime(&now));
    return cpu_name() + "; " + compiler() + "; heed " + HEED_VERSION + "; " + date;
}

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
            for (const Level &level : read_levels(plan.isas[0], threads))
                context.emplace_back("read/" + plan.isas[0] + "/threads:" + std::to_string(threads) + "/" + level.name,
                                     spread(level.rates, "GB/s"));
    for (const Noise &each : noise())
        context.emplace_back("fma/" + each.isa + "/f32/threads:" + std::to_string(each.threads), spread(each.start, "GFLOP/s"));
    return context;
}

} // namespace bench
