/// \file
/// Capacity planning: the best layouts on each machine, their time and cost for the whole job, and a ranking.
///
/// Every (topology, number of GPUs) is searched separately (planner.hpp). On one machine every objective improves with
/// a shorter step, so its fastest layouts are its best. The objective compares layouts of different machines.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/io/economics.hpp"
#include "sim/search/planner.hpp"

namespace tracecast {

enum class Objective {
  time,        ///< shortest time to train the tokens
  throughput,  ///< most tokens per second and GPU
  cost,        ///< least money for the tokens
  energy,      ///< least energy for the tokens
  gpus,        ///< fewest GPUs that meet the constraints, then shortest step
};
template <>
struct EnumNames<Objective> {
  static constexpr NamedValue<Objective> table[] = {{Objective::time, "time"},
                                                    {Objective::throughput, "throughput"},
                                                    {Objective::cost, "cost"},
                                                    {Objective::energy, "energy"},
                                                    {Objective::gpus, "gpus"}};
};

/// Requirements of the whole job. 0: none.
struct JobTarget {
  double tokens = 0;      ///< to train, counted for batches below training.critical_batch_tokens
  double days = 0;        ///< to finish in
  double budget_usd = 0;  ///< at the typical price
};

/// One machine under consideration, with one global batch: a scenario sized for it.
struct MachineChoice {
  std::string topology;
  int gpus = 0;
  Scenario scenario;
  double goodput = 1;                       ///< share of the wall time with productive training
  std::vector<std::string> overrides = {};  ///< "cluster.world_size=512": what was set to read the scenario
};

/// "dgx-h100", "gb200-nvl72, 64 of 72 GPUs per rack".
std::string machine_text(const MachineChoice& machine);

/// One layout on one machine, with the time and cost of the job.
struct Candidate {
  int machine = 0;  ///< index into CapacityPlan::machines
  Evaluation evaluation;
  double tokens_per_s = 0;  ///< without outages
  double tokens_per_s_per_gpu = 0;
  double days = 0;  ///< wall time for the tokens, goodput included
  std::optional<Range3> cost_usd;
  std::optional<Range3> energy_mwh;
  std::optional<Range3> usd_per_million_tokens;
  std::string misses;  ///< the constraint that it violates; empty: none
};

/// Why a candidate is not the first: the part of its step that takes longer per token.
struct Slowdown {
  std::string cause;     ///< "exposed tensor parallel", "pipeline bubble", "compute", …
  double seconds = 0;    ///< extra time per step of the first
  double slower_by = 0;  ///< time per token relative to the first, minus 1
};

/// A better machine or a larger batch, with a new search.
struct Upgrade {
  std::string what;   ///< "2x NIC rate"
  std::string limit;  ///< what it relieves: compute, NICs, NVLink, memory, batch, host
  double step_time_s = 0;
  double faster_by = 0;  ///< share of the time per token that is saved
  std::string layout;    ///< the best layout, if it is another one; empty: the same
};

struct MachineOutcome {
  MachineChoice choice;
  SearchResult result;
};

struct CapacityPlan {
  Objective objective = Objective::time;
  JobTarget target;
  std::vector<MachineOutcome> machines;
  std::vector<Candidate> candidates;  ///< best first; those that violate a constraint come last
  std::vector<int> pareto;  ///< candidates that no other beats in both time and money (or GPUs without prices)
  /// [i]: candidates[i] compared with candidates[0]; no cause if topology or number of GPUs differ
  std::vector<Slowdown> runners_up;
  std::string limit;  ///< parts of the step of the best layout, largest first
};

/// Ranks the results of all searches. Requires a result for every machine. Without `economics` no costs.
CapacityPlan rank_candidates(std::vector<MachineOutcome> machines, Objective objective, const JobTarget& target,
                             const Economics* economics);

/// Step time by category in seconds: compute, exposed communication by traffic, bubble, host, optimizer. Means over
/// ranks, which sum to the step time.
std::vector<std::pair<std::string, double>> step_parts(const Evaluation& evaluation);

/// The part of the step of `other` that takes longer than that of `best`; `steps` steps of `other` equal one of `best`.
Slowdown slower_than(const Evaluation& other, const Evaluation& best, double steps = 1);

/// Makes the evaluator of a scenario, which must outlive it.
using EvaluatorOf = std::function<EvaluateRound(const Scenario&)>;

/// Applies each upgrade to the machine of the best candidate and searches the space again.
std::vector<Upgrade> try_upgrades(const MachineChoice& machine, const SearchSpace& space, const Evaluation& best,
                                  const SearchOptions& options, const EvaluatorOf& evaluator);

}  // namespace tracecast
