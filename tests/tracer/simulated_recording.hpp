/// \file
/// Recordings of a simulated step: what the recorder would have written on each rank, had GPUs run it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "sim/forecast/forecast.hpp"

namespace tracecast::test {

struct RecordingOptions {
  int steps = 2;
  double jitter = 0.003;                  ///< of each kernel, relative: uniform
  std::int64_t clock_ns = 1'000'000'000;  ///< ranks' clocks differ by up to this
  std::uint64_t seed = 1;
};

/// Writes `folder`/run.trace.RANK for every rank of an unfolded forecast with spans: launches and kernels as CUPTI gives them, with
/// symbols as names, NCCL's kernels from a rank's arrival to the transfer's end, and the events of NCCL's profiler
/// interface. No NVTX. Returns the paths in order of ranks.
std::vector<std::filesystem::path> write_recordings(const ForecastRun& run, const std::filesystem::path& folder,
                                                    const RecordingOptions& options = {});

}  // namespace tracecast::test
