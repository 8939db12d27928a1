/// Capacity planning: the best layouts on every machine under consideration, what each means for the whole job, and which
/// of them to take.
///
/// Every (topology, number of GPUs) is searched on its own (planner.hpp): on one machine all objectives fall with the step
/// time, so its fastest layouts are its best ones by any of them. Between machines the objective decides.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/search/economics.hpp"
#include "sim/search/planner.hpp"

namespace tracecast {

enum class Objective {
  time,        ///< shortest time to train the tokens
  throughput,  ///< most tokens per second and GPU
  cost,        ///< least money for the tokens
  energy,      ///< least energy for the tokens
  gpus,        ///< fewest GPUs that meet the constraints; ties by time
};
const char* to_string(Objective objective);

/// What is asked of the whole job. 0: not asked.
struct JobTarget {
  double tokens = 0;      ///< with batches that are not too large (training.critical_batch_tokens)
  double days = 0;        ///< to finish in
  double budget_usd = 0;  ///< at the typical price
};

/// One machine under consideration, with one global batch: a scenario sized for it.
struct MachineChoice {
  std::string topology;
  int gpus = 0;
  Scenario scenario;
  double goodput = 1;  ///< share of the wall time in which training goes on
};

/// One layout on one machine, and what the job takes there.
struct Offer {
  int machine = 0;  ///< index into CapacityPlan::machines
  Evaluation evaluation;
  double tokens_per_s = 0;  ///< while it trains
  double tokens_per_s_per_gpu = 0;
  double days = 0;  ///< wall time for the tokens, goodput included
  std::optional<Range3> cost_usd;
  std::optional<Range3> energy_mwh;
  std::optional<Range3> usd_per_million_tokens;
  std::string misses;  ///< which constraint it does not meet; empty: all are met
};

/// Why an offer is not the first: what of its step takes longer per token.
struct Slowdown {
  std::string cause;     ///< "exposed tensor parallel", "pipeline bubble", "compute", …
  double seconds = 0;    ///< per step of the first, more than there
  double slower_by = 0;  ///< share: time per token against the first
};

/// A better machine, or a larger batch, searched anew.
struct Upgrade {
  std::string what;   ///< "2x NIC rate"
  std::string limit;  ///< what it relieves: compute, network, memory, batch, host
  double step_time_s = 0;
  double faster_by = 0;  ///< share of the time per token that it saves
  std::string layout;    ///< when another layout is best there; empty: the same
};

struct MachineOutcome {
  MachineChoice choice;
  SearchResult result;
};

struct CapacityPlan {
  Objective objective = Objective::time;
  JobTarget target;
  std::vector<MachineOutcome> machines;
  std::vector<Offer> offers;  ///< best first; those that miss a constraint come last
  std::vector<int> pareto;    ///< offers that none beats in both time and (money, or else GPUs), by GPUs
  /// [i]: of offers[i] against offers[0]; the cause only on the same topology with as many GPUs, else it is empty
  std::vector<Slowdown> runners_up;
  std::string limit;  ///< what the best layout's step is made of, largest part first
};

/// Ranks what searches found. Requires a result for every machine.
CapacityPlan rank_offers(std::vector<MachineOutcome> machines, Objective objective, const JobTarget& target,
                         const Economics* economics);

/// The step of an evaluation by heading: compute, exposed communication by traffic, bubble, host, optimizer. Means over
/// ranks; they sum to the step time.
std::vector<std::pair<std::string, double>> step_parts(const Evaluation& evaluation);

/// What of the other's step takes longer than of the best's; `steps` of it are one of the best's.
Slowdown slower_than(const Evaluation& other, const Evaluation& best, double steps = 1);

/// Evaluates rounds of a scenario, which outlives it.
using EvaluatorOf = std::function<EvaluateRound(const Scenario&)>;

/// What would help: each upgrade is applied to the machine of the best offer and the space searched again.
std::vector<Upgrade> try_upgrades(const MachineChoice& machine, const SearchSpace& space, const Evaluation& best,
                                  const SearchOptions& options, const EvaluatorOf& evaluator);

}  // namespace tracecast
