#include "sim/report/svg.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/markup.hpp"

namespace tracecast {

namespace {

/// A picture of `width` x `height`; `attributes` of its root.
std::string svg_frame(double width, double height, std::string_view attributes, std::string_view content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.6g}\" height=\"{1:.6g}\" viewBox=\"0 0 {0:.6g} {1:.6g}\" "
      "{2}>\n{3}</svg>\n",
      width, height, attributes, content);
}

std::string points_text(const SvgPoints& points) {
  std::string text;
  for (const auto& [x, y] : points) text += fmt::format("{:.6g},{:.6g} ", x, y);
  return text;
}

}  // namespace

std::string svg_text(double x, double y, std::string_view attributes, std::string_view text) {
  return fmt::format("<text x=\"{:.6g}\" y=\"{:.6g}\" {}>{}</text>", x, y, attributes, markup_text(text));
}

std::string svg_rect(double x, double y, double width, double height, std::string_view attributes,
                     std::string_view title) {
  return fmt::format("<rect x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.6g}\" height=\"{:.6g}\" {}{}", x, y, width, height,
                     attributes, title.empty() ? "/>" : fmt::format("><title>{}</title></rect>", markup_text(title)));
}

void SvgCanvas::add(std::string_view element) { elements_ += fmt::format("{}\n", element); }

void SvgCanvas::text(double x, double y, std::string_view text, std::string_view classes) {
  add(svg_text(x, y, fmt::format("class=\"{}\"", classes), text));
}

void SvgCanvas::line(double x1, double y1, double x2, double y2, std::string_view classes) {
  add(fmt::format("<line x1=\"{:.6g}\" y1=\"{:.6g}\" x2=\"{:.6g}\" y2=\"{:.6g}\" class=\"{}\"/>", x1, y1, x2, y2,
                  classes));
}

void SvgCanvas::rect(double x, double y, double width, double height, std::string_view attributes,
                     std::string_view title) {
  add(svg_rect(x, y, width, height, attributes, title));
}

void SvgCanvas::circle(double x, double y, double radius, std::string_view attributes, std::string_view title) {
  add(fmt::format("<circle cx=\"{:.6g}\" cy=\"{:.6g}\" r=\"{:.6g}\" {}><title>{}</title></circle>", x, y, radius,
                  attributes, markup_text(title)));
}

void SvgCanvas::polyline(const SvgPoints& points, std::string_view attributes) {
  add(fmt::format("<polyline {} points=\"{}\"/>", attributes, points_text(points)));
}

void SvgCanvas::polygon(const SvgPoints& points, std::string_view attributes) {
  add(fmt::format("<polygon {} points=\"{}\"/>", attributes, points_text(points)));
}

std::string SvgCanvas::document(double width, double height, std::string_view title, const SvgStyle& style,
                                std::string_view behind) const {
  return svg_frame(
      width, height, "role=\"img\"",
      fmt::format("<title>{}</title>\n<style>\n"
                  "svg{{--page:#ffffff;--text:#1b1f24;--soft:#57606a;{}}}\n"
                  "@media(prefers-color-scheme:dark){{svg{{--page:#14181d;--text:#e6e8eb;--soft:#a2acb6;{}}}}}\n"
                  "text{{fill:var(--text);font:12px system-ui,sans-serif}}.soft{{fill:var(--soft)}}"
                  ".title{{font-size:16px;font-weight:600}}{}.end{{text-anchor:end}}.mid{{text-anchor:middle}}{}\n"
                  "</style>\n{}<rect width=\"100%\" height=\"100%\" style=\"fill:var(--page){}\"/>\n{}{}",
                  markup_text(title), style.light, style.dark, style.text_rules, style.rules, style.definitions,
                  style.page_rule, behind, elements_));
}

bool is_quantity(std::string_view text) {
  const std::size_t unit = std::min(text.find_first_not_of("0123456789.+-"), text.size());
  return unit > 0 && text.find_first_of("0123456789_", unit) == std::string_view::npos;
}

double round_step(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (most / (factor * power) <= 6) return factor * power;
  return 10 * power;
}

}  // namespace tracecast
