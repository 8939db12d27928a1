#include "sim/graph/schedule_graph.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/schedule/program_outputs.hpp"

namespace tracecast {
namespace {

constexpr int kInFlight = 32;  ///< eager messages of a rank
constexpr std::size_t kMaxStreams = std::numeric_limits<StreamId>::max();

enum Side { kReceiveForward, kSendForward, kReceiveBackward, kSendBackward };
constexpr int kSides = 4;

Side side_of(PipelineOpKind kind) {
  if (kind == PipelineOpKind::receive_forward) return kReceiveForward;
  if (kind == PipelineOpKind::send_forward) return kSendForward;
  return kind == PipelineOpKind::receive_backward ? kReceiveBackward : kSendBackward;
}

/// An event of one micro-batch; -1: none.
struct Moment {
  std::int32_t first = -1;  ///< event of micro-batch 0
  std::int32_t microbatch = 0;
};

/// A send or receive of the rank that is built.
struct Transfer {
  PipelineOp step;
  int chunk = 0;
  Side side = kReceiveForward;
  bool sends() const { return is_send(step.kind); }
};

class Builder {
 public:
  Builder(const Schedule& schedule, const PipelineProgram& program, const PipelineTimes& times,
          const MessageRules& rules)
      : schedule_(schedule), program_(program), times_(times), rules_(rules), holders_(schedule) {}

  Result<ScheduleGraph> build() {
    StepGraph& graph = result_.graph;
    graph.microbatches = schedule_.microbatches;
    graph.rank_events = kEventKinds * kSides * schedule_.chunks * schedule_.microbatches;
    graph.streams.push_back({"compute"});
    for (int channel = 0; channel < kSides * schedule_.chunks; ++channel) {
      Message& message = graph.messages.emplace_back();
      message.channel = channel;
      message.eager = eager();
      message.cost.duration = {times_.latency};
    }
    for (int rank = 0; rank < schedule_.ranks; ++rank) add_rank(rank);
    if (stream_numbers_.size() >= kMaxStreams)
      return fail(fmt::format("the messages of a rank need more than {} streams", kMaxStreams));
    return std::move(result_);
  }

 private:
  // ---- Ranks -------------------------------------------------------------------------------------------------------

  static std::size_t size(int n) { return static_cast<std::size_t>(n); }
  bool eager() const { return rules_.sends == SendRule::eager; }

  /// The chunk of a rank that holds a stage of the copy of the model that works on a micro-batch.
  int chunk_of(int rank, int stage, int microbatch) const {
    const int replica = schedule_.replica_of_microbatch(microbatch);
    int chunk = 0;
    while (schedule_.stage_of[size(rank)][size(chunk)] != stage ||
           schedule_.replica_of[size(rank)][size(chunk)] != replica)
      ++chunk;
    return chunk;
  }

  /// The other end of a channel; none if the stage beyond it is on this rank, or does not exist.
  ChannelEnd other_end(int rank, int chunk, Side side) const {
    constexpr int kOpposite[] = {kSendForward, kReceiveForward, kSendBackward, kReceiveBackward};
    const bool before = side == kReceiveForward || side == kSendBackward;
    const int stage = schedule_.stage_of[size(rank)][size(chunk)] + (before ? -1 : 1);
    if (stage < 0 || stage >= schedule_.stages()) return {};
    const int replica = schedule_.replica_of[size(rank)][size(chunk)];
    const int microbatch = replica * schedule_.microbatches / schedule_.replicas;
    const int other = static_cast<int>(holders_.rank_of(stage, microbatch));
    if (other == rank) return {};
    return {other, kSides * chunk_of(other, stage, microbatch) + kOpposite[side]};
  }

  void add_rank(int index) {
    rank_ = index;
    sent_ = 0;
    peers_.clear();
    made_.assign(size(2 * schedule_.chunks * schedule_.microbatches), {});
    arrived_ = made_;
    items_.clear();
    Rank rank;
    rank.representative = rank.pp_rank = rank.program = index;
    for (int channel = 0; channel < kSides * schedule_.chunks; ++channel)
      rank.channels.push_back(other_end(index, channel / kSides, static_cast<Side>(channel % kSides)));
    add_program(program_[size(index)], schedule_.actions[size(index)]);
    result_.graph.programs.push_back(items_);
    result_.graph.ranks.push_back(std::move(rank));
  }

  void add_program(const std::vector<PipelineOp>& steps, const std::vector<Action>& actions) {
    std::vector<Transfer> batch;
    std::size_t at = 0;
    for (const PipelineOp& step : steps) {
      if (is_send(step.kind) || is_receive(step.kind)) {
        batch.push_back({step, chunk_of(rank_, step.stage, step.microbatch), side_of(step.kind)});
        if (!rules_.batched) add_batch(batch);
      } else if (is_compute(step.kind)) {  // parameters and gradients move in no time here
        add_batch(batch);
        add_action(step, actions[at++]);
      }
    }
    add_batch(batch);
  }

  // ---- Events ------------------------------------------------------------------------------------------------------

  enum EventKind { kMade, kBegun, kMoved, kEnded };
  static constexpr int kEventKinds = 4;

  Moment moment(EventKind kind, int chunk, int side, int microbatch) const {
    return {((kind * schedule_.chunks + chunk) * kSides + side) * schedule_.microbatches, microbatch};
  }
  Moment moment(EventKind kind, const Transfer& transfer) const {
    return moment(kind, transfer.chunk, transfer.side, transfer.step.microbatch);
  }
  /// What was made or has arrived of one direction of a chunk.
  std::size_t slot(int chunk, bool backward, int microbatch) const {
    return size((2 * chunk + (backward ? 1 : 0)) * schedule_.microbatches + microbatch);
  }

  // ---- Operations --------------------------------------------------------------------------------------------------

  void add_action(const PipelineOp& step, const Action& action) {
    std::vector<Moment> waits;
    const auto input = [&](int chunk, bool backward, int microbatch) {
      waits.push_back(arrived_[slot(chunk, backward, microbatch)]);
    };
    const bool pair = action.kind == ActionKind::forward_backward;
    const bool forward = pair || action.kind == ActionKind::forward;
    const Moment made = moment(kMade, action.chunk, forward ? 0 : 1, action.microbatch);
    const auto output = [&](int chunk, bool backward, int microbatch) {
      input(chunk, backward, microbatch);
      made_[slot(chunk, backward, microbatch)] = made;
    };
    if (forward) output(action.chunk, false, action.microbatch);
    if (pair) output(action.chunk2, true, action.microbatch2);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_input)
      output(action.chunk, true, action.microbatch);
    Op op;
    op.duration = {duration(schedule_, times_, rank_, action)};
    const bool makes = action.kind != ActionKind::backward_weight;
    issue(std::move(op), waits, makes ? made : Moment{}, step, true);
  }

  /// The streams of a rank: 0 is that of computation.
  StreamId stream_of(const Transfer& transfer) {
    switch (rules_.streams) {
      case MessageStreams::compute:
        return kComputeStream;
      case MessageStreams::one:
        return stream("messages");
      case MessageStreams::two:
        return stream(transfer.sends() ? "sends" : "receives");
      case MessageStreams::pairs:
        break;
    }
    const int peer = other_end(rank_, transfer.chunk, transfer.side).rank;
    const auto number = peers_.try_emplace(peer, peers_.size()).first->second;
    return stream(fmt::format("{} peer {}", transfer.sends() ? "sends to" : "receives from", number));
  }

  StreamId stream(const std::string& name) {
    std::vector<StreamInfo>& streams = result_.graph.streams;
    const auto [found, added] = stream_numbers_.try_emplace(name, static_cast<StreamId>(streams.size()));
    if (added) streams.push_back({name});
    return found->second;
  }

  /// The transfers of the batch that are on one stream are one call.
  void add_batch(std::vector<Transfer>& batch) {
    std::vector<std::pair<StreamId, std::vector<Transfer>>> calls;
    for (const Transfer& transfer : batch) {
      const StreamId on = stream_of(transfer);
      auto call = std::find_if(calls.begin(), calls.end(), [&](const auto& c) { return c.first == on; });
      if (call == calls.end()) call = calls.insert(calls.end(), {on, {}});
      call->second.push_back(transfer);
    }
    for (const auto& [on, transfers] : calls) add_call(on, transfers);
    batch.clear();
  }

  void add_call(StreamId on, const std::vector<Transfer>& transfers) {
    const Transfer& first = transfers.front();
    if (transfers.size() == 1 && on != kComputeStream && !(eager() && first.sends())) {
      move(first, on, first.sends() ? made_of(first) : Moment{});
      if (!first.sends()) arrived_of(first) = moment(kMoved, first);
      return;
    }
    // The call begins and ends on its stream. In between each transfer has a stream of its own, so that none waits for
    // another one.
    std::vector<Moment> made;
    std::vector<Moment> moved;
    for (const Transfer& transfer : transfers) {
      if (transfer.sends()) made.push_back(made_of(transfer));
      if (!(eager() && transfer.sends())) moved.push_back(moment(kMoved, transfer));
    }
    const Moment begun = moment(kBegun, first);
    const Moment ended = moment(kEnded, first);
    mark(on, made, begun, first.step);
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const Transfer& transfer = transfers[i];
      const bool leaves = eager() && transfer.sends();
      const std::string name = leaves ? fmt::format("in flight {}", sent_++ % kInFlight)
                                      : fmt::format("{} {}", result_.graph.streams[on].name, i);
      move(transfer, stream(name), begun);
      if (!transfer.sends()) arrived_of(transfer) = ended;
    }
    if (!moved.empty()) mark(on, moved, ended, first.step);
  }

  Moment made_of(const Transfer& t) const { return made_[slot(t.chunk, t.side == kSendBackward, t.step.microbatch)]; }
  Moment& arrived_of(const Transfer& t) {
    return arrived_[slot(t.chunk, t.side == kReceiveBackward, t.step.microbatch)];
  }

  /// An operation that takes no time.
  void mark(StreamId on, const std::vector<Moment>& waits, Moment records, const PipelineOp& step) {
    Op op;
    op.stream = on;
    issue(std::move(op), waits, records, step, false);
  }

  void move(const Transfer& transfer, StreamId on, Moment after) {
    Op op;
    op.type = transfer.sends() ? OpType::send : OpType::receive;
    op.stream = on;
    op.payload = kSides * transfer.chunk + transfer.side;
    op.duration = {times_.latency};
    issue(std::move(op), {after}, moment(kMoved, transfer), transfer.step, false);
  }

  /// Adds an operation to the program of the rank. Operations that differ in their micro-batch only share a template.
  void issue(Op op, const std::vector<Moment>& waits, Moment records, const PipelineOp& step, bool is_action) {
    const auto reference = [&](Moment m) -> EventRef {
      return m.microbatch == step.microbatch ? EventRef{m.first, 1} : EventRef{m.first + m.microbatch, 0};
    };
    std::vector<std::int64_t> key{static_cast<int>(op.type), op.stream, op.payload, op.duration.picoseconds, is_action};
    for (const Moment& wait : waits) {
      if (wait.first < 0) continue;
      op.waits.push_back(reference(wait));
      key.insert(key.end(), {op.waits.back().base, op.waits.back().stride});
    }
    if (records.first >= 0) op.records = reference(records);
    key.insert(key.end(), {op.records.base, op.records.stride, static_cast<int>(step.kind), step.stage, step.stage2});
    const auto next = static_cast<std::int32_t>(result_.graph.templates.size());
    const auto [found, added] = templates_.try_emplace(std::move(key), next);
    if (added) {
      Template& made = result_.graph.templates.emplace_back();
      const bool pair = step.kind == PipelineOpKind::overlapped;
      made.name = to_string(pair ? step : PipelineOp{.kind = step.kind, .stage = step.stage});
      made.ops.push_back(std::move(op));
      result_.is_action.push_back(is_action);
    }
    items_.push_back({found->second, step.microbatch});
  }

  const Schedule& schedule_;
  const PipelineProgram& program_;
  const PipelineTimes& times_;
  const MessageRules rules_;
  const StageHolders holders_;
  ScheduleGraph result_;
  std::map<std::string, StreamId> stream_numbers_;
  std::map<std::vector<std::int64_t>, std::int32_t> templates_;
  // Of the rank that is built:
  int rank_ = 0;
  int sent_ = 0;                      ///< eager messages
  std::map<int, std::size_t> peers_;  ///< rank -> number
  std::vector<Moment> made_;          ///< [slot] when an output is there
  std::vector<Moment> arrived_;       ///< [slot] when an input is there
  std::vector<ProgramItem> items_;
};

}  // namespace

Result<ScheduleGraph> schedule_graph(const Schedule& schedule, const PipelineProgram& program,
                                     const PipelineTimes& times, const MessageRules& rules) {
  return Builder(schedule, program, times, rules).build();
}

Result<ScheduleGraph> schedule_graph(const Schedule& schedule, const PipelineTimes& times, const MessageRules& rules) {
  const PipelineProgram computes = program_of(schedule);
  return schedule_graph(schedule,
                        rules.receives == ReceiveOrder::early ? with_early_receives(schedule, computes)
                                                              : with_receives_at_use(schedule, computes),
                        times, rules);
}

}  // namespace tracecast
