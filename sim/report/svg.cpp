#include "sim/report/svg.hpp"

#include <cmath>

#include <fmt/format.h>

#include "sim/base/markup.hpp"

namespace tracecast {

std::string svg_document(double width, double height, std::string_view title, std::string_view content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.6g}\" height=\"{1:.6g}\" viewBox=\"0 0 {0:.6g} {1:.6g}\" "
      "role=\"img\">\n<title>{2}</title>\n{3}</svg>\n",
      width, height, markup_text(title), content);
}

double round_step(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (most / (factor * power) <= 6) return factor * power;
  return 10 * power;
}

}  // namespace tracecast
