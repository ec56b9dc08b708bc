/* All threads against one: each request by the time of its call on one thread, since short calls have little to share. */
#include "pictures.h"

#include <algorithm>

namespace bench {
namespace {

const double width = 1000, height = 620;
const Box frame = {80, 100, 970, 530};

struct Pair {
    const Result *one, *all;
    double gain() const { return one->seconds.median / all->seconds.median; }
    double seconds() const { return one->seconds.median; }
};

std::vector<Pair> pairs_of(const Scene &scene) {
    std::vector<Pair> pairs;
    for (const Result &one : scene.results.all())
        if (one.benchmark->threads == 1 && one.benchmark->isa == scene.isas[0]) {
            const Result *all = scene.results.find(one.request(), scene.isas[0], scene.threads.back());
            if (all && all != &one)
                pairs.push_back({&one, all});
        }
    return pairs;
}

std::string tip_of(const Pair &pair) {
    return pair.one->benchmark->name() + ": " + format_rate(pair.gain()) + " times as fast on " +
           std::to_string(pair.all->benchmark->threads) + " threads";
}

/* A machine that others use can make any number: what lies above the plot is drawn at its edge. */
void draw_pairs(Svg &svg, const Plot &plot, Labels &labels, const Scene &scene, const std::vector<Pair> &pairs, double most) {
    const auto place = [&plot, most](const Pair &pair) { return plot.at(pair.seconds(), std::min(most, pair.gain())); };
    for (const Pair &pair : pairs) {
        const size_t group = group_index(scene, pair.one->request().group);
        svg.mark(place(pair), marker(group), colour(group), tip_of(pair));
        labels.avoid(place(pair));
    }
    for (const Pair &pair : pairs)
        if (!pair.one->request().label.empty())
            labels.place(place(pair), pair.one->request().label + ": " + format_rate(pair.gain()));
}

Axis time_axis(const std::vector<Pair> &pairs) {
    const auto order = [](const Pair &a, const Pair &b) { return a.seconds() < b.seconds(); };
    const auto [shortest, longest] = std::minmax_element(pairs.begin(), pairs.end(), order);
    Axis axis = logarithmic_axis("time of a call on one thread", shortest->seconds() / 2, longest->seconds() * 2);
    for (Tick &tick : axis.ticks)
        tick.text = format_time(tick.value * 1.0001); /* a power of ten just below a unit is one of that unit */
    return axis;
}

} // namespace

std::vector<Picture> draw_scaling(const Scene &scene) {
    const std::vector<Pair> pairs = pairs_of(scene);
    if (pairs.empty())
        return {};
    const int threads = scene.threads.back();
    const double most = 1.2 * threads;
    const std::string title = std::to_string(threads) + " threads against one";
    Svg svg(width, height, title);
    draw_titles(svg, title + " on " + scene.isas[0], "every request by what its call takes on one thread; f32, medians");
    Plot plot(svg, frame, time_axis(pairs), linear_axis("times as fast", 0, most, threads <= 4 ? 0.5 : threads / 8));
    for (double level : {1.0, static_cast<double>(threads)}) {
        const double y = plot.at(pairs[0].seconds(), level).y;
        svg.line({frame.left, y}, {frame.right, y}, {ink, 1.4, "6 4"});
    }
    Labels labels(svg, frame);
    draw_pairs(svg, plot, labels, scene, pairs, most);
    std::vector<const Result *> drawn;
    for (const Pair &pair : pairs)
        drawn.push_back(pair.one);
    draw_groups(svg, {24, 76}, scene, drawn);
    draw_caption(svg, 20, height, scene.caption);
    return {{"threads.svg", svg.finished()}};
}

} // namespace bench
