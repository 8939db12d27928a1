/// \file
/// Results of the fit of collectives: the tuning in a topology file, and the table of errors.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/network/cluster.hpp"
#include "tools/accuracy/fit/collective_samples.hpp"

namespace tracecast::accuracy {

/// `text` of a topology file with its tuning and the source of it replaced.
/// Requires a topology with an object of sources
std::string with_tuning(const std::string& text, const CollectiveTuning& tuning);

/// Errors of the forecast busbw of one curve or source, |predicted / measured - 1|.
struct BusbwError {
  int samples = 0;
  double sum = 0;
  double signed_sum = 0;
  void add(double predicted_seconds, double measured_seconds);
  double mean() const { return samples > 0 ? sum / samples : 0; }
  double bias() const { return samples > 0 ? signed_sum / samples : 0; }
};

/// All samples that one source has of one machine.
struct SourceErrors {
  std::string topology;
  BusbwError nccl;                           ///< above 1 MiB, NCCL's own numbers
  BusbwError tuned;                          ///< above 1 MiB
  BusbwError small;                          ///< tuned, up to 1 MiB
  std::map<std::string, BusbwError> curves;  ///< above 1 MiB, by collective and ranks
};

/// By source and system. `clusters` by name, with their tunings.
using Errors = std::map<std::string, SourceErrors>;
Errors errors_of(const std::vector<CollectiveSample>& samples, const std::map<std::string, Cluster>& clusters);

/// A Markdown table of the sources, the means over sources and over samples, and the worst curves. `held_out`: the
/// same by tunings that have not seen the source; empty: a table without that column.
std::string to_markdown(const Errors& errors, const Errors& held_out = {});

}  // namespace tracecast::accuracy
