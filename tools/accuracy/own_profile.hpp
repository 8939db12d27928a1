/// \file
/// A profile with which a run is forecast to take the time that own runs correct it to (own_runs.hpp).
///
/// One scale multiplies the in-training factors of all kernels and the host's time of eager work. It is not the factor of the
/// correction: transfers, the optimizer and fixed times of a step do not follow it. So it is searched for.
#pragma once

#include <optional>

#include "sim/cost/profile.hpp"
#include "sim/io/csv_table.hpp"
#include "tools/accuracy/row_forecast.hpp"
#include "tools/accuracy/rows/row_library.hpp"

namespace tracecast::accuracy {

/// Makes kernels, but for the optimizer's, and eager work of the host longer.
void scale_work(Profile& profile, double scale);

struct WorkScale {
  std::optional<double> scale;  ///< none: no scale of 1/4 to 4 gives that time
  double step_s = 0;            ///< forecast with the scale, or with that of 1/4 to 4 which comes closest
};

/// The scale with which the row's step takes `step_s`, to 0.1 %.
WorkScale work_scale(const CsvTable& table, const RowForecast& row, const RowLibrary& library, double step_s);

}  // namespace tracecast::accuracy
