#include "sim/model/scaling.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"

namespace tracecast {
namespace {

// Dense peaks (docs/references.md#gpu-data-sheets): 16 bit, A64FX fp32.
constexpr double kA100 = 312e12;
constexpr double kV100 = 125e12;
constexpr double kMi250x = 383e12;
constexpr double kPvc = 839e12;
constexpr double kA64fx = 6.76e12;

}  // namespace

double compute_of(double parameters, double tokens, ComputeRule rule) {
  switch (rule) {
    case ComputeRule::six_nd:
      return 6 * parameters * tokens;
    case ComputeRule::fitted_5_7_nd:
      return 5.7 * parameters * tokens;
    case ComputeRule::recompute_8_nd:
      return 8 * parameters * tokens;
  }
  return 0;
}

ModelBudget compute_optimal(double compute, ComputeRule rule) {
  const double parameters = std::sqrt(compute / compute_of(1, kChinchillaTokensPerParameter, rule));
  return {parameters, kChinchillaTokensPerParameter * parameters};
}

SustainedRate sustained_rate(double compute, double days, std::span<const DeviceGroup> devices) {
  double count = 0;
  double peak = 0;
  for (const DeviceGroup& group : devices) {
    count += group.count;
    peak += group.count * group.peak_flops;
  }
  TRACECAST_ASSERT(days > 0 && count > 0 && peak > 0, "a rate needs time and devices");
  const double flops = compute / (days * kSecondsPerDay);
  return {flops, flops / count, flops / peak};
}

double equal_work_peak(std::span<const DeviceGroup> devices) {
  TRACECAST_ASSERT(!devices.empty(), "a machine has devices");
  double count = 0;
  for (const DeviceGroup& group : devices) count += group.count;
  return count * std::ranges::min(devices, {}, &DeviceGroup::peak_flops).peak_flops;
}

double days_at(double compute, double devices, double flops_per_device) {
  return compute / (devices * flops_per_device) / kSecondsPerDay;
}

bool plausible(double utilisation) { return utilisation >= 0.10 && utilisation <= 0.60; }

double tokens_with_batch(double tokens, double batch, double critical) {
  return critical > 0 ? tokens * (1 + batch / critical) : tokens;
}

std::span<const NamedBudget> published_budgets() {
  static constexpr NamedBudget kBudgets[] = {{"LaMDA", {137e9, 168e9}},    {"GPT-3", {175e9, 300e9}},
                                             {"Jurassic", {178e9, 300e9}}, {"Gopher", {280e9, 300e9}},
                                             {"MT-NLG", {530e9, 270e9}},   {"Chinchilla", {70e9, 1400e9}}};
  return kBudgets;
}

std::span<const MachineClaim> machine_claims() {
  static const std::vector<MachineClaim> kClaims = {
      {"A100 (OpenAI)", {{"A100", 25'000, kA100}}, 90, "the days are a guess of the lecture"},
      {"Frontier", {{"MI250X", 37'888, kMi250x}}, 75, "modules: 9,472 nodes of 4"},
      {"LUMI",
       {{"MI250X", 20'480, kMi250x}},
       140,
       "20,480 counts dies, here taken for modules as Frontier's; 3e25 FLOPs would take 63.2 % of the peak of the "
       "dies"},
      {"Aurora", {{"PVC", 63'744, kPvc}}, 30, "the days are a guess of the lecture"},
      {"Fugaku", {{"A64FX", 158'976, kA64fx}}, 2100, "fp32 peak"},
      {"ABCI", {{"A100", 960, kA100}, {"V100", 4'352, kV100}}, 770, ""}};
  return kClaims;
}

}  // namespace tracecast
