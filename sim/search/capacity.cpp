#include "sim/search/capacity.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/base/result.hpp"
#include "sim/model/scaling.hpp"

namespace tracecast {
namespace {

constexpr double kSecondsPerDay = 86400;

const MachineChoice& choice_of(const CapacityPlan& plan, const Candidate& candidate) {
  return plan.machines[static_cast<std::size_t>(candidate.machine)].choice;
}

/// Tokens of progress per step: the batch, reduced if it exceeds the critical batch.
double progress_of_step(const MachineChoice& choice) {
  const Training& training = choice.scenario.training;
  const double batch = static_cast<double>(training.global_batch_size) * static_cast<double>(training.seq_length);
  return batch / tokens_with_batch(1, batch, static_cast<double>(training.critical_batch_tokens));
}

/// Without outages.
double progress_per_s(const CapacityPlan& plan, const Candidate& candidate) {
  return progress_of_step(choice_of(plan, candidate)) / candidate.evaluation.step_time_s;
}

/// Seconds of wall time.
double time_per_token(const CapacityPlan& plan, const Candidate& candidate) {
  return 1 / (progress_per_s(plan, candidate) * choice_of(plan, candidate).goodput);
}

double value(const Candidate& candidate, const CapacityPlan& plan) {
  const double unknown = std::numeric_limits<double>::infinity();
  switch (plan.objective) {
    case Objective::time:
      return time_per_token(plan, candidate);
    case Objective::throughput:
      return -candidate.tokens_per_s_per_gpu;
    case Objective::cost:
      return candidate.usd_per_million_tokens ? candidate.usd_per_million_tokens->typical : unknown;
    case Objective::energy:
      return candidate.energy_mwh ? candidate.energy_mwh->typical : unknown;
    case Objective::gpus:
      return choice_of(plan, candidate).gpus;
  }
  return unknown;
}

std::string missed(const Candidate& candidate, const JobTarget& target) {
  if (target.days > 0 && target.tokens > 0 && candidate.days > target.days)
    return fmt::format("takes {:.1f} days, not {:g}", candidate.days, target.days);
  if (target.budget_usd > 0 && candidate.cost_usd && candidate.cost_usd->typical > target.budget_usd)
    return fmt::format("costs {:.0f} USD, not {:.0f}", candidate.cost_usd->typical, target.budget_usd);
  if (target.budget_usd > 0 && !candidate.cost_usd) return "has no known price";
  return "";
}

Candidate candidate_of(int machine, const MachineChoice& choice, const Evaluation& evaluation, const JobTarget& target,
                       const Economics* economics) {
  Candidate candidate;
  candidate.machine = machine;
  candidate.evaluation = evaluation;
  const Training& training = choice.scenario.training;
  const double tokens_per_step =
      static_cast<double>(training.global_batch_size) * static_cast<double>(training.seq_length);
  candidate.tokens_per_s = tokens_per_step / evaluation.step_time_s;
  candidate.tokens_per_s_per_gpu = candidate.tokens_per_s / choice.gpus;
  const double progress = progress_of_step(choice) / evaluation.step_time_s * choice.goodput;
  if (target.tokens > 0) candidate.days = target.tokens / progress / kSecondsPerDay;
  if (economics == nullptr) return candidate;
  const std::string& gpu = choice.scenario.profile.name;
  const double gpu_hours_per_token = choice.gpus / progress / 3600;
  if (const auto price = economics->price_per_gpu_hour(gpu)) {
    candidate.usd_per_million_tokens = *price * (gpu_hours_per_token * 1e6);
    if (target.tokens > 0) candidate.cost_usd = *price * (gpu_hours_per_token * target.tokens);
  }
  if (const auto kilowatts = economics->kilowatts_per_gpu(gpu)) {
    const double tokens = target.tokens > 0 ? target.tokens : 1e6;
    candidate.energy_mwh = *kilowatts * (gpu_hours_per_token * tokens / 1000);
  }
  return candidate;
}

Slowdown difference(const CapacityPlan& plan, const Candidate& candidate, const Candidate& first) {
  const double steps = progress_of_step(choice_of(plan, first)) / progress_of_step(choice_of(plan, candidate));
  return slower_than(candidate.evaluation, first.evaluation, steps);
}

/// Candidates that no other beats in both time and cost (or number of GPUs, without prices).
std::vector<int> pareto_front(const CapacityPlan& plan) {
  const auto time = [&](const Candidate& candidate) { return time_per_token(plan, candidate); };
  const bool priced = std::all_of(plan.candidates.begin(), plan.candidates.end(), [](const Candidate& candidate) {
    return candidate.usd_per_million_tokens.has_value();
  });
  const auto expense = [&](const Candidate& candidate) {
    return priced ? candidate.usd_per_million_tokens->typical : choice_of(plan, candidate).gpus;
  };
  std::vector<int> front;
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const double own_time = time(plan.candidates[i]);
    const double own_expense = expense(plan.candidates[i]);
    const bool beaten = std::any_of(plan.candidates.begin(), plan.candidates.end(), [&](const Candidate& other) {
      const double t = time(other);
      const double e = expense(other);
      return t <= own_time && e <= own_expense && (t < own_time || e < own_expense);
    });
    if (!beaten) front.push_back(static_cast<int>(i));
  }
  return front;
}

std::string limit_of(const Evaluation& best) {
  auto parts = step_parts(best);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, seconds] : parts) {
    const double share = seconds / best.step_time_s;
    if (share < 0.005) break;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", name, 100 * share);
  }
  return text;
}

struct UpgradeRule {
  const char* what;
  const char* limit;
  void (*apply)(Scenario&);
};

void scale(Bandwidth& rate, double factor) {
  rate.bytes_per_second = static_cast<std::int64_t>(static_cast<double>(rate.bytes_per_second) * factor);
}

constexpr UpgradeRule kUpgrades[] = {
    {"2x NIC rate", "NICs", [](Scenario& s) { scale(s.cluster.node.nic_rate, 2); }},
    {"2x NVLink rate", "NVLink", [](Scenario& s) { scale(s.cluster.node.gpu_link, 2); }},
    {"1.5x GPU memory", "memory", [](Scenario& s) { s.profile.memory.count = s.profile.memory.count / 2 * 3; }},
    {"1.5x memory bandwidth", "compute", [](Scenario& s) { s.profile.memory_bandwidth *= 1.5; }},
    {"1.5x tensor-core rate", "compute",
     [](Scenario& s) {
       for (auto& [precision, flops] : s.profile.peak_flops) flops *= 1.5;
     }},
    {"2x global batch", "batch", [](Scenario& s) { s.training.global_batch_size *= 2; }},
    {"no host overhead", "host",
     [](Scenario& s) { s.profile.host.launch = s.profile.host.graph_launch = s.profile.host.step_overhead = 0; }},
};

}  // namespace

std::string machine_text(const MachineChoice& machine) {
  const NodeSpec& node = machine.scenario.cluster.node;
  if (node.installed_gpus == 0) return machine.topology;
  return fmt::format("{}, {} of {} GPUs per rack", machine.topology, node.gpus, node.installed_gpus);
}

std::vector<std::pair<std::string, double>> step_parts(const Evaluation& evaluation) {
  std::vector<std::pair<std::string, double>> parts;
  parts.emplace_back("compute", evaluation.compute_s);
  for (std::size_t kind = 0; kind < evaluation.exposed_s.size(); ++kind) {
    std::string name = fmt::format("exposed {}", to_string(static_cast<Traffic>(kind)));
    std::replace(name.begin(), name.end(), '_', ' ');
    parts.emplace_back(std::move(name), evaluation.exposed_s[kind]);
  }
  parts.emplace_back("pipeline bubble", evaluation.bubble_fraction * evaluation.step_time_s);
  parts.emplace_back("host", evaluation.host_s);
  parts.emplace_back("optimizer", evaluation.optimizer_s);
  return parts;
}

Slowdown slower_than(const Evaluation& other, const Evaluation& best, double steps) {
  Slowdown result;
  result.slower_by = steps * other.step_time_s / best.step_time_s - 1;
  const auto own = step_parts(other);
  const auto first = step_parts(best);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double more = steps * own[i].second - first[i].second;
    if (more <= result.seconds) continue;
    result.seconds = more;
    result.cause = own[i].first;
  }
  return result;
}

CapacityPlan rank_candidates(std::vector<MachineOutcome> machines, Objective objective, const JobTarget& target,
                             const Economics* economics) {
  CapacityPlan plan;
  plan.objective = objective;
  plan.target = target;
  plan.machines = std::move(machines);
  for (std::size_t m = 0; m < plan.machines.size(); ++m)
    for (const Evaluation& each : plan.machines[m].result.best) {
      Candidate candidate = candidate_of(static_cast<int>(m), plan.machines[m].choice, each, target, economics);
      candidate.misses = missed(candidate, target);
      plan.candidates.push_back(std::move(candidate));
    }
  const auto key = [&](const Candidate& candidate) {
    return std::tuple(!candidate.misses.empty(), value(candidate, plan), candidate.evaluation.step_time_s,
                      candidate.machine, candidate.evaluation.layout.id);
  };
  std::sort(plan.candidates.begin(), plan.candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
  plan.pareto = pareto_front(plan);
  for (const Candidate& candidate : plan.candidates)
    plan.runners_up.push_back(difference(plan, candidate, plan.candidates.front()));
  if (!plan.candidates.empty()) plan.limit = limit_of(plan.candidates.front().evaluation);
  return plan;
}

std::vector<Upgrade> try_upgrades(const MachineChoice& machine, const SearchSpace& space, const Evaluation& best,
                                  const SearchOptions& options, const EvaluatorOf& evaluator) {
  SearchOptions one = options;
  one.best = 1;
  one.exhaustive = false;
  std::vector<Upgrade> upgrades;
  for (const UpgradeRule& rule : kUpgrades) {
    MachineChoice changed = machine;
    rule.apply(changed.scenario);
    const SearchResult found = search(changed.scenario, space, one, evaluator(changed.scenario));
    if (found.best.empty()) continue;
    const Evaluation& winner = found.best.front();
    const double steps = progress_of_step(machine) / progress_of_step(changed);
    upgrades.push_back({rule.what, rule.limit, winner.step_time_s, 1 - steps * winner.step_time_s / best.step_time_s,
                        winner.layout == best.layout ? "" : describe(winner.layout, machine.gpus)});
  }
  std::stable_sort(upgrades.begin(), upgrades.end(),
                   [](const Upgrade& a, const Upgrade& b) { return a.faster_by > b.faster_by; });
  return upgrades;
}

}  // namespace tracecast
