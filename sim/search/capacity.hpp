/// \file
/// Capacity planning: the best layouts on each machine, their time and cost for the whole job, and a ranking.
///
/// Every (topology, number of GPUs) is searched separately (planner.hpp). On one machine every objective improves with
/// a shorter step, so its fastest layouts are its best. The objective compares layouts of different machines.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/economics/economics.hpp"
#include "sim/search/planner.hpp"

namespace tracecast {

enum class Objective {
  time,        ///< shortest time to train the tokens
  throughput,  ///< most tokens/s per GPU
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
  double tokens = 0;      ///< to train, without padding, counted for batches below training.critical_batch_tokens
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
  std::string variant = {};                 ///< what makes it differ from its topology: "node.nics=4"
};

/// The name that the GPUs of a machine have in an assumption set; "a100 + h100" of several kinds, which no set has.
std::string gpus_text(const Scenario& scenario);
/// "dgx-h100", "gb200-nvl72, 64 of 72 GPUs per rack", "dgx-h100, node.nics=4".
std::string machine_text(const MachineChoice& machine);

/// What is known about a layout beside its step time. Without histories there are no failures.
struct LayoutFacts {
  double goodput = 1;        ///< mean share of the wall time with productive training
  double goodput_sd = 0;     ///< of one history of history_days
  double history_days = 30;  ///< longer jobs average over more failures: the variance falls with the days
  double step_p5_s = 0;      ///< 90 % interval of the forecast; 0: none
  double step_p95_s = 0;
  double counted_share = 1;  ///< of the tokens of a step (forecast.hpp)
  int spare_gpus = 0;        ///< of nodes that wait for a failure or are repaired; paid as those of the job (paid_gpus)
  std::string why_no_days = {};  ///< why the goodput says nothing about the length of the job; empty: it does
};

struct Quantiles {
  double p10 = 0;
  double p50 = 0;
  double p90 = 0;
};

/// A line of what a job costs.
struct MoneyLine {
  std::string name;  ///< a part of the price (PricePart), "spare nodes", or "unused GPUs"
  double usd = 0;    ///< at the typical price
};

/// One layout on one machine, with the time and cost of the job.
struct Candidate {
  int machine = 0;  ///< index into CapacityPlan::machines
  Evaluation evaluation;
  LayoutFacts facts;
  double tokens_per_s = 0;  ///< without outages
  double tokens_per_s_per_gpu = 0;
  double goodput = 1;
  PaidGpus paid;  ///< without prices: those of the job
  /// Wall time for the tokens, goodput included. 0: without tokens, or not known (why_no_days), as then are money and energy.
  double days = 0;
  std::optional<Range3> cost_usd;
  std::optional<Range3> energy_mwh;
  std::optional<Range3> usd_per_million_tokens;
  std::vector<MoneyLine> money;      ///< their sum is cost_usd->typical
  std::optional<Range3> co2_tonnes;  ///< energy by the grid of the region
  std::string misses;                ///< the constraints that it violates; empty: none
  // From the forecast's band, the failures, and prices and power between low and high together:
  std::optional<Quantiles> step_quantiles_s;
  std::optional<Quantiles> days_quantiles;
  std::optional<Quantiles> cost_quantiles_usd;
  std::optional<Quantiles> energy_quantiles_mwh;
  std::optional<double> within_days;        ///< probability to finish in the target's days
  std::optional<double> within_budget;      ///< probability to cost no more than the target's budget
  std::optional<double> within_target;      ///< probability to keep all that the target limits
  std::optional<Quantiles> ratio_to_first;  ///< of what is optimised; errors that both have in common cancel
  bool equals_first = false;                ///< P10 to P90 of that ratio contain 1
};

/// Why a candidate is not the first: the part of its step that takes longer per token.
struct Slowdown {
  std::string cause;     ///< "exposed tensor parallel", "pipeline bubble", "compute", …
  double seconds = 0;    ///< extra time per step of the first
  double slower_by = 0;  ///< time per token relative to the first, minus 1
};

struct MachineOutcome {
  MachineChoice choice;
  SearchResult result;
  std::vector<LayoutFacts> facts = {};  ///< of result.best; empty: choice.goodput for all, and no bands
  std::set<std::string> searched = {};  ///< keys that layouts of the search set (searched_keys)
};

/// The GPUs of one machine that make it likely to meet the target.
struct LikelySize {
  std::string topology;
  double probability = 0;
  std::optional<int> gpus;  ///< fewest of the sizes that were searched; nothing: none of them
  double most = 0;          ///< highest probability of these sizes. With a budget it may fall with the GPUs
  int most_likely = 0;      ///< the size that has it
};

struct CapacityPlan {
  Objective objective = Objective::time;
  JobTarget target;
  std::vector<MachineOutcome> machines;
  std::vector<Candidate> candidates;  ///< best first; those that violate a constraint come last, by missed_by()
  std::vector<Objective> trade_offs;  ///< of the front; by default time and money, or GPUs if none has a price
  /// Candidates that no other beats in one of these without being worse in another, and of which all are known.
  std::vector<int> pareto;
  /// [i]: candidates[i] compared with candidates[0]; no cause if topology or number of GPUs differ
  std::vector<Slowdown> runners_up;
  std::string limit;  ///< parts of the step of the best layout, largest first
};

/// The machine of one of its candidates.
const MachineChoice& choice_of(const CapacityPlan& plan, const Candidate& candidate);

/// A layout on a machine, with the time and cost of the job. Without `economics` no costs.
Candidate make_candidate(int machine, const MachineChoice& choice, const Evaluation& evaluation,
                         const LayoutFacts& facts, const JobTarget& target, const Economics* economics);

/// What an objective minimises; infinity: unknown. Compares candidates of one plan.
double objective_value(const CapacityPlan& plan, const Candidate& candidate, Objective objective);

/// How far a candidate misses the target: by how many doublings its days and its costs exceed what is allowed, together. Of those that
/// miss it by nearly as much the objective decides. 0: it meets the target; infinity: its price is not known.
double missed_by(const Candidate& candidate, const JobTarget& target);

/// Tokens of progress per step: those of the batch that are not padding, reduced if it exceeds the critical batch.
double progress_of_step(const MachineChoice& choice, const LayoutFacts& facts = {});

/// For 50, 80 and 95 % of each topology with several sizes. Empty without a target in days or money.
std::vector<LikelySize> likely_sizes(const CapacityPlan& plan);

struct RankOptions {
  int best = 0;                            ///< candidates that are kept of a machine, after ranking; 0: all
  std::vector<Objective> trade_offs = {};  ///< of the front; fewer than two: the usual ones (CapacityPlan::trade_offs)
};

/// Ranks the results of all searches. Requires a result for every machine. Without `economics` no costs.
CapacityPlan rank_candidates(std::vector<MachineOutcome> machines, Objective objective, const JobTarget& target,
                             const Economics* economics, const RankOptions& options = {});

/// Step time by category in seconds: compute, exposed communication by traffic, bubble, host, optimizer. Means over
/// ranks, which sum to the step time.
std::vector<std::pair<std::string, double>> step_parts(const Evaluation& evaluation);

/// The part of the step of `other` that takes longer than that of `best`; `steps` steps of `other` equal one of `best`.
Slowdown slower_than(const Evaluation& other, const Evaluation& best, double steps = 1);

}  // namespace tracecast
