/// \file
/// Compute slowed by concurrent transfers on the same GPU.
///
/// NCCL's channels are thread blocks: a collective takes that many SMs from concurrent compute. The data that it moves
/// passes through the GPU's memory, which memory-bound work needs as well. While a collective moves, an operator of the
/// compute stream keeps the following share of its speed, at least a tenth:
///
///   compute-bound   1 - channels / SMs
///   memory-bound    1 - 2 size / duration / memory bandwidth        every byte is read once and written once
///
/// Several concurrent collectives leave the smallest of their shares. Shares are integers in units of 1 / kFullSpeed, and
///
///   work of an operator = duration x kFullSpeed
///   its end             = the first picosecond at which the integral of its speed reaches its work
///
/// A collective slows from the instant at which it starts (its last member has arrived) until it ends; all events of one
/// instant count together. So the result depends neither on the order of events nor on how time is divided. On a slow rank,
/// the duration is the slowed one.
///
/// Compared with Galvatron's overlap coefficient of 8-GPU A100 nodes, 1.126 (12 of 108 SMs). Leaves out: transfers slowed by
/// compute, transfers that move less per second on shared links, caches, clocks, and pipeline messages, which copy engines
/// move.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/cost/profile.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// The speed of an operator without concurrent transfers.
inline constexpr std::int32_t kFullSpeed = 1 << 20;

/// What limits an operator, and so what it shares with transfers. `nothing`: operations without an operator.
enum class Bound : std::uint8_t { nothing, compute, memory };
Bound bound_of(OperatorKind kind);

/// The speeds that operators keep; 1 / kFullSpeed of their full speed.
struct Speeds {
  std::int32_t compute_bound = kFullSpeed;
  std::int32_t memory_bound = kFullSpeed;

  std::int32_t of(Bound bound) const {
    if (bound == Bound::nothing) return kFullSpeed;
    return bound == Bound::compute ? compute_bound : memory_bound;
  }
  bool full() const { return compute_bound == kFullSpeed && memory_bound == kFullSpeed; }
  bool operator==(const Speeds&) const = default;
};

inline Speeds slowest(const Speeds& a, const Speeds& b) {
  return {std::min(a.compute_bound, b.compute_bound), std::min(a.memory_bound, b.memory_bound)};
}

/// The share of its full speed, 0.1 to 1, that an operator keeps while the collective moves.
double speed_during(const Profile& gpu, Bound bound, const CollectiveCost& cost, Bytes size);

/// [collective of the graph] The speeds that it leaves to concurrent compute on `gpu`.
std::vector<Speeds> speeds_beside_collectives(const StepGraph& graph, const Profile& gpu);

}  // namespace tracecast
