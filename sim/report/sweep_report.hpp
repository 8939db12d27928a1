/// \file
/// Reports of parameter sweeps: a table, CSV, JSON and a picture.
#pragma once

#include <string>

#include "sim/report/text.hpp"
#include "sim/search/sweep.hpp"

namespace tracecast {

std::string sweep_page(const Sweep& sweep, const TextStyle& style);
/// One line per point; "scaling" is strong or weak in a scaling study, else empty.
std::string sweep_csv(const Sweep& sweep);
std::string sweep_json(const Sweep& sweep);

/// One key: tokens/s per GPU with its 90 % interval, a curve over numbers and bars over names; for a scaling study strong
/// and weak scaling with their ideal. Two keys: a heat map of the same. Points that exceed memory are hatched; invalid layouts stay empty.
/// Requires one or two axes.
std::string sweep_svg(const Sweep& sweep);

}  // namespace tracecast
