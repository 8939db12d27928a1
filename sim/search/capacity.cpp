#include "sim/search/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/graph/perturbation.hpp"
#include "sim/model/scaling.hpp"
#include "sim/search/uncertainty.hpp"

namespace tracecast {
namespace {

/// Without outages.
double progress_per_s(const CapacityPlan& plan, const Candidate& candidate) {
  return progress_of_step(choice_of(plan, candidate), candidate.facts) / candidate.evaluation.step_time_s;
}

/// Seconds of wall time.
double time_per_token(const CapacityPlan& plan, const Candidate& candidate) {
  return 1 / (progress_per_s(plan, candidate) * candidate.goodput);
}

/// Three significant digits, as days and money of a candidate have everywhere, and one decimal at least.
std::string three_digits(double value) {
  const int decimals = 2 - static_cast<int>(std::floor(std::log10(value)));
  return fmt::format("{:.{}f}", value, std::max(1, decimals));
}

/// As the money of a candidate is printed everywhere.
std::string usd_text(double usd) {
  return usd >= 1e6 ? fmt::format("{} million USD", three_digits(usd / 1e6)) : fmt::format("{:.0f} USD", usd);
}

std::string missed(const Candidate& candidate, const JobTarget& target) {
  std::vector<std::string> all;
  const bool limited = target.days > 0 || target.budget_usd > 0;
  if (limited && !candidate.facts.why_no_days.empty()) return "takes an unknown number of days";
  if (target.days > 0 && target.tokens > 0 && candidate.days > target.days)
    all.push_back(fmt::format("takes {} days, not {:g}", three_digits(candidate.days), target.days));
  if (target.budget_usd > 0 && candidate.cost_usd && candidate.cost_usd->typical > target.budget_usd)
    all.push_back(fmt::format("costs {}, not {}", usd_text(candidate.cost_usd->typical), usd_text(target.budget_usd)));
  if (target.budget_usd > 0 && !candidate.cost_usd) all.push_back("has no known price");
  return fmt::format("{}", fmt::join(all, " and "));
}

/// `hours_per_token`: of wall time. A spare or unused GPU costs as much as one that works; its power is not counted as energy.
void add_money(Candidate& candidate, const MachineChoice& choice, double hours_per_token, const JobTarget& target,
               const Economics& economics) {
  const std::string gpu = gpus_text(choice.scenario);
  const double limit = choice.scenario.power_limit;
  candidate.paid = paid_gpus(economics.term, choice.scenario.cluster.node, choice.gpus, candidate.facts.spare_gpus);
  if (const auto basis = economics.price_basis(gpu, network_hardware(choice.scenario.cluster), limit)) {
    const Range3 price = basis->price();
    candidate.usd_per_million_tokens = price * (candidate.paid.all() * hours_per_token * 1e6);
    if (target.tokens > 0) {
      candidate.cost_usd = price * candidate.paid.hours(candidate.days);
      for (const PricePart& part : basis->parts)
        if (part.usd.typical > 0)
          candidate.money.push_back({part.name, part.usd.typical * choice.gpus * hours_per_token * target.tokens});
      for (const auto& [name, gpus] :
           {std::pair("spare nodes", candidate.paid.spares), std::pair("unused GPUs", candidate.paid.unused)})
        if (gpus > 0) candidate.money.push_back({name, price.typical * gpus * hours_per_token * target.tokens});
    }
  }
  if (const auto kilowatts = economics.kilowatts_per_gpu(gpu, limit)) {
    const double tokens = target.tokens > 0 ? target.tokens : 1e6;
    candidate.energy_mwh = *kilowatts * (choice.gpus * hours_per_token * tokens / 1000);
    // g/kWh are kg/MWh.
    if (const auto grams = economics.gco2_per_kwh(); grams && target.tokens > 0)
      candidate.co2_tonnes = *candidate.energy_mwh * (*grams / 1000);
  }
}

Slowdown difference(const CapacityPlan& plan, const Candidate& candidate, const Candidate& first) {
  const MachineChoice& own = choice_of(plan, candidate);
  const MachineChoice& best = choice_of(plan, first);
  const double steps = progress_of_step(best, first.facts) / progress_of_step(own, candidate.facts);
  Slowdown result = slower_than(candidate.evaluation, first.evaluation, steps);
  if (own.topology == best.topology && own.gpus == best.gpus) return result;
  return {"", 0, result.slower_by};
}

/// Candidates that no other beats in one of plan.trade_offs without being worse in another. Those of which one is unknown have no part.
std::vector<int> pareto_front(const CapacityPlan& plan) {
  std::vector<std::vector<double>> values;  // [candidate][trade-off]; empty: one is unknown
  for (const Candidate& candidate : plan.candidates) {
    std::vector<double>& own = values.emplace_back();
    for (const Objective objective : plan.trade_offs) own.push_back(objective_value(plan, candidate, objective));
    if (std::ranges::find(own, std::numeric_limits<double>::infinity()) != own.end()) own.clear();
  }
  std::vector<int> front;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::vector<double>& own = values[i];
    const bool beaten = std::ranges::any_of(values, [&](const std::vector<double>& other) {
      return !other.empty() && other != own && std::ranges::equal(other, own, std::less_equal{});
    });
    if (!own.empty() && !beaten) front.push_back(static_cast<int>(i));
  }
  return front;
}

/// Time and money; without any price, time and the number of GPUs.
std::vector<Objective> usual_trade_offs(const CapacityPlan& plan) {
  const bool priced = std::ranges::any_of(
      plan.candidates, [](const Candidate& candidate) { return candidate.usd_per_million_tokens.has_value(); });
  return {Objective::time, priced ? Objective::cost : Objective::gpus};
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

}  // namespace

const MachineChoice& choice_of(const CapacityPlan& plan, const Candidate& candidate) {
  return plan.machines[static_cast<std::size_t>(candidate.machine)].choice;
}

double progress_of_step(const MachineChoice& choice, const LayoutFacts& facts) {
  const Training& training = choice.scenario.training;
  const double batch = static_cast<double>(training.global_batch_size) * static_cast<double>(training.seq_length);
  return facts.counted_share * batch / tokens_with_batch(1, batch, static_cast<double>(training.critical_batch_tokens));
}

double objective_value(const CapacityPlan& plan, const Candidate& candidate, Objective objective) {
  const double unknown = std::numeric_limits<double>::infinity();
  switch (objective) {
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

double missed_by(const Candidate& candidate, const JobTarget& target) {
  constexpr double kNearTie = 0.05;
  if (candidate.misses.empty()) return 0;
  if (!candidate.facts.why_no_days.empty()) return std::numeric_limits<double>::infinity();
  double doublings = 0;
  const auto add = [&](double given, double allowed) {
    if (allowed > 0) doublings += std::log2(std::max(1.0, given / allowed));
  };
  add(candidate.days, target.days);
  add(candidate.cost_usd ? candidate.cost_usd->typical : std::numeric_limits<double>::infinity(), target.budget_usd);
  return std::max(kNearTie, std::round(doublings / kNearTie) * kNearTie);
}

Candidate make_candidate(int machine, const MachineChoice& choice, const Evaluation& evaluation,
                         const LayoutFacts& facts, const JobTarget& target, const Economics* economics) {
  Candidate candidate;
  candidate.goodput = facts.goodput;
  candidate.machine = machine;
  candidate.evaluation = evaluation;
  candidate.facts = facts;
  candidate.paid.used = choice.gpus;
  const Training& training = choice.scenario.training;
  const double tokens_per_step =
      static_cast<double>(training.global_batch_size) * static_cast<double>(training.seq_length);
  candidate.tokens_per_s = tokens_per_step / evaluation.step_time_s;
  candidate.tokens_per_s_per_gpu = candidate.tokens_per_s / choice.gpus;
  const double progress = progress_of_step(choice, facts) / evaluation.step_time_s * facts.goodput;
  const bool known = facts.why_no_days.empty();
  if (known && target.tokens > 0) candidate.days = target.tokens / progress / kSecondsPerDay;
  if (known && economics != nullptr) add_money(candidate, choice, 1 / progress / 3600, target, *economics);
  candidate.misses = missed(candidate, target);
  return candidate;
}

std::string gpus_text(const Scenario& scenario) {
  const Perturbation& perturbation = scenario.perturbation;
  if (perturbation.gpus.empty()) return scenario.profile.name;
  std::set<std::string> names;
  for (int rank = 0; rank < scenario.cluster.world_size; ++rank) {
    const int gpu = gpu_of(perturbation, rank);
    names.insert(gpu == 0 ? scenario.profile.name : perturbation.gpus[static_cast<std::size_t>(gpu - 1)].profile.name);
  }
  return fmt::format("{}", fmt::join(names, " + "));
}

std::string machine_text(const MachineChoice& machine) {
  const NodeSpec& node = machine.scenario.cluster.node;
  const std::string name = machine.topology + (machine.variant.empty() ? "" : ", " + machine.variant);
  if (node.installed_gpus == 0) return name;
  return fmt::format("{}, {} of {} GPUs per rack", name, node.gpus, node.installed_gpus);
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
    const auto& [most_likely, most] = *std::ranges::max_element(of_size, {}, &std::pair<const int, double>::second);
    for (const double probability : {0.5, 0.8, 0.95}) {
      const auto found = std::ranges::find_if(of_size, [&](const auto& each) { return each.second >= probability; });
      const std::optional<int> gpus = found == of_size.end() ? std::nullopt : std::optional(found->first);
      sizes.push_back({topology, probability, gpus, most, most_likely});
    }
  }
  return sizes;
}

namespace {

/// What makes the machine another one than its topology's.
std::vector<std::string> machine_settings(const MachineChoice& machine) {
  std::vector<std::string> settings = machine.overrides;
  std::erase_if(settings, [](const std::string& setting) { return !setting.starts_with("topology."); });
  return settings;
}

/// Variants of a job on one machine that differ in a key without effect have the same runs: the first of each stays.
void drop_repeated_runs(CapacityPlan& plan) {
  const auto same = [&](const Candidate& a, const Candidate& b) {
    const MachineChoice& first = choice_of(plan, a);
    const MachineChoice& second = choice_of(plan, b);
    return a.machine != b.machine && first.topology == second.topology &&
           machine_settings(first) == machine_settings(second) && first.gpus == second.gpus &&
           first.scenario.training.global_batch_size == second.scenario.training.global_batch_size &&
           a.usd_per_million_tokens == b.usd_per_million_tokens && a.energy_mwh == b.energy_mwh &&
           is_same_run(a.evaluation, b.evaluation);
  };
  std::vector<Candidate> different;
  for (Candidate& each : plan.candidates)
    if (std::ranges::none_of(different, [&](const Candidate& other) { return same(other, each); }))
      different.push_back(std::move(each));
  plan.candidates = std::move(different);
}

}  // namespace

CapacityPlan rank_candidates(std::vector<MachineOutcome> machines, Objective objective, const JobTarget& target,
                             const Economics* economics, const RankOptions& options) {
  CapacityPlan plan;
  plan.objective = objective;
  plan.target = target;
  plan.machines = std::move(machines);
  for (std::size_t m = 0; m < plan.machines.size(); ++m)
    for (std::size_t i = 0; i < plan.machines[m].result.best.size(); ++i) {
      const MachineOutcome& machine = plan.machines[m];
      const LayoutFacts facts = machine.facts.empty() ? LayoutFacts{machine.choice.goodput} : machine.facts[i];
      plan.candidates.push_back(
          make_candidate(static_cast<int>(m), machine.choice, machine.result.best[i], facts, target, economics));
    }
  const auto key = [&](const Candidate& candidate) {
    return std::tuple(missed_by(candidate, target), objective_value(plan, candidate, objective),
                      candidate.evaluation.step_time_s, candidate.machine, candidate.evaluation.layout.id);
  };
  std::sort(plan.candidates.begin(), plan.candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
  drop_repeated_runs(plan);
  std::vector<int> kept(plan.machines.size(), 0);
  if (options.best > 0)
    std::erase_if(plan.candidates,
                  [&](const Candidate& each) { return ++kept[static_cast<std::size_t>(each.machine)] > options.best; });
  add_uncertainty(plan, economics);
  plan.trade_offs = options.trade_offs.size() > 1 ? options.trade_offs : usual_trade_offs(plan);
  plan.pareto = pareto_front(plan);
  for (const Candidate& candidate : plan.candidates)
    plan.runners_up.push_back(difference(plan, candidate, plan.candidates.front()));
  if (!plan.candidates.empty()) plan.limit = limit_of(plan.candidates.front().evaluation);
  return plan;
}

}  // namespace tracecast
