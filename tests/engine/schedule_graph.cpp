#include "tests/engine/schedule_graph.hpp"

#include <utility>

namespace tracecast::test {
namespace {

enum Side { kReceiveForward, kSendForward, kReceiveBackward, kSendBackward };

class Maker {
 public:
  Maker(const Schedule& schedule, const PipelineTimes& times, const ScheduleGraphOptions& options)
      : schedule_(schedule), times_(times), options_(options) {}

  StepGraph make() {
    graph_.microbatches = schedule_.microbatches;
    graph_.rank_events = 4 * schedule_.chunks * schedule_.microbatches;
    graph_.streams.push_back({"compute"});
    for (int chunk = 0; chunk < schedule_.chunks; ++chunk)
      for (const char* side : {"receive forward", "send forward", "receive backward", "send backward"})
        graph_.streams.push_back({std::string(side) + " " + std::to_string(chunk)});
    for (int channel = 0; channel < 4 * schedule_.chunks; ++channel) {
      Message message;
      message.channel = channel;
      message.eager = options_.eager;
      message.cost.duration = {times_.latency};
      graph_.messages.push_back(message);
    }
    for (int rank = 0; rank < schedule_.ranks; ++rank) add_rank(rank);
    return std::move(graph_);
  }

 private:
  std::pair<int, int> slot_of(int replica, int stage) const {
    for (int rank = 0; rank < schedule_.ranks; ++rank)
      for (int chunk = 0; chunk < schedule_.chunks; ++chunk)
        if (stage_of(rank, chunk) == stage && schedule_.replica_of[size(rank)][size(chunk)] == replica)
          return {rank, chunk};
    return {-1, -1};
  }
  static std::size_t size(int n) { return static_cast<std::size_t>(n); }
  int stage_of(int rank, int chunk) const { return schedule_.stage_of[size(rank)][size(chunk)]; }
  std::pair<int, int> neighbour(int rank, int chunk, int step) const {
    return slot_of(schedule_.replica_of[size(rank)][size(chunk)], stage_of(rank, chunk) + step);
  }
  /// The other side of a channel on another rank, or {-1, -1}.
  ChannelEnd other_end(int rank, int chunk, Side side) const {
    const bool before = side == kReceiveForward || side == kSendBackward;
    const auto [there, other_chunk] = neighbour(rank, chunk, before ? -1 : +1);
    if (there < 0 || there == rank) return {};
    constexpr int kOpposite[] = {kSendForward, kReceiveForward, kSendBackward, kReceiveBackward};
    return {there, 4 * other_chunk + kOpposite[side]};
  }

  void add_rank(int index) {
    Rank rank;
    rank.representative = index;
    rank.pp_rank = index;
    rank.program = index;
    for (int chunk = 0; chunk < schedule_.chunks; ++chunk)
      for (int side = 0; side < 4; ++side) rank.channels.push_back(other_end(index, chunk, static_cast<Side>(side)));
    std::vector<ProgramItem> program;
    for (const Action& action : schedule_.actions[size(index)])
      program.push_back({add_template(index, action), action.microbatch});
    graph_.programs.push_back(std::move(program));
    graph_.ranks.push_back(std::move(rank));
  }

  std::int32_t add_template(int rank, const Action& action) {
    Template result;
    result.name = std::to_string(static_cast<int>(action.kind)) + " chunk " + std::to_string(action.chunk);
    Op compute;
    compute.duration = {duration(schedule_, times_, rank, action)};
    const bool forward = action.kind == ActionKind::forward;
    const bool moves = action.kind != ActionKind::backward_weight;
    if (moves) receive(result, compute, rank, action.chunk, forward ? kReceiveForward : kReceiveBackward);
    const Side out = forward ? kSendForward : kSendBackward;
    const bool sends = moves && other_end(rank, action.chunk, out).rank >= 0;
    if (sends) compute.records = event(action.chunk, out);
    result.ops.push_back(compute);
    if (sends) result.ops.push_back(transfer(OpType::send, action.chunk, out, {event(action.chunk, out)}, {}));
    graph_.templates.push_back(std::move(result));
    return static_cast<std::int32_t>(graph_.templates.size()) - 1;
  }

  void receive(Template& result, Op& compute, int rank, int chunk, Side side) {
    if (other_end(rank, chunk, side).rank < 0) return;
    result.ops.push_back(transfer(OpType::receive, chunk, side, {}, event(chunk, side)));
    compute.waits.push_back(event(chunk, side));
  }

  EventRef event(int chunk, Side side) const { return {(4 * chunk + side) * schedule_.microbatches, 1}; }

  Op transfer(OpType type, int chunk, Side side, std::vector<EventRef> waits, EventRef records) const {
    Op op;
    op.type = type;
    op.stream = static_cast<StreamId>(1 + 4 * chunk + side);
    op.payload = 4 * chunk + side;
    op.duration = {times_.latency};
    op.waits = std::move(waits);
    op.records = records;
    return op;
  }

  const Schedule& schedule_;
  const PipelineTimes& times_;
  const ScheduleGraphOptions& options_;
  StepGraph graph_;
};

}  // namespace

StepGraph schedule_graph(const Schedule& schedule, const PipelineTimes& times, const ScheduleGraphOptions& options) {
  return Maker(schedule, times, options).make();
}

}  // namespace tracecast::test
