/* The instruction sets side by side, for the requests that stand for their kind. */
#include "pictures.h"

#include <algorithm>
#include <cstdio>

namespace bench {
namespace {

const double width = 1000, left = 300, right = 760, top = 110, bar = 13, gap = 14;

struct Row {
    std::string label;
    std::vector<const Result *> results; /* best instruction set first */
};

std::vector<Row> rows_of(const Scene &scene) {
    std::vector<Row> rows;
    for (const Result &result : scene.results.all()) {
        const Request &request = result.request();
        const auto same = [&request](const Row &row) { return row.label == request.label; };
        if (request.label.empty() || result.benchmark->threads != 1 || std::any_of(rows.begin(), rows.end(), same))
            continue;
        rows.push_back({request.label, {}});
        for (const std::string &isa : scene.isas)
            if (const Result *found = scene.results.find(request, isa, 1))
                rows.back().results.push_back(found);
    }
    return rows;
}

bool has(const Row &row, const std::string &isa) {
    return std::any_of(row.results.begin(), row.results.end(), [&isa](const Result *each) { return each->benchmark->isa == isa; });
}

/* Bars are as long as the speed, as a share of the row's fastest. */
double draw_row(Svg &svg, const Row &row, double y) {
    double fastest = row.results[0]->seconds.median;
    for (const Result *result : row.results)
        fastest = std::min(fastest, result->seconds.median);
    svg.text({left - 10, y + bar * static_cast<double>(row.results.size()) / 2 + 4}, row.label, {13, "end", ink, false, 0});
    for (const Result *result : row.results) {
        const double end = left + std::max(1.0, (right - left) * fastest / result->seconds.median);
        svg.rectangle({left, y, end, y + bar - 1.5}, isa_colour(result->benchmark->isa));
        char share[32] = "";
        if (result->request().figure != Figure::time)
            std::snprintf(share, sizeof share, ", %.2f of its limit", result->of_limit.median);
        svg.text({end + 6, y + bar - 3}, figure_of(*result) + share, {11, "start", ink, false, 0});
        y += bar;
    }
    return y + gap;
}

} // namespace

std::vector<Picture> draw_isas(const Scene &scene) {
    const std::vector<Row> rows = rows_of(scene);
    if (rows.empty())
        return {};
    double height = top + 60;
    for (const Row &row : rows)
        height += bar * static_cast<double>(row.results.size()) + gap;
    Svg svg(width, height, "Instruction sets side by side");
    draw_titles(svg, "Instruction sets side by side", "one thread, f32, medians; bars are speeds, as shares of the fastest");
    Legend legend(svg, {24, 76});
    for (const std::string &isa : scene.isas)
        if (std::any_of(rows.begin(), rows.end(), [&isa](const Row &row) { return has(row, isa); }))
            legend.bar(isa, isa_colour(isa));
    double y = top;
    for (const Row &row : rows)
        y = draw_row(svg, row, y);
    svg.line({left, top - 6}, {left, y - gap + 6}, {grey});
    draw_caption(svg, 20, height, scene.caption);
    return {{"isas.svg", svg.finished()}};
}

} // namespace bench
