/// \file
/// Shared by the pictures of machines, collectives and sweeps: the frame, and the step of an axis.
#pragma once

#include <string>
#include <string_view>

namespace tracecast {

/// The background, in the colour --page that the picture's style defines.
inline constexpr std::string_view kSvgBackground =
    "<rect width=\"100%\" height=\"100%\" style=\"fill:var(--page)\"/>\n";

/// A picture of `width` x `height` pixels; `content` is its style and its elements, `title` plain text.
std::string svg_document(double width, double height, std::string_view title, std::string_view content);

/// 1, 2 or 5 times a power of ten that divides `most` (> 0) into about five.
double round_step(double most);

}  // namespace tracecast
