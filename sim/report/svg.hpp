/// \file
/// Pictures as SVG: the frame, the style sheet of pictures that follow a page's light or dark colours, and elements.
///
/// Coordinates are pixels from the upper left corner. `attributes` are those of the element, as SVG writes them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tracecast {

/// `text` is plain.
std::string svg_text(double x, double y, std::string_view attributes, std::string_view text);
/// `title`, plain text, is shown where the pointer rests.
std::string svg_rect(double x, double y, double width, double height, std::string_view attributes,
                     std::string_view title = "");

/// What a picture adds to the common style sheet, as CSS.
struct SvgStyle {
  std::string_view light = {};        ///< colours besides --page, --text and --soft, as variables
  std::string_view dark = {};         ///< the same on a dark page
  std::string_view text_rules = {};   ///< of text, before those of its anchors
  std::string_view rules = {};        ///< of other classes
  std::string_view definitions = {};  ///< elements such as patterns
  std::string_view page_rule = {};    ///< of the background, if `rules` hold for all rectangles
};

using SvgPoints = std::vector<std::pair<double, double>>;

/// The elements of a picture with a style sheet. Its text has the classes title, soft (less important), end and mid (anchors).
class SvgCanvas {
 public:
  void add(std::string_view element);
  void text(double x, double y, std::string_view text, std::string_view classes);
  void line(double x1, double y1, double x2, double y2, std::string_view classes);
  void rect(double x, double y, double width, double height, std::string_view attributes, std::string_view title = "");
  void circle(double x, double y, double radius, std::string_view attributes, std::string_view title);
  void polyline(const SvgPoints& points, std::string_view attributes);
  void polygon(const SvgPoints& points, std::string_view attributes);

  const std::string& elements() const { return elements_; }
  /// The picture. `behind`: elements behind all others.
  std::string document(double width, double height, std::string_view title, const SvgStyle& style,
                       std::string_view behind = "") const;

 private:
  std::string elements_;
};

/// A number with or without a unit ("8", "50G", "400 Gb/s", not "1f1b"): a line may join such values.
bool is_quantity(std::string_view text);

/// 1, 2 or 5 times a power of ten that divides `most` (> 0) into about five.
double round_step(double most);

}  // namespace tracecast
