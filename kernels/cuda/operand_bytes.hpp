/// \file
/// Device memory that operators need, in bytes: known before there is a device.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/operands.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast::cuda {

/// Of one operator: what it reads and what it writes. Activations are bf16, statistics and optimizer state fp32.
struct ByteNeed {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t narrow =
      0;  ///< inputs of 8 bits, from a ring of their own: random bytes of wider types are not all numbers
};
/// The larger of both, each kind for itself.
ByteNeed largest(const ByteNeed& a, const ByteNeed& b);
ByteNeed need_of(const Operator& op, const Widths& widths);
ByteNeed need_of(const CollectiveCall& call);
/// Of everything in the graph.
ByteNeed need_of(const StepGraph& graph, const Widths& widths);

/// Why an operator cannot be run on a GPU, "" when it can: formats that Hopper lacks, norms wider than shared memory.
std::string refusal(const Operator& op, const Widths& widths);

/// Bytes that a driver allocates: two rings, each at least kRing, and the tables beside them.
std::int64_t driver_bytes(const ByteNeed& need, const Widths& widths);

/// More than ten times the 50 MiB of second-level cache that an H100 or H200 has: operands come from memory.
inline constexpr std::int64_t kRing = std::int64_t{768} << 20;

/// The model's table of words and its gradient, random words and their targets, scale factors and scratch.
std::int64_t table_bytes(const Widths& widths);
inline constexpr std::int64_t kWords = 1 << 20;                     ///< random ids
inline constexpr std::int64_t kWorkspaces = std::int64_t{1} << 30;  ///< cuBLASLt's and cuDNN's, generously

}  // namespace tracecast::cuda
