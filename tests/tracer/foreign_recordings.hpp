/// \file
/// A recording as other tools write it.
#pragma once

#include <filesystem>
#include <vector>

#include "sim/io/trace.hpp"

namespace tracecast::test {

/// As PyTorch's profiler writes it: kernels with NCCL's arguments, launches, the rank. Groups are named by their members.
/// Requires collectives that are paired with their kernels, without messages.
void write_kineto(const Trace& trace, const std::filesystem::path& path);

/// As `nsys export --type sqlite` writes the processes of a node, one GPU each: kernels and launches; neither ranks nor sizes.
void write_nsight(const std::vector<Trace>& ranks, const std::filesystem::path& path);

}  // namespace tracecast::test
