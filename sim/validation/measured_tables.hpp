/// Measured operators and collectives of a table beside what the cost models say of them.
///
/// Isolated measurements: in-training factors are taken off, and the page names them.   Columns: docs/formats/runs.md
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/validation/row_scenario.hpp"

namespace tracecast {

struct MeasuredSample {
  std::size_t row = 0;  ///< of the table
  std::string group;    ///< "h100 gemm bf16", "dgx-h100 all_reduce"
  double predicted_s = 0;
  double measured_s = 0;
  bool large = true;    ///< collectives: above 1 MiB
  std::string skipped;  ///< why it has no forecast; "": it has one
  double error() const { return predicted_s / measured_s - 1; }
};

/// Operators: profile, op (gemm or attention), time_us; gemm: m n k batch precision pass; attention: batch seq heads kv_heads
/// head_dim causal pass kernel.   Errors: a profile that is not there, a size that is no number of at least 1.
Result<std::vector<MeasuredSample>> validate_kernels(const CsvTable& table, const RowLibrary& library);

/// Collectives: topology, collective, ranks, bytes, time_us. A machine smaller than `ranks` is a mistake.
Result<std::vector<MeasuredSample>> validate_collectives(const CsvTable& table, const RowLibrary& library);

struct SampleErrors {
  std::string group;
  int samples = 0;
  double mean = 0;  ///< of absolute relative errors
  double median = 0;
  double bias = 0;  ///< mean signed
};
/// By group, "all" first; only samples of `large` size when asked for.
std::vector<SampleErrors> sample_errors(const std::vector<MeasuredSample>& samples, bool large_only);

}  // namespace tracecast
