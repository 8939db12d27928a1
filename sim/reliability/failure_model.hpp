/// What breaks, how often, and what it does to the job: data, one file per cluster in scenarios/failures/.
///
/// Rates are per part, so that a model observed at one size speaks about another. Names and counts come from the
/// source of the file; docs/formats/failures.md lists the keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/reliability/laws.hpp"

namespace tracecast {

/// For grouping in reports.
enum class Component { gpu, hbm, nvlink, nic, network, host, software, storage, power, planned, unknown };
inline constexpr int kComponents = 11;
const char* to_string(Component component);

/// What there are many of, and so what a rate multiplies with.
enum class Per { gpu, node, rack, switch_group, job };
const char* to_string(Per per);

enum class Effect {
  crash,         ///< the job stops, and says so
  hang,          ///< the job stops without a word: a collective never ends
  corruption,    ///< silent data corruption: noticed after `latency`, the job goes back to before it
  loss_spike,    ///< the loss jumps: noticed after `notice_steps`, goes back `rollback_steps` before it
  slow_gpu,      ///< one GPU runs at `magnitude` of its speed for `lasts`
  slow_link,     ///< one link of the fabric runs at `magnitude` for `lasts`
  lost_rail,     ///< one rail of the fabric is gone for `lasts`
  slow_uplink,   ///< a spine is gone: uplinks run at `magnitude` for `lasts`
  slow_storage,  ///< checkpoints are written and read at `magnitude` of their speed for `lasts`
  link_flap,     ///< a link is away for `lasts`; longer than the transport retries, it is a hang
  planned,       ///< maintenance: the job saves, stops for `lasts` and restarts
};
const char* to_string(Effect effect);

/// One line of a failure model.
struct FailureKind {
  std::string name;
  Component component = Component::unknown;
  Per per = Per::job;
  double parts_per_unit = 1;  ///< e.g. NICs of a node
  Law law;                    ///< of one part, mean as observed
  FleetAge age = FleetAge::stationary;
  Effect effect = Effect::crash;
  /// What is taken out of service with it: nothing (a restart is enough), the node, all nodes of the rack or switch.
  Per scope = Per::node;
  double replace_probability = 1;  ///< that something is taken out at all; else a restart is enough
  Law lasts;                       ///< of the effects that pass
  double magnitude = 1;            ///< remaining speed, in (0, 1]
  Law latency;                     ///< corruption: until noticed
  int notice_steps = 0;            ///< loss spike: steps run from the spike until it is noticed (batches skipped later)
  int rollback_steps = 0;          ///< loss spike: steps before it that are run again
  std::string source;
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

/// A job's machine, as far as failures care.
struct Machine {
  int gpus = 1;
  int gpus_per_node = 8;
  int nodes() const { return (gpus + gpus_per_node - 1) / gpus_per_node; }
  bool operator==(const Machine&) const = default;
};

/// Parts of `kind` in the machine, rounded to the nearest.
std::int64_t parts(const FailureKind& kind, const FailureModel& model, const Machine& machine);

/// Nodes that one failure with this scope takes out: 0 for job, 1 for gpu and node; at most those of the machine.
int nodes_taken(Per scope, const FailureModel& model, const Machine& machine);

/// Whether it stops a job unplanned.
bool interrupts(Effect effect);

/// Unplanned interruptions per second of the whole machine (flaps are not counted: most of them pass).
double interruption_rate_s(const FailureModel& model, const Machine& machine);

/// Every interruption `factor` times as often.   Requires factor > 0.
FailureModel scaled(FailureModel model, double factor);

}  // namespace tracecast
