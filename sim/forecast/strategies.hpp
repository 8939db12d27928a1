/// \file
/// The table of parallel strategies: what each divides, replicates and communicates, with which collective and how
/// often.
///
/// All values are computed: each strategy is applied to a small job, and the row is derived from its step graph.
///
///   divided, whole   tokens, weights, gradients, optimizer states and activations of one rank, relative to one GPU
///                    with the same global batch
///   communicates     kinds of traffic and collectives of the step graph, without gradient norms
///   how often        calls per step, compared with those for twice the layers and for twice the micro-batches
///   hidden           1 - exposed / busy time of that traffic
///   same operators   true if the matrix multiplications have the shapes of one GPU: the code stays the same
///   global batch     sequences of a step; one GPU with as many micro-batches has kOneGpuBatch
///   up to            the largest power of two of ranks that the plan accepts, each with its own micro-batch
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/scenario.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// One kind of communication of a strategy.
struct StrategyTraffic {
  std::string what;  ///< "gradients", "weights", "activations" …
  Collective collective = Collective::all_reduce;
  bool per_layer = false;       ///< calls grow with the layers
  bool per_microbatch = false;  ///< calls grow with the micro-batches
  std::int64_t calls = 0;       ///< of one rank in a step
  double sent_bytes = 0;        ///< the same
};

struct StrategyRow {
  std::string name;   ///< "dp", "zero-3" …
  std::string title;  ///< "data parallel"
  std::string note;   ///< what the row changes in the model; usually empty
  int ranks = 1;
  std::map<std::string, double> share;  ///< of one rank: tokens, weights, gradients, optimizer, activations; 1: whole
  std::vector<StrategyTraffic> traffic;
  double hidden = 0;              ///< share of the communication time that the step does not wait for
  bool same_operators = false;    ///< the matrix multiplications of one GPU
  int largest = 0;                ///< ranks; 0: no limit found
  std::string limit;              ///< error message of the plan for twice as many ranks
  double bubble = 0;              ///< mean over ranks
  std::int64_t global_batch = 0;  ///< sequences of a step
};

/// The global batch of one GPU in this table: micro-batches of one sequence. Every strategy has as many micro-batches.
inline constexpr int kOneGpuBatch = 4;

/// "per step", "per micro-batch", "per layer" or "per layer and micro-batch".
std::string how_often(const StrategyTraffic& traffic);
/// The names in `share` that are divided (below the middle between 1 / ranks and 1) or whole.
std::vector<std::string> divided(const StrategyRow& row);
std::vector<std::string> whole(const StrategyRow& row);

/// What speaks for and against a strategy, derived from its row: operators of one GPU, what it divides, a batch that stays;
/// a batch that grows with the ranks, states that every rank keeps whole, traffic in every layer, waits, bubble, limits.
std::vector<std::string> pros(const StrategyRow& row);
std::vector<std::string> cons(const StrategyRow& row);

/// One row per strategy: dp, zero-1, zero-2, zero-3, hsdp, pp, tp, tp-gather, cp, ep, ps. The layout of `base` is
/// ignored. A strategy that is impossible for the model or machine has the reason as `limit` and no traffic. Requires
/// ranks >= 2. Errors: `base` on one GPU has no plan.
Result<std::vector<StrategyRow>> strategy_table(const Scenario& base, int ranks);

}  // namespace tracecast
