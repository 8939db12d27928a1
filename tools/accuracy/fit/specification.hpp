/// \file
/// What vendors say about a GPU: a row of a table of data sheets (docs/references.md#gpu-data-sheets).
#pragma once

#include <string>

#include "sim/cost/gemm.hpp"
#include "sim/cost/profile.hpp"
#include "sim/io/csv_table.hpp"

namespace tracecast::accuracy {

bool has_row(const CsvTable& table, const std::string& row);

/// A profile with peaks, memory and names only. `row`: the row's name. `usable_gib`: what a program can allocate at
/// most.
/// Errors: no such row.
Result<Profile> read_specification(const CsvTable& table, const std::string& row, const std::string& architecture,
                                   double usable_gib);

/// Bytes of a GPU's L2, by the same table.   Requires the row, which read_specification looks for.
double l2_cache(const CsvTable& table, const std::string& row);

/// The peaks that kernels of a precision run against.
GpuPeak peak_of(const Profile& profile, Precision precision);

}  // namespace tracecast::accuracy
