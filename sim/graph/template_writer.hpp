/// \file
/// Turns work lists into the operations of a template: which stream, after which events.
#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/graph/layer.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// The streams of a rank, in the order of StepGraph::streams: one for each communicator, since NCCL runs the operations
/// of a communicator in the order in which they were issued, whatever CUDA streams they were issued on
/// (docs/models.md, Communicators). From `pipeline` on come the point-to-point streams: four, or four per chunk
/// (pipeline_messages.hpp).
enum class Lane : StreamId {
  compute,
  tensor,
  context,
  expert,
  gradients,         ///< with the gathers of parameters, unless these have a communicator of their own
  parameters,        ///< gathers that have
  expert_gradients,  ///< the same two for experts
  expert_parameters,
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
  gradients,  ///< with the gathers of parameters
  expert_gradients,
  parameters,  ///< the same ranks once more: gathers, with Parallel::separate_gather_group
  expert_parameters,
  replicas,
  world,
  embedding,
  mirror,
  resharded,  ///< smaller groups that parameters are resharded to after the forward
  expert_resharded,
  replica,    ///< all ranks of one replica that trains apart (parameter_averaging over stages)
  alone,      ///< the rank itself: transfers of fixed duration without other members
  context_2,  ///< packing dynamic_cp: parts of the context group, of so many ranks
  context_4,
  context_8,
  context_16,
  expert_tensor,  ///< ranks that share each expert, where they are not those of `tensor`
  expert_replicas
};
inline constexpr int kSlots = 21;

/// The four ends of a chunk's channels: Rank::channels[4 chunk + end].
enum class ChannelSide : std::int32_t { receive_forward, send_forward, receive_backward, send_backward };
inline std::int32_t channel(int chunk, ChannelSide side) { return 4 * chunk + static_cast<std::int32_t>(side); }

/// Placements of the communicators of one rank: numbers (Placements::of) by slot.
using SlotPlacements = std::array<std::int32_t, kSlots>;

/// A collective of a rank: its stream, its purpose, its group, and what is called.
struct GroupCall {
  Lane lane;
  Traffic traffic;
  Slot slot;
  CollectiveCall call;
  Bytes tiled = {};  ///< CostedCollective::tiled
};

/// Costs of the operations that templates are made of: looked up once per distinct operator or call, GPU and placement.
class CostTable {
 public:
  /// `costs`: of each kind of GPU in the job.   Requires that `plan` outlives it
  CostTable(StepGraph& graph, std::vector<const Costs*> costs, const NetworkModel& network, const Plan& plan)
      : graph_(graph), costs_(std::move(costs)), network_(network), plan_(plan) {}

  /// From now on, costs are of ranks with GPU number `gpu` and these placements; `placements[slot]` has
  /// `numbers[slot]`.
  void select(int gpu, const SlotPlacements& numbers, std::vector<GroupPlacement> placements);
  /// From now on, attention is over bins that span so many context ranks; 0: over all documents, divided over the whole group.
  void select_context(int ranks);
  /// Of the exchanges of context parallelism.
  Slot context_slot() const;

  /// Index into StepGraph::operators.
  std::int32_t operator_index(const Operator& op, bool recomputed);
  /// Of an operator that is about to be written.
  Duration operator_time(const Operator& op, bool recomputed);
  /// Index into StepGraph::collectives.   Requires a group of at least two ranks
  std::int32_t collective_index(const GroupCall& what);
  /// Of a collective that need not be in the graph.   Requires as above
  Duration collective_time(const GroupCall& what);
  /// The same for a transfer whose cost does not come from the network model, in a group of any size.
  std::int32_t fixed_index(const GroupCall& what, const CollectiveCost& cost);
  const GroupPlacement& placement(Slot slot) const { return placements_[static_cast<std::size_t>(slot)]; }
  const Costs& costs() const { return *costs_[static_cast<std::size_t>(gpu_)]; }

 private:
  struct CallKey {
    std::int32_t slot;
    std::int32_t placement;
    Traffic traffic;
    CollectiveCall call;
    Bytes tiled;
    auto operator<=>(const CallKey&) const = default;
  };

  CallKey key_of(const GroupCall& what) const;
  std::int32_t find_operator(const Operator& op, bool recomputed);
  /// The times of a new operator over the documents of each batch, and their mean. Batches whose bins span other numbers of
  /// ranks take no time.
  void add_batches(std::int32_t index);
  /// The lengths of the documents of a batch; none if the selected context has nothing to do with it.
  void lengths_of(int step, int rank, int microbatch, std::vector<std::int32_t>& lengths) const;

  StepGraph& graph_;
  std::vector<const Costs*> costs_;
  const NetworkModel& network_;
  const Plan& plan_;
  int gpu_ = 0;
  int context_ranks_ = 0;
  SlotPlacements numbers_{};
  std::vector<GroupPlacement> placements_;  ///< [slot]
  /// [GPU, context ranks of attention, name]
  std::map<std::tuple<int, int, std::string>, std::vector<std::int32_t>> operators_;
  /// [operator] the one that followed it last time; -1: none. Layers repeat. Of the selected GPU and context ranks.
  std::vector<std::int32_t> next_operator_;
  std::int32_t last_operator_ = 0;
  std::map<CallKey, std::int32_t> collectives_;
  std::map<CallKey, Duration> collective_times_;
};

/// Writes one template.
class TemplateWriter {
 public:
  /// Host time of one operation: launched by itself, and as a node of a CUDA graph.
  struct Launch {
    Duration eager;
    Duration graphed;
    Duration call = {};        ///< eager, of one call of the framework
    Duration per_expert = {};  ///< eager, for each local expert of a multiplication of experts
  };

  TemplateWriter(StepGraph& graph, CostTable& table, Template& out, Launch launch, bool overlap_tensor);

  /// Writes all of `list`; calls `on_gradients` for its `gradients` entries.
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
  /// Makes the compute stream wait for `event` before its next operation.
  void wait(EventRef event);
  /// An event after the last operation of the compute stream so far.
  EventRef mark();
  /// The same as a rank event, for streams that do not advance together with compute.
  void mark_as(EventRef rank_event);

  /// Issues `what` after `after`; records `records`, or if that is none a new local event. Returns the event.
  EventRef collective(const GroupCall& what, std::vector<EventRef> after, EventRef records = {});
  /// The same with a cost that does not come from the network model; no group is needed.
  EventRef fixed(const GroupCall& what, const CollectiveCost& cost, std::vector<EventRef> after, EventRef records = {});
  void transfer(OpType type, StreamId stream, std::int32_t message, std::vector<EventRef> after, EventRef records);
  /// A new local event, to be recorded by one operation of this template.
  EventRef new_local_event();
  void host_sync(EventRef after);
  /// Makes the compute stream wait for the events of the last wait() calls. Call at the end.
  void finish();

 private:
  Duration launch_time(const Work& work) const;
  void write_one(const WorkList& list, std::size_t index);
  /// Of what reads the gathered or makes the reduced tensor of the collective at `index`; none: 0.
  Duration multiplication_beside(const WorkList& list, std::size_t index);
  /// Takes from the call what runs beside that multiplication: no more than it has time for.
  void tile(GroupCall& whole, const WorkList& list, std::size_t index);
  EventRef issue(Lane lane, std::int32_t collective, std::vector<EventRef> after, EventRef records);
  void pause();  ///< a compute operation without duration
  static Lane lane(Traffic traffic);
  Slot slot(const Work& work) const;

  StepGraph& graph_;
  CostTable& table_;
  Template& out_;
  const Launch launch_;
  Duration host_;  ///< of the operation at hand
  const bool overlap_tensor_;
  std::int32_t last_compute_ = -1;
  std::int32_t locals_ = 0;
  std::vector<EventRef> pending_;
  std::map<int, EventRef> started_;
};

}  // namespace tracecast
