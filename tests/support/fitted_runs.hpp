/// \file
/// Made-up runs to fit in-training factors to.
#pragma once

#include <string>
#include <vector>

#include "tools/accuracy/row_forecast.hpp"

namespace tracecast::accuracy {

/// `count` runs on Hopper that the sources a, b, … take turns in. set(i, row) sets their times, and what differs.
template <class Set>
std::vector<RowForecast> runs_of_sources(int count, int sources, const Set& set) {
  std::vector<RowForecast> rows(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    RowForecast& row = rows[static_cast<std::size_t>(i)];
    row.source = std::string(1, static_cast<char>('a' + i % sources));
    row.architecture = "Hopper";
    set(i, row);
  }
  return rows;
}

}  // namespace tracecast::accuracy
