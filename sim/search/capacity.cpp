#include "sim/search/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <tuple>
#include <utility>

#include <boost/math/distributions/triangular.hpp>
#include <fmt/format.h>

#include "sim/base/quantile.hpp"
#include "sim/base/random.hpp"
#include "sim/base/result.hpp"
#include "sim/base/words.hpp"
#include "sim/forecast/evidence.hpp"
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
  return 1 / (progress_per_s(plan, candidate) * candidate.goodput);
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

Candidate candidate_of(int machine, const MachineChoice& choice, const Evaluation& evaluation, double goodput,
                       const JobTarget& target, const Economics* economics) {
  Candidate candidate;
  candidate.goodput = goodput;
  candidate.machine = machine;
  candidate.evaluation = evaluation;
  const Training& training = choice.scenario.training;
  const double tokens_per_step =
      static_cast<double>(training.global_batch_size) * static_cast<double>(training.seq_length);
  candidate.tokens_per_s = tokens_per_step / evaluation.step_time_s;
  candidate.tokens_per_s_per_gpu = candidate.tokens_per_s / choice.gpus;
  const double progress = progress_of_step(choice) / evaluation.step_time_s * goodput;
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
  const MachineChoice& own = choice_of(plan, candidate);
  const MachineChoice& best = choice_of(plan, first);
  const double steps = progress_of_step(best) / progress_of_step(own);
  Slowdown result = slower_than(candidate.evaluation, first.evaluation, steps);
  if (own.topology == best.topology && own.gpus == best.gpus) return result;
  return {"", 0, result.slower_by};
}

/// Draws that all candidates share, so that they differ by what differs between them.
struct Draw {
  double step = 0;   ///< standard normal
  double level = 0;  ///< standard normal: of the goodput
  double price = 0;  ///< uniform
  double power = 0;  ///< uniform
};

std::vector<Draw> make_draws() {
  constexpr int kDraws = 4096;
  RandomStream random(21, 0, 0);
  std::vector<Draw> draws(kDraws);
  for (Draw& each : draws) {
    // Box and Muller: two independent normals.
    const double radius = std::sqrt(-2 * std::log(random.uniform()));
    const double angle = 2 * std::numbers::pi * random.uniform();
    each = {radius * std::cos(angle), radius * std::sin(angle), random.uniform(), random.uniform()};
  }
  return draws;
}

/// The value of a triangular distribution from low to high with its mode at typical, at this probability.
double triangular(const Range3& range, double probability) {
  if (range.high <= range.low) return range.typical;
  return quantile(boost::math::triangular(range.low, range.typical, range.high), probability);
}

Quantiles quantiles_of(const std::vector<double>& values) {
  return {quantile(values, 0.1), quantile(values, 0.5), quantile(values, 0.9)};
}

/// Step: log-normal with the forecast's 90 % interval. Goodput: normal, its variance over the job's days. Prices and power:
/// triangular. All independent of each other.
void add_quantiles(Candidate& candidate, const MachineChoice& choice, const LayoutFacts& facts,
                   const std::vector<Draw>& draws, const JobTarget& target, const Economics* economics) {
  if (facts.step_p5_s <= 0) return;
  const double sigma = std::log(facts.step_p95_s / facts.step_p5_s) / (2 * kNinetyPercent);
  const double middle = std::sqrt(facts.step_p5_s * facts.step_p95_s);
  const double days_of_mean = candidate.days > 0 ? candidate.days : facts.history_days;
  const double goodput_sd = facts.goodput_sd * std::sqrt(facts.history_days / std::max(days_of_mean, 1.0));
  const std::string& gpu = choice.scenario.profile.name;
  const std::optional<Range3> none;
  const std::optional<Range3> known_price = economics != nullptr ? economics->price_per_gpu_hour(gpu) : none;
  const std::optional<Range3> known_power = economics != nullptr ? economics->kilowatts_per_gpu(gpu) : none;
  const Range3 price = known_price.value_or(Range3{});
  const Range3 power = known_power.value_or(Range3{});
  std::vector<double> steps, days, cost, energy;
  int in_time = 0;
  int in_budget = 0;
  int in_both = 0;
  for (const Draw& draw : draws) {
    const double step = middle * std::exp(sigma * draw.step);
    steps.push_back(step);
    if (target.tokens <= 0) continue;
    const double goodput = std::clamp(facts.goodput + goodput_sd * draw.level, 0.01, 1.0);
    days.push_back(target.tokens / (progress_of_step(choice) / step * goodput) / kSecondsPerDay);
    const double gpu_hours = days.back() * 24 * choice.gpus;
    if (known_price) cost.push_back(gpu_hours * triangular(price, draw.price));
    if (known_power) energy.push_back(gpu_hours * triangular(power, draw.power) / 1000);
    const bool timely = target.days <= 0 || days.back() <= target.days;
    const bool affordable = target.budget_usd <= 0 || (known_price && cost.back() <= target.budget_usd);
    in_time += timely ? 1 : 0;
    in_budget += affordable ? 1 : 0;
    in_both += timely && affordable ? 1 : 0;
  }
  const auto share = [&](int hits) { return hits / static_cast<double>(draws.size()); };
  const bool limited = target.tokens > 0 && target.days > 0;
  const bool priced = known_price && target.tokens > 0 && target.budget_usd > 0;
  if (limited) candidate.within_days = share(in_time);
  if (priced) candidate.within_budget = share(in_budget);
  if (limited && (priced || target.budget_usd <= 0)) candidate.within_target = share(in_both);
  if (priced && target.days <= 0) candidate.within_target = share(in_both);
  candidate.step_quantiles_s = quantiles_of(steps);
  if (!days.empty()) candidate.days_quantiles = quantiles_of(days);
  if (!cost.empty()) candidate.cost_quantiles_usd = quantiles_of(cost);
  if (!energy.empty()) candidate.energy_quantiles_mwh = quantiles_of(energy);
}

/// P10 to P90 of what is optimised, in time for the same progress; nullopt: unknown.
std::optional<Quantiles> optimised(const CapacityPlan& plan, const Candidate& candidate) {
  if (plan.objective == Objective::cost) return candidate.cost_quantiles_usd;
  if (plan.objective == Objective::energy) return candidate.energy_quantiles_mwh;
  if (plan.objective == Objective::gpus) return std::nullopt;
  const MachineChoice& choice = choice_of(plan, candidate);
  if (plan.objective == Objective::time && candidate.days_quantiles) return candidate.days_quantiles;
  if (!candidate.step_quantiles_s) return std::nullopt;
  const double factor =
      (plan.objective == Objective::throughput ? choice.gpus : 1 / candidate.goodput) / progress_of_step(choice);
  const Quantiles& q = *candidate.step_quantiles_s;
  return Quantiles{q.p10 * factor, q.p50 * factor, q.p90 * factor};
}

/// Candidates that no other beats in both time and cost (or number of GPUs, without prices).
std::vector<int> pareto_front(const CapacityPlan& plan) {
  const auto time = [&](const Candidate& candidate) { return time_per_token(plan, candidate); };
  const bool priced = std::any_of(plan.candidates.begin(), plan.candidates.end(), [](const Candidate& candidate) {
    return candidate.usd_per_million_tokens.has_value();
  });
  const auto counts = [&](const Candidate& candidate) { return !priced || candidate.usd_per_million_tokens; };
  const auto expense = [&](const Candidate& candidate) {
    return priced ? candidate.usd_per_million_tokens->typical : choice_of(plan, candidate).gpus;
  };
  std::vector<int> front;
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    if (!counts(plan.candidates[i])) continue;
    const double own_time = time(plan.candidates[i]);
    const double own_expense = expense(plan.candidates[i]);
    const bool beaten = std::any_of(plan.candidates.begin(), plan.candidates.end(), [&](const Candidate& other) {
      if (!counts(other)) return false;
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
    parts.emplace_back(fmt::format("exposed {}", spaced(to_string(static_cast<Traffic>(kind)))),
                       evaluation.exposed_s[kind]);
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

std::vector<LikelySize> likely_sizes(const CapacityPlan& plan) {
  std::vector<LikelySize> sizes;
  std::map<std::string, std::map<int, double>> by_machine;  // the best probability of each size
  for (const Candidate& each : plan.candidates) {
    const MachineChoice& choice = choice_of(plan, each);
    if (!each.within_target) continue;
    double& known = by_machine[choice.topology][choice.gpus];
    known = std::max(known, *each.within_target);
  }
  for (const auto& [topology, of_size] : by_machine) {
    if (of_size.size() < 2) continue;
    for (const double probability : {0.5, 0.8, 0.95}) {
      const auto found = std::ranges::find_if(of_size, [&](const auto& each) { return each.second >= probability; });
      sizes.push_back({topology, probability, found == of_size.end() ? 0 : found->first});
    }
  }
  return sizes;
}

std::string factor_hint(int gpus, std::int64_t global_batch) {
  int odd = 1;  // what the batch lacks of the odd factors of the GPUs
  std::int64_t batch = global_batch;
  for (int rest = gpus, factor = 3; factor <= rest; factor += 2)
    for (; rest % factor == 0; rest /= factor) {
      if (batch % factor != 0) odd *= factor;
      if (batch % factor == 0) batch /= factor;
    }
  if (odd == 1) return "";
  const std::int64_t nearest = std::max<std::int64_t>(1, (global_batch + odd / 2) / odd) * odd;
  return fmt::format(
      "{} GPUs have a factor {} that a global batch of {} lacks, so that tensor, pipeline or context "
      "parallelism must have it (--global-batch {} would free it)",
      gpus, odd, global_batch, nearest);
}

CapacityPlan rank_candidates(std::vector<MachineOutcome> machines, Objective objective, const JobTarget& target,
                             const Economics* economics, int best) {
  CapacityPlan plan;
  plan.objective = objective;
  plan.target = target;
  plan.machines = std::move(machines);
  const std::vector<Draw> draws = make_draws();
  for (std::size_t m = 0; m < plan.machines.size(); ++m)
    for (std::size_t i = 0; i < plan.machines[m].result.best.size(); ++i) {
      const MachineOutcome& machine = plan.machines[m];
      const LayoutFacts facts = machine.facts.empty() ? LayoutFacts{machine.choice.goodput} : machine.facts[i];
      Candidate candidate =
          candidate_of(static_cast<int>(m), machine.choice, machine.result.best[i], facts.goodput, target, economics);
      add_quantiles(candidate, machine.choice, facts, draws, target, economics);
      candidate.misses = missed(candidate, target);
      plan.candidates.push_back(std::move(candidate));
    }
  const auto key = [&](const Candidate& candidate) {
    return std::tuple(!candidate.misses.empty(), value(candidate, plan), candidate.evaluation.step_time_s,
                      candidate.machine, candidate.evaluation.layout.id);
  };
  std::sort(plan.candidates.begin(), plan.candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
  std::vector<int> kept(plan.machines.size(), 0);
  if (best > 0)
    std::erase_if(plan.candidates,
                  [&](const Candidate& each) { return ++kept[static_cast<std::size_t>(each.machine)] > best; });
  if (!plan.candidates.empty()) {
    const auto first = optimised(plan, plan.candidates.front());
    for (Candidate& each : plan.candidates)
      if (const auto own = optimised(plan, each); own && first)
        each.equals_first = own->p10 <= first->p90 && first->p10 <= own->p90;
  }
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
    Evaluation winner = found.best.front();
    if (best.layout.id == kOwnLayout) {
      const Evaluation own = evaluate(changed.scenario, best.layout, {}, 0);
      if (own.fits && own.step_time_s < winner.step_time_s) winner = own;
    }
    const double steps = progress_of_step(machine) / progress_of_step(changed);
    upgrades.push_back({rule.what, rule.limit, winner.step_time_s, 1 - steps * winner.step_time_s / best.step_time_s,
                        winner.layout == best.layout ? "" : describe(winner.layout, machine.gpus)});
  }
  std::stable_sort(upgrades.begin(), upgrades.end(),
                   [](const Upgrade& a, const Upgrade& b) { return a.faster_by > b.faster_by; });
  return upgrades;
}

}  // namespace tracecast
