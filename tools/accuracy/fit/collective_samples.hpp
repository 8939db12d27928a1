/// \file
/// Measured collectives of public benchmarks, each with the shipped topology of its machine.
#pragma once

#include <filesystem>
#include <vector>

#include "sim/base/result.hpp"
#include "tools/accuracy/collective_tables.hpp"

namespace tracecast::accuracy {

/// Reads `data`/collectives: nccl-tests (recommended settings), aiconfigurator's nccl_intranode (half precision:
/// integers cannot use NVLS), Vidur (one row in 16, from 64 KiB, its timer has 1 us), SimAI's ratios of the NIC rate
/// (rings); and `published`, the shipped table of our own form. Left out: unknown machines, and samples that read_collectives
/// excludes.
/// Errors: a file is missing or has another shape.
Result<std::vector<CollectiveSample>> read_collective_samples(const std::filesystem::path& data,
                                                              const std::filesystem::path& published);

}  // namespace tracecast::accuracy
