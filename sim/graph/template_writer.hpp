/// \file
/// Turns work lists into the operations of a template: which stream, after which events.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/layer.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// The streams of a rank, in the order of StepGraph::streams. Schedules with two chunks going opposite ways get their own
/// four point-to-point streams per chunk; see pipeline_stream().
enum class Lane : StreamId {
  compute,
  tensor,
  context,
  expert,
  gradients,
  parameters,
  global,
  embedding,
  replicas,
  to_host,
  host,
  from_host,
  pipeline
};

/// Slots of Rank::communicators.
enum class Slot : std::int32_t {
  tensor,
  context,
  expert,
  gradients,
  expert_gradients,
  parameters,
  expert_parameters,
  replicas,
  world,
  embedding,
  mirror,
  resharded,  ///< smaller groups that parameters are resharded to after the forward
  expert_resharded,
  alone  ///< the rank itself: transfers that meet nobody, of a duration of their own
};
inline constexpr int kSlots = 14;

/// The four ends of a chunk's channels: Rank::channels[4 chunk + end].
enum class ChannelSide : std::int32_t { receive_forward, send_forward, receive_backward, send_backward };
inline std::int32_t channel(int chunk, ChannelSide side) { return 4 * chunk + static_cast<std::int32_t>(side); }

/// Where the communicators of one rank lie: numbers of placements (Placements::of) by slot.
using SlotPlacements = std::array<std::int32_t, kSlots>;

/// Costs of the operations that templates are made of: looked up once per distinct operator or call, GPU and placement.
class CostTable {
 public:
  /// `costs`: of each kind of GPU in the job.
  CostTable(StepGraph& graph, std::vector<const Costs*> costs, const NetworkModel& network)
      : graph_(graph), costs_(std::move(costs)), network_(network) {}

  /// What follows is for ranks with GPU number `gpu` whose communicators lie so. `placements[slot]` is number `numbers[slot]`.
  void select(int gpu, const SlotPlacements& numbers, std::vector<GroupPlacement> placements);

  /// Index into StepGraph::operators.
  std::int32_t operator_index(const Operator& op, bool recomputed);
  /// Index into StepGraph::collectives; -1 when the group has one member.
  std::int32_t collective_index(Traffic traffic, Slot slot, const CollectiveCall& call);
  /// The same for a transfer whose cost does not come from the network model.
  std::int32_t fixed_index(Traffic traffic, Slot slot, const CollectiveCall& call, const CollectiveCost& cost);
  const GroupPlacement& placement(Slot slot) const { return placements_[static_cast<std::size_t>(slot)]; }
  const Costs& costs() const { return *costs_[static_cast<std::size_t>(gpu_)]; }

 private:
  struct CallKey {
    std::int32_t slot;
    std::int32_t placement;
    Traffic traffic;
    CollectiveCall call;
    auto operator<=>(const CallKey&) const = default;
  };

  StepGraph& graph_;
  std::vector<const Costs*> costs_;
  const NetworkModel& network_;
  int gpu_ = 0;
  SlotPlacements numbers_{};
  std::vector<GroupPlacement> placements_;                                      ///< [slot]
  std::map<std::pair<int, std::string>, std::vector<std::int32_t>> operators_;  ///< [GPU, name]
  std::map<CallKey, std::int32_t> collectives_;
};

/// Writes one template.
class TemplateWriter {
 public:
  TemplateWriter(StepGraph& graph, CostTable& table, Template& out, Duration launch, bool overlap_tensor);

  /// All of `list`; `gradients` entries are handed to `on_gradients`.
  template <class OnGradients>
  void write(const WorkList& list, OnGradients on_gradients) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].kind == Work::Kind::gradients)
        on_gradients(list[i]);
      else
        write_one(list, i);
    }
  }
  void write(const WorkList& list) {
    write(list, [](const Work&) {});
  }

  void compute(const Operator& op, bool recomputed = false);
  /// What follows on the compute stream waits for `event`.
  void wait(EventRef event);
  /// An event at the end of what the compute stream has been given so far.
  EventRef mark();
  /// The same as a rank event, for streams that do not move in step with compute.
  void mark_as(EventRef rank_event);

  /// A collective on `lane` after `after`; records `records` (or, when that is none, a local event, which is returned).
  EventRef collective(Lane lane, Traffic traffic, Slot slot, const CollectiveCall& call, std::vector<EventRef> after,
                      EventRef records = {});
  /// The same with a cost that does not come from the network model; no group is needed.
  EventRef fixed(Lane lane, Traffic traffic, Slot slot, const CollectiveCall& call, const CollectiveCost& cost,
                 std::vector<EventRef> after, EventRef records = {});
  void transfer(OpType type, StreamId stream, std::int32_t message, std::vector<EventRef> after, EventRef records);
  /// An event of this template's own, to be recorded by one of its operations.
  EventRef new_local_event();
  void host_sync(EventRef after);
  /// Makes the compute stream wait for what `wait` still holds. Call at the end.
  void finish();

 private:
  void write_one(const WorkList& list, std::size_t index);
  EventRef issue(Lane lane, std::int32_t collective, std::vector<EventRef> after, EventRef records);
  void pause();  ///< a compute operation without duration
  static Lane lane(Traffic traffic);
  static Slot slot(Traffic traffic);

  StepGraph& graph_;
  CostTable& table_;
  Template& out_;
  const Duration launch_;
  const bool overlap_tensor_;
  std::int32_t last_compute_ = -1;
  std::int32_t locals_ = 0;
  std::vector<EventRef> pending_;
  std::map<int, EventRef> started_;
};

}  // namespace tracecast
