/// \file
/// The forecast of one published run beside what was measured.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/forecast/sensitivities.hpp"
#include "tools/accuracy/run_traits.hpp"

namespace tracecast::accuracy {

/// One row of a table of runs.
struct RowForecast {
  std::size_t row = 0;  ///< of the table
  std::string id;
  std::string source;
  std::string architecture;  ///< of the GPU: "Hopper"
  std::string stack;
  bool moe = false;
  RunTraits traits;            ///< of a run that was forecast
  bool out_of_memory = false;  ///< the run ended so
  double measured_s = 0;       ///< 0: no step time is reported
  double predicted_s = 0;
  Band band;
  double kernel_spread = 0;  ///< relative deviation of the step by the costs of kernels, collectives and the host
  double layout_spread = 0;  ///< the same for what is not reported
  double deviation() const { return std::hypot(kernel_spread, layout_spread); }
  Sensitivities sensitivities;
  double predicted_memory_gib = 0;
  double comparable_memory_gib = 0;  ///< the part of it that the measurement counts
  double measured_memory_gib = 0;    ///< 0: none is reported
  double capacity_gib = 0;
  bool fits = true;
  std::vector<std::string> assumptions;
  std::string skipped;  ///< why it has no forecast; "": it has one

  bool forecast_made() const { return skipped.empty(); }
  bool scored() const { return skipped.empty() && !out_of_memory && measured_s > 0; }
  double error() const { return predicted_s / measured_s - 1; }
  double memory_error() const { return comparable_memory_gib / measured_memory_gib - 1; }
  bool inside_band() const { return measured_s >= band.p5_s && measured_s <= band.p95_s; }
};

}  // namespace tracecast::accuracy
