/* See svg.h. */
#include "svg.h"

#include <cmath>
#include <cstring>

namespace bench {
namespace {

std::string escaped(const std::string &text) {
    std::string result;
    for (char c : text)
        result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
    return result;
}

/* A tenth of a pixel is as fine as anyone sees; adding 0 makes -0 a 0. */
std::string number(double x) {
    std::ostringstream text;
    text << std::round(x * 10) / 10 + 0.0;
    return text.str();
}

std::string points(const std::vector<Point> &all) {
    std::string text;
    for (const Point &point : all)
        text += (text.empty() ? "" : " ") + number(point.x) + "," + number(point.y);
    return text;
}

/* Corners around a centre, radius 5 or a little more, for equal weight to the eye. */
std::vector<Point> corners(Marker marker) {
    switch (marker) {
    case Marker::square:
        return {{-4, -4}, {4, -4}, {4, 4}, {-4, 4}};
    case Marker::diamond:
        return {{0, -5.8}, {5.8, 0}, {0, 5.8}, {-5.8, 0}};
    case Marker::triangle:
        return {{0, -5.5}, {5.2, 4}, {-5.2, 4}};
    case Marker::turned:
        return {{0, 5.5}, {5.2, -4}, {-5.2, -4}};
    case Marker::cross:
        return {{-5, -3}, {-3, -5}, {0, -2}, {3, -5}, {5, -3}, {2, 0}, {5, 3}, {3, 5}, {0, 2}, {-3, 5}, {-5, 3}, {-2, 0}};
    case Marker::plus:
        return {{-1.4, -5.5}, {1.4, -5.5}, {1.4, -1.4}, {5.5, -1.4}, {5.5, 1.4},   {1.4, 1.4},
                {1.4, 5.5},   {-1.4, 5.5}, {-1.4, 1.4}, {-5.5, 1.4}, {-5.5, -1.4}, {-1.4, -1.4}};
    default:
        return {};
    }
}

} // namespace

const char *colour(size_t index) {
    const char *const all[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f"};
    return all[index % 8];
}

Marker marker(size_t index) { return static_cast<Marker>(index % (static_cast<size_t>(Marker::ring) + 1)); }

/* Widths of DejaVu Sans, in three sizes. */
double text_width(const std::string &text, const Font &font) {
    double ems = 0;
    for (char c : text)
        if ((c & 0xc0) != 0x80) /* one of each character of UTF-8 */
            ems += std::strchr(" .,:;'|!()[]ijlft-/", c) ? 0.37 : std::strchr("mwMW%@", c) ? 0.95 : 0.63;
    return ems * font.size * (font.bold ? 1.1 : 1);
}

Svg::Svg(double width, double height, const std::string &title) {
    body_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height << "\" viewBox=\"0 0 "
          << width << ' ' << height
          << "\" role=\"img\" font-family=\"'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif\">\n<title>" << escaped(title)
          << "</title>\n";
    rectangle({0, 0, width, height}, "#ffffff");
}

void Svg::path(const std::vector<Point> &all, const Stroke &stroke) {
    body_ << "<polyline points=\"" << points(all) << "\" fill=\"none\" stroke=\"" << stroke.colour << "\" stroke-width=\""
          << stroke.width << '"';
    if (*stroke.dashes)
        body_ << " stroke-dasharray=\"" << stroke.dashes << '"';
    body_ << "/>\n";
}

void Svg::area(const std::vector<Point> &all, const std::string &fill, double opacity) {
    body_ << "<polygon points=\"" << points(all) << "\" fill=\"" << fill << "\" fill-opacity=\"" << opacity << "\"/>\n";
}

void Svg::rectangle(const Box &box, const std::string &fill) {
    body_ << "<rect x=\"" << number(box.left) << "\" y=\"" << number(box.top) << "\" width=\"" << number(box.right - box.left)
          << "\" height=\"" << number(box.bottom - box.top) << "\" fill=\"" << fill << "\"/>\n";
}

/* A thin white edge keeps neighbours apart. */
void Svg::mark(Point at, Marker marker, const std::string &fill, const std::string &tip) {
    std::vector<Point> outline = corners(marker);
    for (Point &corner : outline)
        corner = {at.x + corner.x, at.y + corner.y};
    if (!outline.empty())
        body_ << "<polygon points=\"" << points(outline) << "\" fill=\"" << fill << "\" stroke=\"#ffffff\" stroke-width=\"0.8\">";
    else if (marker == Marker::ring)
        body_ << "<circle cx=\"" << number(at.x) << "\" cy=\"" << number(at.y) << "\" r=\"4\" fill=\"#ffffff\" stroke=\"" << fill
              << "\" stroke-width=\"2\">";
    else
        body_ << "<circle cx=\"" << number(at.x) << "\" cy=\"" << number(at.y) << "\" r=\"4.6\" fill=\"" << fill
              << "\" stroke=\"#ffffff\" stroke-width=\"0.8\">";
    if (!tip.empty())
        body_ << "<title>" << escaped(tip) << "</title>";
    body_ << (outline.empty() ? "</circle>\n" : "</polygon>\n");
}

/* The white edge, drawn first, lets text cross a line. */
void Svg::text(Point at, const std::string &text, const Font &font) {
    body_ << "<text x=\"" << number(at.x) << "\" y=\"" << number(at.y) << "\" font-size=\"" << font.size << "\" fill=\""
          << font.colour << "\" text-anchor=\"" << font.anchor << '"';
    if (font.bold)
        body_ << " font-weight=\"bold\"";
    if (font.angle < 0 || font.angle > 0)
        body_ << " transform=\"rotate(" << number(font.angle) << ' ' << number(at.x) << ' ' << number(at.y) << ")\"";
    body_ << " stroke=\"#ffffff\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\">" << escaped(text)
          << "</text>\n";
}

} // namespace bench
