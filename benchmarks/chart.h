/* What pictures have in common: axes with their grid, a legend, and labels that keep out of each other's way. */
#ifndef HEED_BENCHMARKS_CHART_H
#define HEED_BENCHMARKS_CHART_H

#include <string>
#include <vector>

#include "svg.h"

namespace bench {

struct Tick {
    double value;
    std::string text;
};

struct Axis {
    std::string title;
    double low, high;
    bool logarithmic;
    std::vector<Tick> ticks;
    double share(double value) const; /* 0 at low, 1 at high */
};
/* From low to high, every `step`; or powers of 10 and, where there are few, their doubles and fivefolds. */
Axis linear_axis(const std::string &title, double low, double high, double step);
Axis logarithmic_axis(const std::string &title, double low, double high);

/* The rectangle between two axes. */
class Plot {
  public:
    Plot(Svg &svg, const Box &box, const Axis &x, const Axis &y);
    Point at(double x, double y) const;
    const Box &box() const { return box_; }

  private:
    Box box_;
    Axis x_, y_;
};

/* Titles above the plot, the caption under it. */
void draw_titles(Svg &svg, const std::string &title, const std::string &subtitle);
void draw_caption(Svg &svg, double left, double bottom, const std::string &caption);

/* One line of words behind their marks, from left to right. */
class Legend {
  public:
    Legend(Svg &svg, Point start) : svg_(svg), at_(start) {}
    void mark(const std::string &text, Marker marker, const std::string &colour);
    void line(const std::string &text, const Stroke &stroke);
    void bar(const std::string &text, const std::string &colour);

  private:
    void word(double indent, const std::string &text);
    Svg &svg_;
    Point at_;
};

/* Labels beside points, where nothing else is; further away, with a line to the point, if it is crowded. */
class Labels {
  public:
    Labels(Svg &svg, const Box &bounds) : svg_(svg), bounds_(bounds) {}
    void avoid(const Box &box) { taken_.push_back(box); }
    void avoid(Point point) { avoid(Box{point.x - 5, point.y - 5, point.x + 5, point.y + 5}); }
    void place(Point point, const std::string &text); /* or not at all */

  private:
    bool is_free(const Box &box) const;
    bool is_clear(Point from, Point to) const;
    Svg &svg_;
    Box bounds_;
    std::vector<Box> taken_, labels_;
};

} // namespace bench

#endif
