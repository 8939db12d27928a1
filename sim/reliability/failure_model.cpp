#include "sim/reliability/failure_model.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/integers.hpp"
#include "sim/base/result.hpp"

namespace tracecast {

const char* to_string(Component component) {
  switch (component) {
    case Component::gpu:
      return "gpu";
    case Component::hbm:
      return "hbm";
    case Component::nvlink:
      return "nvlink";
    case Component::nic:
      return "nic";
    case Component::network:
      return "network";
    case Component::host:
      return "host";
    case Component::software:
      return "software";
    case Component::storage:
      return "storage";
    case Component::power:
      return "power";
    case Component::planned:
      return "planned";
    case Component::unknown:
      return "unknown";
  }
  return "";
}

const char* to_string(RateUnit unit) {
  switch (unit) {
    case RateUnit::gpu:
      return "gpu";
    case RateUnit::node:
      return "node";
    case RateUnit::rack:
      return "rack";
    case RateUnit::switch_group:
      return "switch";
    case RateUnit::job:
      return "job";
  }
  return "";
}

const char* to_string(Effect effect) {
  switch (effect) {
    case Effect::crash:
      return "crash";
    case Effect::hang:
      return "hang";
    case Effect::corruption:
      return "corruption";
    case Effect::loss_spike:
      return "loss-spike";
    case Effect::slow_gpu:
      return "slow-gpu";
    case Effect::slow_link:
      return "slow-link";
    case Effect::lost_rail:
      return "lost-rail";
    case Effect::slow_uplink:
      return "slow-uplink";
    case Effect::slow_storage:
      return "slow-storage";
    case Effect::link_flap:
      return "link-flap";
    case Effect::planned:
      return "planned";
  }
  return "";
}

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
    if (interrupts(kind.effect)) rate += static_cast<double>(parts(kind, model, machine)) / kind.law.mean_s;
  return rate;
}

FailureModel scaled(FailureModel model, double factor) {
  TRACECAST_ASSERT(factor > 0, "a rate is positive");
  for (FailureKind& kind : model.kinds)
    if (interrupts(kind.effect)) kind.law.mean_s /= factor;
  return model;
}

}  // namespace tracecast
