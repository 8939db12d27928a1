/// Measured collectives of public benchmarks, each with the shipped topology that stands for the machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast::calibrate {

/// One message size of one curve.
struct CollectiveSample {
  std::string source;  ///< as the data's README names it
  std::string system;
  std::string topology;  ///< file stem in topologies/
  int ranks = 0;
  CollectiveCall call;  ///< with the algorithm that was forced, if one was
  double seconds = 0;
};

/// Reads `data`/collectives: nccl-tests (recommended settings), aiconfigurator's nccl_intranode (half precision: integers
/// cannot use NVLS), Vidur (from 64 KiB, its timer has 1 us), SimAI's ratios of the NIC rate (rings). What is left out:
/// machines that nobody named, collectives over TCP, kernels of other libraries than NCCL and RCCL.
/// Errors: a file is missing or has another shape.
Result<std::vector<CollectiveSample>> read_collective_samples(const std::filesystem::path& data);

}  // namespace tracecast::calibrate
