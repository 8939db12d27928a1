/// \file
/// What-if grids for people and programs: a table, CSV, JSON and a picture.
#pragma once

#include <string>

#include "sim/report/text.hpp"
#include "sim/search/sweep.hpp"

namespace tracecast {

std::string sweep_page(const Sweep& sweep, const TextStyle& style);
/// A line for each point; "scaling" is strong or weak in a scaling study, else empty.
std::string sweep_csv(const Sweep& sweep);
std::string sweep_json(const Sweep& sweep);

/// One key: tokens per second and GPU over its values; of a scaling study strong and weak, against the first point. Two
/// keys: a heat map of the same. What does not fit into memory is hatched, what cannot be laid out stays empty.
/// Requires one or two axes.
std::string sweep_svg(const Sweep& sweep);

}  // namespace tracecast
