/* See results.h. */
#include "results.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace bench {
namespace {

bool is_on(const Result &result, const std::string &group, const std::string &isa, int threads) {
    return result.request().group == group && result.benchmark->isa == isa && result.benchmark->threads == threads;
}

double size_of(const Request &request) { return request.figure == Figure::bytes ? request.bytes : request.flops; }

} // namespace

const Result *Results::find(const Request &request, const std::string &isa, int threads) const {
    for (const Result &result : all_)
        if (is_on(result, request.group, isa, threads) && result.request().dtype_and_shape() == request.dtype_and_shape())
            return &result;
    return nullptr;
}

const Result *Results::nearest(const Request &request, const std::string &isa, int threads) const {
    const Result *best = find(request, isa, threads);
    if (best)
        return best;
    const auto distance = [&request](const Result &result) {
        return std::fabs(std::log(size_of(result.request()) / size_of(request)));
    };
    for (const Result &result : all_)
        if (is_on(result, request.group, isa, threads) && result.request().figure == request.figure &&
            (!best || distance(result) < distance(*best)))
            best = &result;
    return best;
}

std::string Results::unrest() const {
    const auto count = std::count_if(all_.begin(), all_.end(), [](const Result &result) { return !result.is_quiet(); });
    return count == 0 ? ""
                      : std::to_string(count) + " of " + std::to_string(all_.size()) +
                            " figures, marked ?, are not to be believed: this machine was busy with something else";
}

std::string figure_of(const Result &result) {
    switch (result.request().figure) {
    case Figure::bytes:
        return format_rate(result.gbps()) + " GB/s";
    case Figure::time:
        return format_time(result.seconds.median);
    default:
        return format_rate(result.gflops()) + " GFLOP/s";
    }
}

} // namespace bench
