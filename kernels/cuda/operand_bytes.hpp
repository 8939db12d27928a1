/// \file
/// Bytes of device memory that operators need; computed without a device.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/operands.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast::cuda {

/// Bytes that one operator reads and writes. Activations are bf16, statistics and optimizer state fp32.
struct ByteNeed {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t narrow = 0;  ///< 8-bit inputs, from a separate ring: random bytes of wider types may be NaN
};
/// The larger of both, separately for each kind.
ByteNeed largest(const ByteNeed& a, const ByteNeed& b);
ByteNeed need_of(const Operator& op, const Widths& widths);
ByteNeed need_of(const CollectiveCall& call);
/// Maximum over all operators of the graph.
ByteNeed need_of(const StepGraph& graph, const Widths& widths);

/// Why an operator cannot run on a GPU; "" if it can. Reasons: formats that Hopper lacks, attention in another precision than 16 bits,
/// norms too wide for shared memory, more tokens than random words.
std::string refusal(const Operator& op, const Widths& widths);

/// Why the time of an operator that runs here says nothing about a framework's; "" if it does. Its kernel moves other bytes, or is not
/// tuned.
std::string not_as_in_training(const Operator& op);

/// Bytes that a driver allocates: two rings of at least kRing each, and its tables.
std::int64_t driver_bytes(const ByteNeed& need, const Widths& widths);

/// More than ten times the L2 cache of an H100 or H200 (50 MiB), so that operands come from memory.
inline constexpr std::int64_t kRing = std::int64_t{768} << 20;

inline constexpr std::int64_t kWords = 1 << 20;                     ///< random ids
inline constexpr std::int64_t kWorkspaces = std::int64_t{1} << 30;  ///< of cuBLASLt and cuDNN, an upper bound

}  // namespace tracecast::cuda
