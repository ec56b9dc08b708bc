/* The share of the limit by sequence length, a panel for each head size: what long sequences and masks cost. */
#include "pictures.h"

#include <algorithm>

namespace bench {
namespace {

const double panel_width = 470, height = 535, top = 112, bottom = 440, right_margin = 140;

/* One line of a panel: a kind of request on one instruction set. */
struct Line {
    std::string panel, kind, isa;
    std::vector<const Result *> points;
    bool dashed = false;
    Marker marker = Marker::circle;
};

std::vector<Line> lines_of(const Scene &scene) {
    std::vector<Line> lines;
    for (const Result &result : scene.results.all()) {
        const Curve &curve = result.request().curve;
        if (!curve.length || result.benchmark->threads != 1)
            continue;
        auto line = std::find_if(lines.begin(), lines.end(), [&](const Line &each) {
            return each.panel == curve.panel && each.kind == curve.line && each.isa == result.benchmark->isa;
        });
        if (line == lines.end())
            line = lines.insert(line, {curve.panel, curve.line, result.benchmark->isa, {}, false, Marker::circle});
        line->points.push_back(&result);
    }
    /* A single point is no line: the scalar kernels run at the shortest length alone. */
    lines.erase(std::remove_if(lines.begin(), lines.end(), [](const Line &line) { return line.points.size() < 2; }), lines.end());
    return lines;
}

template <class Value> std::vector<std::string> distinct(const std::vector<Line> &lines, Value value) {
    std::vector<std::string> all;
    for (const Line &line : lines)
        if (std::find(all.begin(), all.end(), value(line)) == all.end())
            all.push_back(value(line));
    return all;
}

Axis length_axis(const std::vector<Line> &lines) {
    std::vector<int64_t> lengths;
    for (const Line &line : lines)
        for (const Result *point : line.points)
            lengths.push_back(point->request().curve.length);
    std::sort(lengths.begin(), lengths.end());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    Axis axis = {"tokens", static_cast<double>(lengths.front()) / 1.2, static_cast<double>(lengths.back()) * 1.2, true, {}};
    for (int64_t length : lengths)
        axis.ticks.push_back({static_cast<double>(length), std::to_string(length)});
    return axis;
}

void draw_line(Svg &svg, const Plot &plot, const Line &line) {
    const char *const hue = isa_colour(line.isa);
    std::vector<Point> medians, spread;
    for (const Result *point : line.points) {
        const double length = static_cast<double>(point->request().curve.length);
        medians.push_back(plot.at(length, std::min(1.05, point->of_limit.median)));
        spread.insert(spread.begin(), plot.at(length, std::min(1.05, point->of_limit.max)));
        spread.push_back(plot.at(length, std::min(1.05, point->of_limit.min)));
    }
    svg.area(spread, hue, 0.12);
    svg.path(medians, {hue, 2, line.dashed ? "6 4" : ""});
    for (size_t i = 0; i < medians.size(); i++)
        svg.mark(medians[i], line.marker, hue, tip_of(*line.points[i]));
}

/* At their right ends, pushed apart where lines end close together. */
void label_lines(Svg &svg, const Plot &plot, const std::vector<const Line *> &lines) {
    const double apart = 15;
    std::vector<std::pair<double, const Line *>> ends;
    for (const Line *line : lines)
        ends.emplace_back(plot.at(1, line->points.back()->of_limit.median).y, line);
    std::sort(ends.begin(), ends.end());
    for (size_t i = 1; i < ends.size(); i++)
        ends[i].first = std::max(ends[i].first, ends[i - 1].first + apart);
    for (size_t i = ends.size(); i-- > 0;)
        ends[i].first = std::min(ends[i].first, plot.box().bottom - apart * static_cast<double>(ends.size() - 1 - i));
    for (const auto &[y, line] : ends) {
        svg.mark({plot.box().right + 10, y}, line->marker, isa_colour(line->isa));
        svg.text({plot.box().right + 19, y + 4}, line->isa + " " + line->kind, {12, "start", ink, false, 0});
    }
}

void draw_panel(Svg &svg, const Box &box, const std::string &panel, const std::vector<Line> &lines, const Axis &lengths) {
    Plot plot(svg, box, lengths, linear_axis("share of the limit", 0, 1, 0.1));
    svg.text({box.left, box.top - 10}, panel, {14, "start", ink, true, 0});
    std::vector<const Line *> drawn;
    for (const Line &line : lines)
        if (line.panel == panel) {
            draw_line(svg, plot, line);
            drawn.push_back(&line);
        }
    label_lines(svg, plot, drawn);
}

/* Every other kind of line is dashed. */
void choose_styles(std::vector<Line> &lines) {
    const std::vector<std::string> kinds = distinct(lines, [](const Line &line) { return line.kind; });
    for (Line &line : lines) {
        const size_t kind = static_cast<size_t>(std::find(kinds.begin(), kinds.end(), line.kind) - kinds.begin());
        line.dashed = kind % 2 == 1;
        line.marker = marker(kind);
    }
}

} // namespace

std::vector<Picture> draw_lengths(const Scene &scene) {
    std::vector<Line> lines = lines_of(scene);
    if (lines.empty())
        return {};
    choose_styles(lines);
    const std::vector<std::string> panels = distinct(lines, [](const Line &line) { return line.panel; });
    Svg svg(panel_width * static_cast<double>(std::max<size_t>(2, panels.size())), height, "Share of the limit by sequence length");
    draw_titles(svg, "Attention: share of the FMA peak by sequence length",
                "one thread, f32; medians, with the least and the best of repeated measurements behind them");
    for (size_t i = 0; i < panels.size(); i++) {
        const double left = panel_width * static_cast<double>(i) + 70;
        const Box box = {left, top, left + panel_width - 70 - right_margin, bottom};
        draw_panel(svg, box, panels[i], lines, length_axis(lines));
    }
    draw_caption(svg, 20, height, scene.caption);
    return {{"lengths.svg", svg.finished()}};
}

} // namespace bench
