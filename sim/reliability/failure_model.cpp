#include "sim/reliability/failure_model.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/integers.hpp"
#include "sim/base/result.hpp"

namespace tracecast {

namespace {

double units(RateUnit unit, const FailureModel& model, const Machine& machine) {
  switch (unit) {
    case RateUnit::gpu:
      return machine.gpus;
    case RateUnit::node:
      return machine.nodes();
    case RateUnit::rack:
      return ceil_div(machine.nodes(), model.nodes_per_rack);
    case RateUnit::switch_group:
      return ceil_div(machine.nodes(), model.nodes_per_switch);
    case RateUnit::job:
      return 1;
  }
  return 1;
}

}  // namespace

std::int64_t parts(const FailureKind& kind, const FailureModel& model, const Machine& machine) {
  return std::llround(units(kind.per, model, machine) * kind.parts_per_unit);
}

Law law_on(const FailureKind& kind, const Machine& machine) {
  Law law = kind.law;
  if (kind.growth > 0) law.mean_s *= std::pow(static_cast<double>(kind.growth_from_gpus) / machine.gpus, kind.growth);
  return law;
}

double rate_s(const FailureKind& kind, const FailureModel& model, const Machine& machine) {
  return static_cast<double>(parts(kind, model, machine)) / law_on(kind, machine).mean_s;
}

int nodes_taken(RateUnit scope, const FailureModel& model, const Machine& machine) {
  switch (scope) {
    case RateUnit::job:
      return 0;
    case RateUnit::gpu:
    case RateUnit::node:
      return 1;
    case RateUnit::rack:
      return std::min(model.nodes_per_rack, machine.nodes());
    case RateUnit::switch_group:
      return std::min(model.nodes_per_switch, machine.nodes());
  }
  return 0;
}

bool interrupts(Effect effect) {
  return effect == Effect::crash || effect == Effect::hang || effect == Effect::corruption ||
         effect == Effect::loss_spike;
}

double interruption_rate_s(const FailureModel& model, const Machine& machine) {
  double rate = 0;
  for (const FailureKind& kind : model.kinds)
    if (interrupts(kind.effect)) rate += rate_s(kind, model, machine);
  return rate;
}

FailureModel scaled(FailureModel model, double factor) {
  TRACECAST_ASSERT(factor > 0, "a rate is positive");
  for (FailureKind& kind : model.kinds)
    if (interrupts(kind.effect)) kind.law.mean_s /= factor;
  return model;
}

}  // namespace tracecast
