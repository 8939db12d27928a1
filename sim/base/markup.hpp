/// \file
/// Text in XML, SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace tracecast {

/// `text` as content or as a value in double quotes: & < > " become entities, a line break a space.
std::string markup_text(std::string_view text);

}  // namespace tracecast
