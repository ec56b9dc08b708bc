/* The roofline model (Williams, Waterman and Patterson 2009): a kernel's speed against its flops per byte, below what the machine
 * could do at best: the FMA peak, and the reads of each cache level.  Bytes are those of a perfect cache, so a point below the
 * roof of its data's level is one that waits for something else. */
#include "pictures.h"

#include <algorithm>
#include <cmath>

namespace bench {
namespace {

const double width = 1000, height = 700;
const double pi = 3.14159265358979;
const Box frame = {80, 100, 970, 610};

double intensity(const Result &result) { return result.request().flops / result.request().bytes; }

/* Copies have no flops, and the rate of a call that is over at once says nothing of the kernel. */
std::vector<const Result *> points_of(const Scene &scene, const std::string &isa) {
    std::vector<const Result *> points;
    for (const Result &result : scene.results.all())
        if (result.benchmark->isa == isa && result.benchmark->threads == 1 && result.request().flops > 0 &&
            result.request().figure != Figure::time)
            points.push_back(&result);
    return points;
}

/* The best that was seen in the whole run: no point lies above it. */
double peak_of(const std::string &isa) {
    for (const Noise &each : noise())
        if (each.isa == isa && each.threads == 1)
            return std::max(each.start.max, each.later.max) / 1e9;
    return 0;
}

struct Range {
    double low, high;
};

Range range_of(const std::vector<const Result *> &points, double (*value)(const Result &)) {
    Range range = {value(*points[0]), value(*points[0])};
    for (const Result *point : points)
        range = {std::min(range.low, value(*point)), std::max(range.high, value(*point))};
    return range;
}

void draw_peaks(Svg &svg, const Plot &plot, Labels &labels, const Scene &scene, const std::string &own, double right) {
    for (const std::string &isa : scene.isas) {
        const double peak = peak_of(isa);
        const Point end = plot.at(right, peak);
        if (end.y > plot.box().bottom)
            continue;
        svg.line({plot.box().left, end.y}, end, {isa == own ? ink : grey, isa == own ? 2.0 : 1.0, isa == own ? "" : "2 4"});
        const std::string text = isa + " FMA peak, " + format_rate(peak) + " GFLOP/s";
        const Font font = {12, "end", isa == own ? ink : grey, isa == own, 0};
        svg.text({end.x - 8, end.y - 6}, text, font);
        labels.avoid(Box{end.x - 8 - text_width(text, font), end.y - 20, end.x, end.y + 2});
    }
}

/* From where a rate enters the plot to where it meets the peak. */
struct Slope {
    Point from, to;
    double steepness() const { return (to.y - from.y) / (to.x - from.x); }
};

Slope slope_of(const Plot &plot, double rate, double peak, Range x, Range y) {
    return {plot.at(std::max(x.low, y.low / rate), std::max(y.low, rate * x.low)),
            plot.at(std::min(x.high, peak / rate), std::min(peak, rate * x.high))};
}

void label_slope(Svg &svg, Labels &labels, const Slope &slope, const std::string &text) {
    const double angle = std::atan(slope.steepness()), length = text_width(text, {12}) * std::cos(angle);
    const Point start = {slope.from.x + 10 - 6 * std::sin(angle), slope.from.y + slope.steepness() * 10 - 6 * std::cos(angle)};
    if (start.x + length > slope.to.x)
        return;
    svg.text(start, text, {12, "start", ink, false, angle * 180 / pi});
    for (double along = 0; along < length; along += 8)
        labels.avoid(Box{start.x + along - 10, start.y + slope.steepness() * along - 14, start.x + along + 8,
                         start.y + slope.steepness() * along + 6});
}

/* Levels so close that their labels would cover each other, as where one machine has but a part of a large L3, share one. */
void draw_reads(Svg &svg, const Plot &plot, Labels &labels, const std::string &isa, Range x, Range y) {
    const std::vector<Level> levels = read_levels(isa, 1);
    std::string text;
    for (size_t i = 0; i < levels.size(); i++) {
        const double rate = levels[i].rates.max / 1e9;
        const Slope slope = slope_of(plot, rate, peak_of(isa), x, y);
        text += levels[i].name + " " + format_rate(rate);
        if (slope.to.x > slope.from.x)
            svg.line(slope.from, slope.to, {ink, 1.4});
        if (i + 1 < levels.size() && std::fabs(std::log(levels[i + 1].rates.max / levels[i].rates.max)) < 0.35) {
            text += ", ";
            continue;
        }
        if (slope.to.x > slope.from.x)
            label_slope(svg, labels, slope, text + " GB/s");
        text.clear();
    }
}

void draw_points(Svg &svg, const Plot &plot, Labels &labels, const Scene &scene, const std::vector<const Result *> &points) {
    const auto place = [&plot](const Result &result) { return plot.at(intensity(result), result.gflops()); };
    for (const Result *point : points) {
        const size_t group = group_index(scene, point->request().group);
        svg.mark(place(*point), marker(group), colour(group), tip_of(*point));
        labels.avoid(place(*point));
    }
    for (const Result *point : points)
        if (!point->request().label.empty())
            labels.place(place(*point), point->request().label);
}

Picture draw_roofline(const Scene &scene, const std::string &isa, const std::vector<const Result *> &points) {
    Svg svg(width, height, "Roofline of " + isa);
    const Range intensities = range_of(points, intensity);
    const Range rates = range_of(points, [](const Result &result) { return result.gflops(); });
    const Range x = {intensities.low / 2, intensities.high * 16};
    const Range y = {rates.low / 1.6, std::max(peak_of(isa), rates.high) * 1.6};
    draw_titles(
        svg, "Every kernel on " + isa + " under the machine's roofs",
        "one thread, f32; roofs measured in the same run, medians of repeated calls; calls too small to count are left out");
    Plot plot(svg, frame, logarithmic_axis("flops per byte that has to move", x.low, x.high),
              logarithmic_axis("GFLOP/s", y.low, y.high));
    Labels labels(svg, frame);
    draw_peaks(svg, plot, labels, scene, isa, x.high);
    draw_reads(svg, plot, labels, isa, x, y);
    draw_points(svg, plot, labels, scene, points);
    draw_groups(svg, {24, 76}, scene, points);
    draw_caption(svg, 20, height, scene.caption);
    return {"roofline-" + isa + ".svg", svg.finished()};
}

} // namespace

std::vector<Picture> draw_rooflines(const Scene &scene) {
    std::vector<Picture> pictures;
    for (const std::string &isa : scene.isas) {
        const std::vector<const Result *> points = points_of(scene, isa);
        if (!points.empty())
            pictures.push_back(draw_roofline(scene, isa, points));
    }
    return pictures;
}

} // namespace bench
