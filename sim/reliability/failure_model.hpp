/// \file
/// What fails, how often, and what a failure does to the job: data, one file per cluster in scenarios/failures/.
///
/// Rates are per part, so that a model observed on one machine applies to machines of other sizes.
/// docs/formats/failures.md lists the keys of the files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/integers.hpp"
#include "sim/reliability/laws.hpp"

namespace tracecast {

/// For grouping in reports.
enum class Component { gpu, hbm, nvlink, nic, network, host, software, storage, power, planned, unknown };
template <>
struct EnumNames<Component> {
  static constexpr NamedValue<Component> table[] = {
      {Component::gpu, "gpu"},           {Component::hbm, "hbm"},         {Component::nvlink, "nvlink"},
      {Component::nic, "nic"},           {Component::network, "network"}, {Component::host, "host"},
      {Component::software, "software"}, {Component::storage, "storage"}, {Component::power, "power"},
      {Component::planned, "planned"},   {Component::unknown, "unknown"}};
};

/// What a failure rate is given for; the rate of the machine is this times the number of such units.
enum class RateUnit { gpu, node, rack, switch_group, job };
template <>
struct EnumNames<RateUnit> {
  static constexpr NamedValue<RateUnit> table[] = {{RateUnit::gpu, "gpu"},
                                                   {RateUnit::node, "node"},
                                                   {RateUnit::rack, "rack"},
                                                   {RateUnit::switch_group, "switch"},
                                                   {RateUnit::job, "job"}};
};

enum class Effect {
  crash,         ///< the job stops, and a process reports it
  hang,          ///< the job stops without an error: a collective never ends
  corruption,    ///< silent data corruption: noticed after `latency`; the job rolls back to before it
  loss_spike,    ///< the loss jumps: noticed after `notice_steps`; the job rolls back `rollback_steps` before it
  slow_gpu,      ///< one GPU runs at `magnitude` of its speed for `lasts`
  slow_link,     ///< one link of the fabric runs at `magnitude` for `lasts`
  lost_rail,     ///< one rail of the fabric is down for `lasts`
  slow_uplink,   ///< a spine is down: uplinks run at `magnitude` for `lasts`
  slow_storage,  ///< checkpoints are written and read at `magnitude` of their speed for `lasts`
  link_flap,     ///< a link is down for `lasts`; beyond the retries of the transport it is a hang
  planned,       ///< maintenance: the job saves, stops for `lasts` and restarts
};
template <>
struct EnumNames<Effect> {
  static constexpr NamedValue<Effect> table[] = {{Effect::crash, "crash"},
                                                 {Effect::hang, "hang"},
                                                 {Effect::corruption, "corruption"},
                                                 {Effect::loss_spike, "loss-spike"},
                                                 {Effect::slow_gpu, "slow-gpu"},
                                                 {Effect::slow_link, "slow-link"},
                                                 {Effect::lost_rail, "lost-rail"},
                                                 {Effect::slow_uplink, "slow-uplink"},
                                                 {Effect::slow_storage, "slow-storage"},
                                                 {Effect::link_flap, "link-flap"},
                                                 {Effect::planned, "planned"}};
};

/// One line of a failure model.
struct FailureKind {
  std::string name = {};
  Component component = Component::unknown;
  RateUnit per = RateUnit::job;
  double parts_per_unit = 1;  ///< e.g. NICs of a node
  /// Per job: the rate grows with the GPUs of the job to this power. 0: the same for a job of any size.
  double growth = 0;
  int growth_from_gpus = 1;  ///< GPUs of the job that `law` was observed on
  Law law = {};              ///< of one part, mean as observed; law_on() is that of another machine
  FleetAge age = FleetAge::stationary;
  Effect effect = Effect::crash;
  /// What leaves service with it: nothing (job: a restart is enough), the node (gpu, node), all nodes of the rack or
  /// switch.
  RateUnit scope = RateUnit::node;
  double replace_probability = 1;  ///< that nodes leave service at all; else a restart is enough
  Law lasts = {};                  ///< duration of temporary effects
  double magnitude = 1;            ///< remaining speed, in (0, 1]
  Law latency = {};                ///< of a corruption, until it is noticed
  int notice_steps = 0;    ///< loss spike: steps from the spike until it is noticed (their batches are skipped later)
  int rollback_steps = 0;  ///< loss spike: steps before it that are run again
  std::string source = {};
  bool operator==(const FailureKind&) const = default;
};

struct FailureModel {
  std::string name;
  std::string description;
  std::string source;
  int nodes_per_rack = 1;
  int nodes_per_switch = 1;
  std::vector<FailureKind> kinds;
  bool operator==(const FailureModel&) const = default;
};

/// The machine of a job, as failures see it.
struct Machine {
  int gpus = 1;
  int gpus_per_node = 8;
  int nodes() const { return ceil_div(gpus, gpus_per_node); }
  bool operator==(const Machine&) const = default;
};

/// The law of one of the parts(kind, model, machine). Its mean is law.mean_s, times parts / exact number of parts where that is
/// a fraction, and with `growth` times (growth_from_gpus / gpus)^growth.
Law law_on(const FailureKind& kind, const FailureModel& model, const Machine& machine);

/// Expected events of this kind per second in the whole machine.
double rate_s(const FailureKind& kind, const FailureModel& model, const Machine& machine);

/// Parts of `kind` in the machine: units times parts_per_unit. A job that fills a part of a rack or switch has that part of
/// it, unless the failure takes all of the rack or switch.
double exact_parts(const FailureKind& kind, const FailureModel& model, const Machine& machine);
/// The same rounded to the nearest, and at least 1.
std::int64_t parts(const FailureKind& kind, const FailureModel& model, const Machine& machine);

/// Nodes that one failure with this scope takes down: 0 for job, 1 for gpu and node; at most those of the machine.
int nodes_taken(RateUnit scope, const FailureModel& model, const Machine& machine);

/// Unplanned interruptions of the whole machine per second: those of one kind, and all.
double interruption_rate_s(const FailureKind& kind, const FailureModel& model, const Machine& machine,
                           JobTime flap_budget);
double interruption_rate_s(const FailureModel& model, const Machine& machine, JobTime flap_budget);

/// The model for a job on this machine: one on a single node uses no links between nodes, so kinds of component network and
/// nic are left out.
FailureModel without_unused_network(FailureModel model, const Machine& machine);

/// The same model with every interruption `factor` times as often. Requires factor > 0.
FailureModel scaled(FailureModel model, double factor, JobTime flap_budget);

}  // namespace tracecast
