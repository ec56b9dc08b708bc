/* The races for peers of Python: the same work, checks and clocks; what is timed is a callback into Python, so that a call there
 * costs what it costs a user of that library.  heed's own calls do not pass through Python. */
#include <cstdio>
#include <exception>

#include "peers.h"

using peers::Races;
using peers::Shape;

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT Races *peers_open(const char *peer, const char *version, int argc, char **argv);
EXPORT int64_t peers_count(const Races *races);
EXPORT const Shape *peers_start(Races *races, int64_t index);
EXPORT void peers_race(Races *races, const char *variant, void (*call)(), void (*fetch)());
EXPORT void peers_cannot(Races *races, const char *variant, const char *why);
EXPORT int peers_close(Races *races);

namespace {

/* No exception may cross into Python. */
template <class Result, class Body> Result guarded(Result otherwise, const Body &body) {
    try {
        return body();
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return otherwise;
    }
}

} // namespace

/* NULL after an error, which is on standard error then. */
Races *peers_open(const char *peer, const char *version, int argc, char **argv) {
    return guarded<Races *>(nullptr, [&] { return new Races(peer, version, argc, argv); });
}

int64_t peers_count(const Races *races) { return static_cast<int64_t>(races->list().size()); }

const Shape *peers_start(Races *races, int64_t index) {
    return guarded<const Shape *>(nullptr, [&] { return &races->start(static_cast<size_t>(index)); });
}

void peers_race(Races *races, const char *variant, void (*call)(), void (*fetch)()) {
    guarded(0, [&] {
        races->race(variant, call, fetch ? std::function<void()>(fetch) : nullptr);
        return 0;
    });
}

void peers_cannot(Races *races, const char *variant, const char *why) { races->cannot(variant, why); }

/* Returns the number of wrong results. */
int peers_close(Races *races) {
    const int failures = races->failures();
    delete races;
    return failures;
}
