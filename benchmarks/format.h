/* Numbers as people read them, for heed's own benchmarks and for those beside its peers. */
#ifndef HEED_BENCHMARKS_FORMAT_H
#define HEED_BENCHMARKS_FORMAT_H

#include <cstdio>
#include <string>

namespace bench {

/* About three digits; a dash for 0. */
inline std::string format_rate(double rate) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", rate < 1 ? 3 : rate < 10 ? 2 : 1, rate);
    return rate > 0 ? text : "-";
}

inline std::string format_time(double seconds) {
    const char *units[] = {"ns", "us", "ms", "s"};
    double value = seconds * 1e9;
    int unit = 0;
    for (; value >= 1000 && unit < 3; unit++)
        value /= 1000;
    char text[32];
    std::snprintf(text, sizeof text, "%.*f %s", value < 100 ? 1 : 0, value, units[unit]);
    return text;
}

} // namespace bench

#endif
