#include "sim/search/uncertainty.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "sim/base/quantile.hpp"
#include "sim/base/random.hpp"
#include "sim/base/units.hpp"
#include "sim/forecast/evidence.hpp"

namespace tracecast {
namespace {

/// All candidates share these, so that they differ by what differs between them.
struct Draw {
  double step = 0;        ///< standard normal: of the candidate alone
  double level = 0;       ///< standard normal: of its goodput
  double price = 0;       ///< uniform
  double power = 0;       ///< uniform
  double other_step = 0;  ///< the same of the first candidate, where both are compared
  double other_level = 0;
  double other_price = 0;
  double shared_price = 0;  ///< uniform: what all owned machines have in common
  double shared_step = 0;   ///< standard normal: the error that both have
};

std::vector<Draw> make_draws() {
  constexpr int kDraws = 4096;
  constexpr std::uint64_t kSeed = 21;  // chosen; the same for all searches, so that equal candidates have equal tails
  RandomStream own(kSeed, 0, 0);
  RandomStream other(kSeed, 0, 1);
  RandomStream shared(kSeed, 0, 2);
  RandomStream shared_money(kSeed, 0, 3);
  std::vector<Draw> draws(kDraws);
  for (Draw& each : draws) {
    std::tie(each.step, each.level) = own.normals();
    each.price = own.uniform();
    each.power = own.uniform();
    std::tie(each.other_step, each.other_level) = other.normals();
    each.other_price = other.uniform();
    each.shared_step = shared.normal();
    each.shared_price = shared_money.uniform();
  }
  return draws;
}

Quantiles quantiles_of(const std::vector<double>& values) {
  return {quantile(values, 0.1), quantile(values, 0.5), quantile(values, 0.9)};
}

/// A candidate as a distribution.
struct Spread {
  double step_middle_s = 0;
  double step_sigma = 0;  ///< of the logarithm
  double goodput_sd = 0;
  std::optional<PriceSpread> price;
  std::optional<Range3> power;
};

Spread spread_of(const Candidate& candidate, const MachineChoice& choice, const Economics* economics) {
  const LayoutFacts& facts = candidate.facts;
  Spread spread;
  spread.step_sigma = deviation_of(facts.step_p5_s, facts.step_p95_s);
  spread.step_middle_s = std::sqrt(facts.step_p5_s * facts.step_p95_s);
  const double days = candidate.days > 0 ? candidate.days : facts.history_days;
  spread.goodput_sd = facts.goodput_sd * std::sqrt(facts.history_days / std::max(days, 1.0));
  if (economics == nullptr) return spread;
  spread.price = economics->price_spread(gpus_text(choice.scenario), network_hardware(choice.scenario.cluster),
                                         choice.scenario.power_limit);
  spread.power = economics->kilowatts_per_gpu(gpus_text(choice.scenario), choice.scenario.power_limit);
  return spread;
}

/// Not below kLowest, where a normal distribution says nothing, unless the mean itself is.
double goodput_at(const Candidate& candidate, const Spread& spread, double level) {
  constexpr double kLowest = 0.01;
  const double mean = candidate.facts.goodput;
  const double lowest = mean > 0 ? std::min(kLowest, mean) : kLowest;
  return std::clamp(mean + spread.goodput_sd * level, lowest, 1.0);
}

void add_quantiles(Candidate& candidate, const MachineChoice& choice, const std::vector<Draw>& draws,
                   const JobTarget& target, const Economics* economics) {
  if (candidate.facts.step_p5_s <= 0) return;
  const Spread spread = spread_of(candidate, choice, economics);
  std::vector<double> steps, days, cost, energy;
  const bool timed = candidate.days > 0;
  int in_time = 0;
  int in_budget = 0;
  int in_both = 0;
  for (const Draw& draw : draws) {
    const double step = spread.step_middle_s * std::exp(spread.step_sigma * draw.step);
    steps.push_back(step);
    if (!timed) continue;
    const double goodput = goodput_at(candidate, spread, draw.level);
    days.push_back(target.tokens / (progress_of_step(choice, candidate.facts) / step * goodput) / kSecondsPerDay);
    if (spread.price)
      cost.push_back(candidate.paid.hours(days.back()) * spread.price->usd_at(draw.price, draw.shared_price));
    if (spread.power)
      energy.push_back(PaidGpus{choice.gpus}.hours(days.back()) * quantile_of(*spread.power, draw.power) / 1000);
    const bool timely = target.days <= 0 || days.back() <= target.days;
    const bool affordable = target.budget_usd <= 0 || (spread.price && cost.back() <= target.budget_usd);
    in_time += timely ? 1 : 0;
    in_budget += affordable ? 1 : 0;
    in_both += timely && affordable ? 1 : 0;
  }
  const auto share = [&](int hits) { return hits / static_cast<double>(draws.size()); };
  const bool limited = timed && target.days > 0;
  const bool priced = spread.price && timed && target.budget_usd > 0;
  if (limited) candidate.within_days = share(in_time);
  if (priced) candidate.within_budget = share(in_budget);
  if (limited && (priced || target.budget_usd <= 0)) candidate.within_target = share(in_both);
  if (priced && target.days <= 0) candidate.within_target = share(in_both);
  candidate.step_quantiles_s = quantiles_of(steps);
  if (!days.empty()) candidate.days_quantiles = quantiles_of(days);
  if (!cost.empty()) candidate.cost_quantiles_usd = quantiles_of(cost);
  if (!energy.empty()) candidate.energy_quantiles_mwh = quantiles_of(energy);
}

/// What is optimised / that of the first, where both have bands.
std::optional<Quantiles> ratio_of(const CapacityPlan& plan, const Candidate& candidate, const Candidate& first,
                                  const std::vector<Draw>& draws, const Economics* economics) {
  if (plan.objective == Objective::gpus || candidate.facts.step_p5_s <= 0 || first.facts.step_p5_s <= 0)
    return std::nullopt;
  if (!candidate.facts.why_no_days.empty() || !first.facts.why_no_days.empty()) return std::nullopt;
  const MachineChoice& own = choice_of(plan, candidate);
  const MachineChoice& best = choice_of(plan, first);
  const Spread a = spread_of(candidate, own, economics);
  const Spread b = spread_of(first, best, economics);
  if (plan.objective == Objective::cost && (!a.price || !b.price)) return std::nullopt;
  if (plan.objective == Objective::energy && (!a.power || !b.power)) return std::nullopt;
  const bool same_gpu = own.scenario.profile.name == best.scenario.profile.name;
  const double rho = shared_error(own.scenario.model.moe.has_value(), same_gpu);
  // Log steps: sqrt(rho) of a common normal and sqrt(1 - rho) of their own.
  const double common = std::sqrt(rho) * (a.step_sigma - b.step_sigma);
  const double alone = std::sqrt(1 - rho);
  double scale = a.step_middle_s / b.step_middle_s;
  if (plan.objective != Objective::throughput)
    scale *= progress_of_step(best, first.facts) / progress_of_step(own, candidate.facts);
  if (plan.objective == Objective::throughput)
    scale *= first.tokens_per_s_per_gpu * first.evaluation.step_time_s /
             (candidate.tokens_per_s_per_gpu * candidate.evaluation.step_time_s);
  if (plan.objective == Objective::cost) scale *= static_cast<double>(candidate.paid.all()) / first.paid.all();
  if (plan.objective == Objective::energy) scale *= own.gpus * a.power->typical / (best.gpus * b.power->typical);
  std::vector<double> ratios;
  for (const Draw& draw : draws) {
    const double steps = a.step_sigma * draw.step - b.step_sigma * draw.other_step;
    double ratio = scale * std::exp(common * draw.shared_step + alone * steps);
    if (plan.objective != Objective::throughput)
      ratio *= goodput_at(first, b, draw.other_level) / goodput_at(candidate, a, draw.level);
    if (plan.objective == Objective::cost)
      ratio *= a.price->usd_at(draw.price, draw.shared_price) /
               b.price->usd_at(same_gpu ? draw.price : draw.other_price, draw.shared_price);
    ratios.push_back(ratio);
  }
  return quantiles_of(ratios);
}

}  // namespace

double shared_error(bool experts, bool same_gpu) {
  // Runs of one model, precision and number of GPUs on the same GPU; of one model and precision on different ones.
  if (experts) return same_gpu ? 0.36 : 0.57;
  return same_gpu ? 0.34 : 0.19;
}

void add_uncertainty(CapacityPlan& plan, const Economics* economics) {
  const std::vector<Draw> draws = make_draws();
  for (Candidate& each : plan.candidates) add_quantiles(each, choice_of(plan, each), draws, plan.target, economics);
  for (std::size_t i = 1; i < plan.candidates.size(); ++i) {
    Candidate& each = plan.candidates[i];
    each.ratio_to_first = ratio_of(plan, each, plan.candidates.front(), draws, economics);
    each.equals_first = each.ratio_to_first && each.ratio_to_first->p10 <= 1 && each.ratio_to_first->p90 >= 1;
  }
}

}  // namespace tracecast
