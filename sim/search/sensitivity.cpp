#include "sim/search/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/forecast/evidence.hpp"
#include "sim/search/uncertainty.hpp"

namespace tracecast {
namespace {

/// One assumption at one end of its range.
struct Variation {
  std::string what;
  std::function<void(Economics&)> money = {};
  std::function<void(const MachineChoice&, Evaluation&, LayoutFacts&)> run = {};
};

bool same_machine(const CapacityPlan& plan, const Candidate& a, const Candidate& b) {
  return machine_text(choice_of(plan, a)) == machine_text(choice_of(plan, b)) &&
         choice_of(plan, a).gpus == choice_of(plan, b).gpus;
}

/// Calls `add` with the low and the high end, where they differ from the middle.
void both_ends(const Range3& range, const std::function<void(double)>& add) {
  if (range.low < range.typical) add(range.low);
  if (range.high > range.typical) add(range.high);
}

Range3 just(double value) { return {value, value, value}; }

struct OwnershipFigure {
  const char* name;
  const char* unit;
  Range3 Ownership::*member;
};
constexpr OwnershipFigure kOwnership[] = {
    {"GPUs written off after", "years", &Ownership::years},
    {"electricity at", "USD per kWh", &Ownership::usd_per_kwh},
    {"switch ports at", "USD per Gb/s", &Ownership::usd_per_port_gbps},
    {"cables at", "USD per Gb/s", &Ownership::usd_per_cable_gbps},
    {"storage at", "of the purchase", &Ownership::storage_share},
    {"building at", "USD per kW", &Ownership::building_usd_per_kw},
    {"building written off after", "years", &Ownership::building_years},
    {"capital at", "per year", &Ownership::capital_rate},
    {"running costs at", "USD per kW and year", &Ownership::operations_usd_per_kw_year},
    {"utilisation at", "of the hours", &Ownership::utilisation},
};

void add_prices(std::vector<Variation>& list, const CapacityPlan& plan, const Economics& economics) {
  std::map<std::string, NetworkHardware> gpus;
  for (const Candidate& each : plan.candidates) {
    const Scenario& scenario = choice_of(plan, each).scenario;
    gpus.try_emplace(gpus_text(scenario), network_hardware(scenario.cluster));
  }
  for (const auto& [gpu, network] : gpus) {
    const std::optional<PriceBasis> basis = economics.price_basis(gpu, network);
    if (!basis) continue;
    const bool owned = basis->parts.size() > 1;
    Range3 range = basis->price();
    if (owned) {
      const GpuEconomics& known = economics.gpus.at(gpu);
      if (known.purchase)
        range = *known.purchase;
      else
        range = {basis->quotes.front().usd, range.typical, basis->quotes.back().usd};
      if (!known.purchase && basis->quotes.size() < 2) continue;
    }
    both_ends(owned ? Range3{range.low, (range.low + range.high) / 2, range.high} : range, [&](double usd) {
      list.push_back(
          {fmt::format("{} at {:.6g} USD{}", gpu, usd, owned ? " per GPU" : " per GPU-hour"),
           [gpu = gpu, usd, owned](Economics& e) { (owned ? e.gpus[gpu].purchase : e.gpus[gpu].price) = just(usd); },
           {}});
    });
  }
}

void add_ownership(std::vector<Variation>& list, const Economics& economics) {
  if (economics.term != Term::owned || !economics.ownership) return;
  for (const OwnershipFigure& each : kOwnership) {
    const Range3& range = (*economics.ownership).*each.member;
    both_ends(range, [&](double value) {
      list.push_back({fmt::format("{} {:g} {} instead of {:g}", each.name, value, each.unit, range.typical),
                      [member = each.member, value](Economics& e) { (*e.ownership).*member = just(value); },
                      {}});
    });
  }
}

void add_power(std::vector<Variation>& list, const CapacityPlan& plan, const Economics& economics) {
  if (economics.term != Term::owned && plan.objective != Objective::energy) return;
  both_ends(economics.node_power, [&](double value) {
    list.push_back(
        {fmt::format("power of a node at {:g} of its GPUs' instead of {:g}", value, economics.node_power.typical),
         [value](Economics& e) { e.node_power = just(value); },
         {}});
  });
  both_ends(economics.pue, [&](double value) {
    list.push_back({fmt::format("PUE {:g} instead of {:g}", value, economics.pue.typical),
                    [value](Economics& e) { e.pue = just(value); },
                    {}});
  });
}

void add_runs(std::vector<Variation>& list, const CapacityPlan& plan) {
  std::set<std::string> known;
  bool failures = false;
  for (const Candidate& each : plan.candidates) {
    const MachineChoice& choice = choice_of(plan, each);
    const LayoutFacts& facts = each.facts;
    failures = failures || facts.goodput < 1;
    const std::string& name = choice.topology;
    if (facts.step_p5_s <= 0 || !known.insert(name).second) continue;
    const double sigma = deviation_of(facts.step_p5_s, facts.step_p95_s);
    const double alone = std::sqrt(1 - shared_error(choice.scenario.model.moe.has_value(), false));
    const double factor = std::exp(kNinetyPercent * sigma * alone);
    for (const auto& [by, word] : {std::pair(1 / factor, "shorter"), std::pair(factor, "longer")})
      list.push_back({fmt::format("steps on {} {:.0f} % {} than forecast", name, 100 * std::abs(by - 1), word),
                      {},
                      [name, by](const MachineChoice& machine, Evaluation& e, LayoutFacts&) {
                        if (machine.topology == name) e.step_time_s *= by;
                      }});
  }
  if (!failures) return;
  for (const auto& [factor, word] :
       {std::pair(0.0, "no time lost to failures"), std::pair(2.0, "twice the time lost to failures")})
    list.push_back({word, {}, [factor](const MachineChoice&, Evaluation&, LayoutFacts& facts) {
                      facts.goodput = std::max(0.01, 1 - factor * (1 - facts.goodput));
                    }});
}

/// The candidate that comes first with this variation.
int first_with(const Variation& variation, const CapacityPlan& plan, const Economics* economics) {
  std::optional<Economics> changed;
  if (economics != nullptr) changed = *economics;
  if (changed && variation.money) variation.money(*changed);
  int first = 0;
  std::optional<std::pair<double, double>> best;
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const Candidate& each = plan.candidates[i];
    const MachineChoice& choice = choice_of(plan, each);
    Evaluation evaluation = each.evaluation;
    LayoutFacts facts = each.facts;
    if (variation.run) variation.run(choice, evaluation, facts);
    const Candidate moved =
        make_candidate(each.machine, choice, evaluation, facts, plan.target, changed ? &*changed : nullptr);
    const std::pair key(missed_by(moved, plan.target), objective_value(plan, moved, plan.objective));
    if (!best || key < *best) {
      best = key;
      first = static_cast<int>(i);
    }
  }
  return first;
}

void add_break_evens(Sensitivity& result, const CapacityPlan& plan, const Economics& economics) {
  if (plan.objective != Objective::cost) return;
  const Candidate& first = plan.candidates.front();
  const std::string& gpu = choice_of(plan, first).scenario.profile.name;
  std::set<std::string> known{gpu};
  for (std::size_t i = 1; i < plan.candidates.size(); ++i) {
    const Candidate& each = plan.candidates[i];
    const Scenario& scenario = choice_of(plan, each).scenario;
    const std::string& other = scenario.profile.name;
    const auto price = economics.price_per_gpu_hour(other, network_hardware(scenario.cluster), scenario.power_limit);
    if (!price || !each.misses.empty() || !known.insert(other).second) continue;
    const double ratio = first.usd_per_million_tokens->typical / each.usd_per_million_tokens->typical;
    result.break_evens.push_back({other, price->typical * ratio, *price, static_cast<int>(i)});
  }
}

}  // namespace

Sensitivity sensitivity(const CapacityPlan& plan, const Economics* economics) {
  Sensitivity result;
  const bool several = std::ranges::any_of(
      plan.candidates, [&](const Candidate& each) { return !same_machine(plan, each, plan.candidates.front()); });
  if (!several || plan.objective == Objective::gpus) return result;
  std::vector<Variation> list;
  const bool money = economics != nullptr && plan.candidates.front().usd_per_million_tokens.has_value();
  const bool counts = plan.objective == Objective::cost || plan.target.budget_usd > 0;
  if (money && counts) {
    add_prices(list, plan, *economics);
    add_ownership(list, *economics);
  }
  if (economics != nullptr && (counts || plan.objective == Objective::energy)) add_power(list, plan, *economics);
  add_runs(list, plan);
  result.tried = static_cast<int>(list.size());
  for (const Variation& each : list) {
    const int first = first_with(each, plan, economics);
    if (!same_machine(plan, plan.candidates[static_cast<std::size_t>(first)], plan.candidates.front()))
      result.flips.push_back({each.what, first});
  }
  if (money) add_break_evens(result, plan, *economics);
  return result;
}

}  // namespace tracecast
