/// \file
/// Compute slowed by concurrent transfers on the same GPU.
///
/// NCCL's channels are thread blocks: a collective takes that many SMs from concurrent compute. The data that it moves
/// passes through the GPU's memory, which memory-bound work needs as well. While a collective moves, an operator of the
/// compute stream keeps the following share of its speed, at least a tenth:
///
///   compute-bound   1 - channels / SMs
///   memory-bound    1 - 2 size / duration / memory bandwidth        every byte is read once and written once
///   multiplication  1 / (1 / (1 - channels / SMs) + e)              where its kernels are one block for each SM
///
/// Such a kernel seems to hand its tiles out to the blocks that run, but the first tile of each block is the block's own. Blocks
/// that find their SM taken begin when others end: their first tiles last one wave more, and the tiles of the others no longer end
/// together, half a wave on average. So e = 1.5 waves over those of the multiplication (OperatorCost::beside_collectives), but
/// one for a single wave. Measured on H200 with cuBLAS 13.1 (docs/validation/gpu.md#beside-a-collective): eight multiplications
/// beside 4 to 32 blocks, within 5 % where they take more than two waves; without e they are 14 % too fast. Attention is
/// as above within 2 %, memory-bound kernels within 4 % (root mean square; RMSNorm is up to 12 % slower). Libraries that run a
/// multiplication beside the exchange it belongs to tell it how many SMs are left (docs/references.md#sm-margins): e is for data-
/// and context-parallel collectives alone.
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
/// Compared with Galvatron's overlap coefficient of 8-GPU A100 nodes, 1.126 (12 of 108 SMs). Leaves out: other kinds of
/// GPUs in the job (`perturb.gpus`), which transfers slow as they slow the first kind; transfers that wait for the kernels before
/// them or are slowed by compute, transfers that move less per second on shared links, caches, clocks, and pipeline messages, which
/// copy engines move.
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

/// What an operator uses of a GPU that it shares with transfers.
struct GpuUse {
  Bound bound = Bound::nothing;
  std::uint16_t extra = 0;  ///< e, in units of 1 / kWholeExtra; only of compute-bound operators
};
inline constexpr std::int32_t kWholeExtra = 1 << 15;
GpuUse use_of(const CostedOperator& op);

/// The speeds that operators keep; 1 / kFullSpeed of their full speed.
struct Speeds {
  std::int32_t compute_bound = kFullSpeed;  ///< without e
  std::int32_t memory_bound = kFullSpeed;
  bool unexpected = false;  ///< SMs are taken of which multiplications were not told

  std::int32_t of(GpuUse use) const {
    if (use.bound == Bound::nothing) return kFullSpeed;
    if (use.bound == Bound::memory) return memory_bound;
    if (!unexpected || use.extra == 0) return compute_bound;
    constexpr std::int64_t kWhole = std::int64_t{kFullSpeed} * kWholeExtra;
    return static_cast<std::int32_t>(kWhole * compute_bound / (kWhole + std::int64_t{use.extra} * compute_bound));
  }
  bool full() const { return compute_bound == kFullSpeed && memory_bound == kFullSpeed; }
  bool operator==(const Speeds&) const = default;
};

inline Speeds slowest(const Speeds& a, const Speeds& b) {
  return {std::min(a.compute_bound, b.compute_bound), std::min(a.memory_bound, b.memory_bound),
          a.unexpected || b.unexpected};
}

/// The share of its full speed, 0.1 to 1 and without e, that an operator keeps while the collective moves.
double speed_during(const Profile& gpu, Bound bound, const CollectiveCost& cost, Bytes size);

/// [collective of the graph] The speeds that it leaves to concurrent compute on `gpu`.
std::vector<Speeds> speeds_beside_collectives(const StepGraph& graph, const Profile& gpu);

}  // namespace tracecast
