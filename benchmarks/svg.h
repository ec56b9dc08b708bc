/* Writes pictures as SVG: the few shapes that charts are made of.  The background is an explicit white, so that dark text stays
 * legible on dark pages. */
#ifndef HEED_BENCHMARKS_SVG_H
#define HEED_BENCHMARKS_SVG_H

#include <sstream>
#include <string>
#include <vector>

namespace bench {

struct Point {
    double x, y;
};
struct Box {
    double left, top, right, bottom;
};

const char *const ink = "#1a1a1a", *const grey = "#595959", *const faint = "#dddddd";

/* Eight colours that colour-blind readers can tell apart (Okabe and Ito 2008), the yellow, too faint on white, left out for a grey.
 * More than eight start again. */
const char *colour(size_t index);

struct Stroke {
    std::string colour;
    double width = 1;
    const char *dashes = ""; /* SVG's stroke-dasharray */
};

struct Font {
    double size = 13;
    const char *anchor = "start"; /* which end of the text is at its point, or "middle" */
    const char *colour = ink;
    bool bold = false;
    double angle = 0; /* in degrees, clockwise */
};
/* About as wide as the widest of the usual fonts would draw it. */
double text_width(const std::string &text, const Font &font);

/* Shapes beside colours, for who sees none. */
enum class Marker { circle, square, diamond, triangle, turned, cross, plus, ring };
Marker marker(size_t index);

class Svg {
  public:
    Svg(double width, double height, const std::string &title);
    void line(Point from, Point to, const Stroke &stroke) { path({from, to}, stroke); }
    void path(const std::vector<Point> &points, const Stroke &stroke);
    void area(const std::vector<Point> &points, const std::string &fill, double opacity);
    void rectangle(const Box &box, const std::string &fill);
    /* tip: what a browser shows while the pointer rests on it. */
    void mark(Point at, Marker marker, const std::string &colour, const std::string &tip = "");
    void text(Point at, const std::string &text, const Font &font = {});
    std::string finished() const { return body_.str() + "</svg>\n"; }

  private:
    std::ostringstream body_;
};

} // namespace bench

#endif
