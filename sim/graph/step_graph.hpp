/// \file
/// The step graph: what every rank does in one training step. The engine simulates it, the executor runs it, exporters
/// write it and importers produce it.
///
/// Rank programs instead of one node per operation and rank: a rank's program is a list of (template, micro-batch); a
/// template is the list of operations that one chunk's forward, backward or optimizer issues. Memory grows with
/// templates and schedule length, not with ranks x operators.
///
/// Execution follows CUDA and NCCL. The host issues the operations of a program in order, `host` time each. Every
/// operation belongs to one stream of its rank; a stream runs its operations in order. An operation starts when it has
/// been issued, when the one before it on its stream has ended, and when every event in `waits` has been recorded; at
/// its end it records the event `records`. A collective starts when its last member has started it and ends on all
/// members together; a message starts when both its sender and its receiver have started it.
///
/// One rank may represent others that do the same at the same time: a `Rank` has a multiplicity, and a communicator
/// names the simulated ranks that are members (one of each class). Nothing in the engine depends on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/cost/costs.hpp"
#include "sim/model/operators.hpp"
#include "sim/network/network_model.hpp"
#include "sim/network/transfer_shape.hpp"

namespace tracecast {

/// What a transfer is for; 'exposed communication' is reported by this.
enum class Traffic : std::uint8_t {
  tensor_parallel,
  context_parallel,
  expert_parallel,
  pipeline,    ///< point-to-point between stages
  gradients,   ///< data-parallel all-reduce or reduce-scatter
  parameters,  ///< ZeRO / FSDP all-gather
  embedding,   ///< tied-embedding gradients
  control,     ///< gradient norm, overflow flag
  offload,     ///< to and from the host's memory, and the host's work on what is stored there
};
inline constexpr int kTrafficKinds = 9;
const char* to_string(Traffic traffic);

/// The streams of a rank: 0 computes, the others communicate; StepGraph::streams has their names.
using StreamId = std::uint8_t;
inline constexpr StreamId kComputeStream = 0;

struct StreamInfo {
  std::string name;  ///< "compute", "tp", "pp send", "dp" …
};

/// Names an event that an operation records or waits for.
///
/// A rank event lives as long as the step and is recorded once: number base + stride x micro-batch, so that one
/// template serves all micro-batches. A local event (stride kLocal) belongs to one run of its template. Any later run
/// of a template may reuse its number, so it may only connect streams that advance together: compute with the tensor,
/// context and expert streams.
struct EventRef {
  static constexpr std::int32_t kLocal = -1;
  std::int32_t base = -1;  ///< -1: none
  std::int32_t stride = 0;
  bool none() const { return base < 0; }
  bool local() const { return stride == kLocal; }
  bool operator==(const EventRef&) const = default;
};

enum class OpType : std::uint8_t {
  compute,     ///< operator `payload` of StepGraph::operators; -1: takes no time, only waits
  collective,  ///< call `payload` of StepGraph::collectives
  send,        ///< message `payload` of StepGraph::messages
  receive,
  host_sync,  ///< last of its template: the host waits for `waits` before it issues the next template
};

/// One operation of a template.
struct Op {
  OpType type = OpType::compute;
  StreamId stream = kComputeStream;
  std::int16_t layer = -1;  ///< counted from the first layer of the chunk; -1: not of a layer, or above 32,767
  std::int32_t payload = -1;
  Duration duration;  ///< of a collective or message: from the moment when all of its ranks have started it
  Duration host;      ///< host time to issue it
  std::vector<EventRef> waits;
  EventRef records;
  bool operator==(const Op&) const = default;
};

enum class Phase : std::uint8_t { forward, backward, weight_gradient, optimizer };

struct Template {
  std::string name;  ///< "forward chunk 2"
  Phase phase = Phase::forward;
  std::int16_t chunk = 0;
  std::vector<Op> ops;
  Bytes allocates;  ///< activations kept when it ends
  Bytes releases;   ///< activations freed when it ends
  bool operator==(const Template&) const = default;
};

/// Operators whose time depends on the micro-batch: attention over packed documents. Templates have the means over all
/// batches. Batches are numbered over all ranks of a step, those of one rank in a row (Rank::first_batch).
struct VaryingWork {
  std::int32_t step = 0;                         ///< which is simulated
  std::int32_t batches = 0;                      ///< of one step
  std::vector<std::int32_t> row_of;              ///< [operator]; -1, and operators beyond: the template's time
  std::vector<std::vector<Duration>> durations;  ///< [row][step x batches + batch]

  std::int32_t row(std::int32_t op) const {
    return op >= 0 && static_cast<std::size_t>(op) < row_of.size() ? row_of[static_cast<std::size_t>(op)] : -1;
  }
  Duration of(std::int32_t row, std::int32_t batch) const {
    return durations[static_cast<std::size_t>(row)][static_cast<std::size_t>(step) * static_cast<std::size_t>(batches) +
                                                    static_cast<std::size_t>(batch)];
  }
};

/// A distinct operator with its cost; templates refer to it by index.
struct CostedOperator {
  Operator op;
  OperatorCost cost;
  bool recomputed = false;  ///< repeats forward work in the backward: hardware FLOPs, not model FLOPs
};

/// The simulated ranks of one group.
struct Communicator {
  std::string name;  ///< "tp", "dp stage 3"
  GroupPlacement placement;
  std::vector<std::int32_t> members;  ///< indices into StepGraph::ranks, ascending; one for each class
};

/// A collective that templates call. Members call it in the same order; calls are matched by that order.
/// A communicator is used by one stream of each member only, as NCCL requires.
struct CostedCollective {
  Traffic traffic = Traffic::tensor_parallel;
  std::int32_t slot = 0;  ///< of Rank::communicators
  CollectiveCall call;
  CollectiveCost cost;
  /// Sent beside a multiplication, apart from `call` (tp_comm_overlap).
  Bytes tiled = {};
  Bytes moved() const { return call.size + tiled; }
};

/// A message between two pipeline ranks. Sender and receiver name their own end of the channel; Rank::channels has the
/// other end. The micro-batch identifies a message of a channel.
struct Message {
  std::int32_t channel = -1;  ///< index into Rank::channels
  Bytes size;
  bool eager = false;  ///< the sender does not wait for the receiver
  CollectiveCost cost;
};

struct ProgramItem {
  std::int32_t template_index = 0;
  std::int32_t microbatch = 0;
  bool operator==(const ProgramItem&) const = default;
};

/// The other end of a channel; rank -1: nothing is connected.
struct ChannelEnd {
  std::int32_t rank = -1;
  std::int32_t channel = -1;
  bool operator==(const ChannelEnd&) const = default;
};

/// The slowdown of a rank whose operations take as long as their templates say. A fixed-point number, so that the
/// time of a slow rank does not depend on the order in which its operations are summed.
inline constexpr std::int32_t kNoSlowdown = 1 << 20;

/// `duration` x slowdown / kNoSlowdown, rounded to the nearest picosecond, halves up: exact for any duration >= 0.
constexpr Duration scale_duration(Duration duration, std::int32_t slowdown) {
  const std::int64_t whole = duration.picoseconds >> 20;
  const std::int64_t rest = duration.picoseconds & (kNoSlowdown - 1);
  return {whole * slowdown + ((rest * slowdown + kNoSlowdown / 2) >> 20)};
}

/// One simulated rank: itself, or the representative of `multiplicity` ranks that do the same.
struct Rank {
  std::int32_t representative = 0;  ///< global rank number
  std::int32_t multiplicity = 1;
  /// Time of each operation of its compute stream, relative to the template's: see scale_duration().
  std::int32_t slowdown = kNoSlowdown;
  std::int32_t first_batch = -1;  ///< of VaryingWork, its micro-batch 0; -1: it takes the times of its templates
  std::int32_t pp_rank = 0;
  std::int32_t program = 0;                 ///< index into StepGraph::programs
  std::vector<std::int32_t> communicators;  ///< [slot] -> index into StepGraph::communicators; -1: alone
  std::vector<ChannelEnd> channels;
};

/// A transfer of a folded graph that shares links.
struct FoldedTransfer {
  std::int32_t owner = 0;   ///< communicator, or sending rank
  std::int32_t number = 0;  ///< collective, or channel
  TransferShape shape;      ///< loads on the first link of each class, with the summed weights of all copies
};

struct FoldedLoads {
  std::vector<FoldedTransfer> collectives;
  std::vector<FoldedTransfer> messages;
};

struct StepGraph {
  std::vector<StreamInfo> streams;
  std::int32_t rank_events = 0;   ///< rank events are numbered below this
  std::int32_t local_events = 0;  ///< local events of one template run, at most
  std::int32_t microbatches = 0;
  std::vector<CostedOperator> operators;
  VaryingWork varying;
  std::vector<CostedCollective> collectives;
  std::vector<Message> messages;
  std::vector<Template> templates;
  std::vector<std::vector<ProgramItem>> programs;
  /// [program][chunk]: the layer of the model that Op::layer counts from; a graph without layers may leave it empty
  std::vector<std::vector<std::int32_t>> first_layers;
  std::vector<Communicator> communicators;
  std::vector<Rank> ranks;
  /// Of a graph that was folded over a network with shared links (folded_step.hpp).
  std::optional<FoldedLoads> loads;

  /// Time of a compute operation of `rank` in micro-batch `microbatch`, without transfers beside it.
  Duration duration_of(const Rank& rank, const Op& op, std::int32_t microbatch) const {
    const std::int32_t row = rank.first_batch < 0 ? -1 : varying.row(op.payload);
    const Duration duration = row < 0 ? op.duration : varying.of(row, rank.first_batch + microbatch);
    return scale_duration(duration, rank.slowdown);
  }

  /// Ranks of the whole job.
  std::int64_t total_ranks() const {
    std::int64_t sum = 0;
    for (const Rank& rank : ranks) sum += rank.multiplicity;
    return sum;
  }
};

}  // namespace tracecast
