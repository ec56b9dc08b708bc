/* See chart.h. */
#include "chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace bench {
namespace {

const Font tick_font = {12, "middle", ink, false, 0}, label_font = {11, "start", ink, false, 0};

std::string plain(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

} // namespace

double Axis::share(double value) const {
    return logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
}

Axis linear_axis(const std::string &title, double low, double high, double step) {
    Axis axis = {title, low, high, false, {}};
    for (int i = 0; low + i * step <= high + step / 1000; i++)
        axis.ticks.push_back({low + i * step, plain(std::round((low + i * step) * 1000) / 1000)});
    return axis;
}

Axis logarithmic_axis(const std::string &title, double low, double high) {
    Axis axis = {title, low, high, true, {}};
    const bool few = high / low < 2000;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10)
        for (double value : {power, 2 * power, 5 * power})
            if (value >= low * 0.999 && value <= high * 1.001 && (few || value <= power))
                axis.ticks.push_back({value, plain(value)});
    return axis;
}

Plot::Plot(Svg &svg, const Box &box, const Axis &x, const Axis &y) : box_(box), x_(x), y_(y) {
    for (const Tick &tick : x.ticks) {
        const double here = at(tick.value, y.low).x;
        svg.line({here, box.top}, {here, box.bottom}, {faint});
        svg.text({here, box.bottom + 18}, tick.text, tick_font);
    }
    for (const Tick &tick : y.ticks) {
        const double here = at(x.low, tick.value).y;
        svg.line({box.left, here}, {box.right, here}, {faint});
        svg.text({box.left - 7, here + 4}, tick.text, {12, "end", ink, false, 0});
    }
    svg.line({box.left, box.bottom}, {box.right, box.bottom}, {grey});
    svg.line({box.left, box.top}, {box.left, box.bottom}, {grey});
    svg.text({(box.left + box.right) / 2, box.bottom + 38}, x.title, {13, "middle", ink, false, 0});
    svg.text({box.left - 46, (box.top + box.bottom) / 2}, y.title, {13, "middle", ink, false, -90});
}

Point Plot::at(double x, double y) const {
    return {box_.left + x_.share(x) * (box_.right - box_.left), box_.bottom - y_.share(y) * (box_.bottom - box_.top)};
}

void draw_titles(Svg &svg, const std::string &title, const std::string &subtitle) {
    svg.text({20, 30}, title, {18, "start", ink, true, 0});
    svg.text({20, 51}, subtitle, {13, "start", grey, false, 0});
}

void draw_caption(Svg &svg, double left, double bottom, const std::string &caption) {
    std::istringstream lines(caption);
    for (std::string line; std::getline(lines, line); bottom += 15)
        svg.text({left, bottom - 27}, line, {11, "start", grey, false, 0});
}

void Legend::word(double indent, const std::string &text) {
    svg_.text({at_.x + indent, at_.y + 4}, text, {12, "start", ink, false, 0});
    at_.x += indent + text_width(text, {12, "start", ink, false, 0}) + 16;
}

void Legend::mark(const std::string &text, Marker marker, const std::string &colour) {
    svg_.mark({at_.x + 6, at_.y}, marker, colour);
    word(15, text);
}

void Legend::line(const std::string &text, const Stroke &stroke) {
    svg_.line({at_.x, at_.y}, {at_.x + 30, at_.y}, stroke);
    word(36, text);
}

void Legend::bar(const std::string &text, const std::string &colour) {
    svg_.rectangle({at_.x, at_.y - 6, at_.x + 12, at_.y + 6}, colour);
    word(18, text);
}

bool Labels::is_free(const Box &box) const {
    if (box.left < bounds_.left || box.right > bounds_.right || box.top < bounds_.top || box.bottom > bounds_.bottom)
        return false;
    return std::none_of(taken_.begin(), taken_.end(), [&box](const Box &other) {
        return box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom;
    });
}

/* Whether a line between two points crosses no label. */
bool Labels::is_clear(Point from, Point to) const {
    for (int i = 0; i <= 32; i++) {
        const double x = from.x + (to.x - from.x) * i / 32, y = from.y + (to.y - from.y) * i / 32;
        for (const Box &label : labels_)
            if (x > label.left && x < label.right && y > label.top && y < label.bottom)
                return false;
    }
    return true;
}

void Labels::place(Point point, const std::string &text) {
    const double width = text_width(text, label_font), height = label_font.size + 2, pi = 3.14159265358979;
    for (double distance : {8, 18, 30, 45, 62, 80})
        for (double turn : {0.0, 1.0, 0.5, 1.5, 0.25, 1.75, 0.75, 1.25, 0.12, 1.88, 0.88, 1.12, 0.38, 1.62, 0.62, 1.38}) {
            const double right = std::cos(turn * pi), down = std::sin(turn * pi);
            const Point centre = {point.x + right * (distance + width / 2), point.y + down * (distance + height / 2)};
            const Box box = {centre.x - width / 2, centre.y - height / 2, centre.x + width / 2, centre.y + height / 2};
            const Point nearest = {std::clamp(point.x, box.left, box.right), std::clamp(point.y, box.top, box.bottom)};
            if (!is_free(box) || !is_clear(point, nearest))
                continue;
            if (distance > 10)
                svg_.line(point, nearest, {grey, 0.7});
            for (int i = 2; distance > 10 && i < 10; i++) { /* nor may later labels cover the line */
                const double x = point.x + (nearest.x - point.x) * i / 10, y = point.y + (nearest.y - point.y) * i / 10;
                avoid(Box{x - 1, y - 1, x + 1, y + 1});
            }
            svg_.text({box.left, box.bottom - 4}, text, label_font);
            avoid(box);
            labels_.push_back(box);
            return;
        }
}

} // namespace bench
