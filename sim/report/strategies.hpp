/// The table of parallel strategies: what each divides, keeps whole, communicates, with which collective and how often.
///
/// Nothing in it is typed in: each strategy is laid over a small job, its step graph is built, and the row is read off.
///
///   divided, whole   of tokens, weights, gradients, optimizer states and activations of one rank, against one GPU doing the same
///                    global batch
///   communicates     kinds of traffic and collectives of the step graph, gradient norms aside
///   how often        the calls of a step, compared with those of twice the layers and of twice the micro-batches
///   hidden           1 - exposed / busy time of that traffic
///   same operators   do the matrix multiplications have the shapes of one GPU? If so the model's code stays as it is
///   up to            the largest power of two of ranks that the plan accepts, each with a micro-batch of its own
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/scenario.hpp"
#include "sim/network/network_model.hpp"
#include "sim/report/text.hpp"

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
  int ranks = 1;
  std::map<std::string, double> share;  ///< of one rank: tokens, weights, gradients, optimizer, activations; 1: whole
  std::vector<StrategyTraffic> traffic;
  double hidden = 0;            ///< share of the communication that the step does not wait for
  bool same_operators = false;  ///< the matrix multiplications of one GPU
  int largest = 0;              ///< ranks; 0: no limit found
  std::string limit;            ///< the plan's words against twice as many
  double bubble = 0;            ///< mean over ranks
};

/// How the words come: "per step", "per micro-batch", "per layer and micro-batch".
std::string how_often(const StrategyTraffic& traffic);
/// The names in `share` that are divided (below 0.9), or whole.
std::vector<std::string> divided(const StrategyRow& row);
std::vector<std::string> whole(const StrategyRow& row);

/// Every strategy over `base`, whose layout is put aside: dp, zero-1, zero-2, zero-3, hsdp, pp, tp, tp-gather, cp, ep, ps.
/// `ranks` >= 2. A strategy that the model or machine refuses has the reason as `limit` and no traffic.
/// Errors: the base itself cannot be planned.
Result<std::vector<StrategyRow>> strategy_table(const Scenario& base, int ranks);

std::string strategies_terminal(const std::vector<StrategyRow>& rows, const TextStyle& style);
std::string strategies_markdown(const std::vector<StrategyRow>& rows);
std::string strategies_json(const std::vector<StrategyRow>& rows);

}  // namespace tracecast
