#include "sim/reliability/failure_model.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/integers.hpp"
#include "sim/base/result.hpp"

namespace tracecast {

namespace {

/// Share of the events of this kind that are unplanned stops of the job: all or none; of link flaps those that last as long
/// as `flap_budget`, the retries of the transport.
double interrupting_share(const FailureKind& kind, JobTime flap_budget) {
  switch (kind.effect) {
    case Effect::crash:
    case Effect::hang:
    case Effect::corruption:
    case Effect::loss_spike:
      return 1;
    case Effect::link_flap:
      return survival(kind.lasts, flap_budget);
    case Effect::slow_gpu:
    case Effect::slow_link:
    case Effect::lost_rail:
    case Effect::slow_uplink:
    case Effect::slow_storage:
    case Effect::planned:
      return 0;
  }
  return 0;
}

/// Groups of nodes that the job is in: all of those it has a node in, if a failure stops the whole group, else its share of them.
double groups(const FailureKind& kind, int nodes, int nodes_per_group) {
  if (kind.scope == kind.per) return ceil_div(nodes, nodes_per_group);
  return static_cast<double>(nodes) / nodes_per_group;
}

double units(const FailureKind& kind, const FailureModel& model, const Machine& machine) {
  switch (kind.per) {
    case RateUnit::gpu:
      return machine.gpus;
    case RateUnit::node:
      return machine.nodes();
    case RateUnit::rack:
      return groups(kind, machine.nodes(), model.nodes_per_rack);
    case RateUnit::switch_group:
      return groups(kind, machine.nodes(), model.nodes_per_switch);
    case RateUnit::job:
      return 1;
  }
  return 1;
}

}  // namespace

double exact_parts(const FailureKind& kind, const FailureModel& model, const Machine& machine) {
  return units(kind, model, machine) * kind.parts_per_unit;
}

std::int64_t parts(const FailureKind& kind, const FailureModel& model, const Machine& machine) {
  return std::max<std::int64_t>(1, std::llround(exact_parts(kind, model, machine)));
}

Law law_on(const FailureKind& kind, const FailureModel& model, const Machine& machine) {
  Law law = kind.law;
  law.mean_s *= static_cast<double>(parts(kind, model, machine)) / exact_parts(kind, model, machine);
  if (kind.growth > 0) law.mean_s *= std::pow(static_cast<double>(kind.growth_from_gpus) / machine.gpus, kind.growth);
  return law;
}

double rate_s(const FailureKind& kind, const FailureModel& model, const Machine& machine) {
  return static_cast<double>(parts(kind, model, machine)) / law_on(kind, model, machine).mean_s;
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

double interruption_rate_s(const FailureKind& kind, const FailureModel& model, const Machine& machine,
                           JobTime flap_budget) {
  const double share = interrupting_share(kind, flap_budget);
  return share > 0 ? share * rate_s(kind, model, machine) : 0;
}

double interruption_rate_s(const FailureModel& model, const Machine& machine, JobTime flap_budget) {
  double rate = 0;
  for (const FailureKind& kind : model.kinds) rate += interruption_rate_s(kind, model, machine, flap_budget);
  return rate;
}

FailureModel without_unused_network(FailureModel model, const Machine& machine) {
  if (machine.nodes() == 1)
    std::erase_if(model.kinds, [](const FailureKind& kind) {
      return kind.component == Component::network || kind.component == Component::nic;
    });
  return model;
}

FailureModel scaled(FailureModel model, double factor, JobTime flap_budget) {
  TRACECAST_ASSERT(factor > 0, "a rate is positive");
  for (FailureKind& kind : model.kinds)
    if (interrupting_share(kind, flap_budget) > 0) kind.law.mean_s /= factor;
  return model;
}

}  // namespace tracecast
