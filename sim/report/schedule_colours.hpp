/// \file
/// The colours of schedules in SVG and on the page: Paul Tol's light scheme, designed for black text and for readers
/// with colour-vision deficiencies. Source: personal.sron.nl/~pault, "light" qualitative scheme.
#pragma once

namespace tracecast {

inline constexpr const char* kForwardColour = "#77aadd";
inline constexpr const char* kBackwardColour = "#ee8866";
inline constexpr const char* kInputColour = "#eedd88";
inline constexpr const char* kWeightColour = "#c4c4c4";

}  // namespace tracecast
