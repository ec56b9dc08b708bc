/* The pictures of a run, from its own results: a partial run draws what it has. */
#ifndef HEED_BENCHMARKS_PICTURES_H
#define HEED_BENCHMARKS_PICTURES_H

#include <string>
#include <vector>

#include "chart.h"
#include "results.h"

namespace bench {

struct Scene {
    const Results &results;
    std::vector<std::string> isas;   /* of the plan, best first */
    std::vector<int> threads;        /* 1, and all of the machine if it has more */
    std::vector<std::string> groups; /* of all that could have run, so that a group has one colour in all pictures */
    std::string caption;
};

struct Picture {
    std::string file, text;
};

/* Each draws nothing if the run has nothing for it. */
std::vector<Picture> draw_rooflines(const Scene &scene); /* one per instruction set */
std::vector<Picture> draw_lengths(const Scene &scene);
std::vector<Picture> draw_scaling(const Scene &scene);
std::vector<Picture> draw_isas(const Scene &scene);

/* Writes them all to a folder and says which there are; false if that fails. */
bool write_pictures(const Scene &scene, const std::string &folder);

/* The same on all machines and in all pictures, whichever were run. */
const char *isa_colour(const std::string &isa);
/* The legend of the groups that were drawn, as colours and markers. */
size_t group_index(const Scene &scene, const std::string &group);
void draw_groups(Svg &svg, Point start, const Scene &scene, const std::vector<const Result *> &drawn);
std::string tip_of(const Result &result);

} // namespace bench

#endif
