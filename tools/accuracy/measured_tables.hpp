/// \file
/// Measured operators and collectives of a table beside the forecasts of the cost models.
///
/// Isolated measurements are compared without in-training factors, measurements inside a training step with them. The
/// factor is named in both cases.   Tables: kernel_tables.hpp, collective_tables.hpp, docs/formats/runs.md
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "tools/accuracy/rows/row_library.hpp"

namespace tracecast::accuracy {

struct MeasuredSample {
  int table = 0;      ///< index of the table, of several
  int line = 0;       ///< of its file
  std::string group;  ///< "h100 gemm bf16", "dgx-h100 all_reduce", "p5.48xlarge all_gather"
  double predicted_s = 0;
  double measured_s = 0;
  bool large = true;  ///< collectives: above 1 MiB; GEMMs: m, n and k of 1024 and more; attention: 1024 tokens and more
  bool held_out = false;  ///< no fit has seen it, though profiles were fitted to its table
  std::string factor;     ///< the in-training factor of this kind of work, by its name in the profile: "gemm"
  double in_training = 1;
  bool with_factor = false;  ///< the prediction includes it
  std::string excluded;      ///< why it does not count; "": it counts
  std::string skipped;       ///< why it has no forecast; "": it has one
  double error() const { return predicted_s / measured_s - 1; }
};

/// Errors: those of read_kernels; in a table in the project's own form an unknown profile or attention kernel.
/// Rows of other tables on GPUs without a profile are skipped.
Result<std::vector<MeasuredSample>> validate_kernels(const CsvTable& table, const RowLibrary& library);

/// Errors: those of read_collectives; in a table in the project's own form an unknown topology, or more `ranks` than
/// it has.
Result<std::vector<MeasuredSample>> validate_collectives(const CsvTable& table, const RowLibrary& library);

/// Mean of absolute relative errors over some samples.
struct MeanError {
  int samples = 0;
  double mean = 0;
};

struct SampleErrors {
  std::string group;
  std::string excluded;  ///< why the group does not count in "all"; "": it counts
  int samples = 0;
  double mean = 0;  ///< of absolute relative errors
  double median = 0;
  double bias = 0;         ///< mean signed
  MeanError held_out;      ///< samples that no fit has seen
  MeanError large;         ///< of large size; of those held out where there are any
  std::string factor;      ///< MeasuredSample's, where all samples of the group have the same
  double in_training = 0;  ///< mean of the samples: by the sustained clock it depends on the size
  bool with_factor = false;
};
/// By group, "all" first, groups that do not count last; only samples of `large` size when asked for.
std::vector<SampleErrors> sample_errors(const std::vector<MeasuredSample>& samples, bool large_only);

}  // namespace tracecast::accuracy
