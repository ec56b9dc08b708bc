/* See pictures.h. */
#include "pictures.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace bench {

const char *isa_colour(const std::string &isa) {
    struct heed_info info = {};
    heed_info(&info);
    size_t index = 0;
    while (info.compiled[index] && isa != info.compiled[index])
        index++;
    return colour(index);
}

size_t group_index(const Scene &scene, const std::string &group) {
    return static_cast<size_t>(std::find(scene.groups.begin(), scene.groups.end(), group) - scene.groups.begin());
}

void draw_groups(Svg &svg, Point start, const Scene &scene, const std::vector<const Result *> &drawn) {
    Legend legend(svg, start);
    for (size_t i = 0; i < scene.groups.size(); i++)
        if (std::any_of(drawn.begin(), drawn.end(), [&](const Result *each) { return each->request().group == scene.groups[i]; }))
            legend.mark(scene.groups[i], marker(i), colour(i));
}

std::string tip_of(const Result &result) {
    char share[32];
    std::snprintf(share, sizeof share, ", %.2f of the limit", result.of_limit.median);
    return result.benchmark->name() + ": " + figure_of(result) + share;
}

bool write_pictures(const Scene &scene, const std::string &folder) {
    const struct {
        const char *what;
        std::vector<Picture> (*draw)(const Scene &scene);
    } kinds[] = {
        {"roofline", draw_rooflines}, {"of_limit by length", draw_lengths}, {"threads", draw_scaling}, {"ISAs", draw_isas}};
    bool written = true;
    std::error_code ignored; /* writing tells */
    std::filesystem::create_directories(folder, ignored);
    std::printf("\n");
    for (const auto &kind : kinds) {
        const std::vector<Picture> pictures = kind.draw(scene);
        if (pictures.empty())
            std::printf("no picture of %s: this run has nothing to show there\n", kind.what);
        for (const Picture &picture : pictures) {
            const std::string path = folder + "/" + picture.file;
            std::ofstream file(path);
            file << picture.text << std::flush;
            std::printf("%s%s\n", file ? "picture: " : "cannot write ", path.c_str());
            written = written && file;
        }
    }
    return written;
}

} // namespace bench
