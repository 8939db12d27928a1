#include "sim/schedule/blocking.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/schedule/program_outputs.hpp"

namespace tracecast {

namespace {

using NodeId = std::size_t;
constexpr NodeId kNone = static_cast<NodeId>(-1);

/// Starts when all nodes that it waits for have ended. A send or receive is two nodes, its start and its end; a message
/// between two ranks is one.
struct Node {
  std::int64_t duration = 0;
  int rank = -1;   ///< -1: a message
  Output message;  ///< what it carries
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<std::pair<NodeId, NodeId>> waits;  ///< (who, for whom)
  std::vector<std::vector<NodeId>> computes;     ///< [rank] its compute steps in order
};

class WaitGraphBuilder {
 public:
  WaitGraphBuilder(const Schedule& schedule, const PipelineProgram& program, const PipelineTimes& times,
                   const BlockingRules& rules)
      : schedule_(schedule),
        program_(program),
        times_(times),
        rules_(rules),
        holders_(schedule),
        ends_(output_count(schedule)) {}

  Graph build() {
    for (std::size_t rank = 0; rank < program_.size(); ++rank) add_rank(rank);
    for (std::size_t i = 0; i < ends_.size(); ++i) add_message(ends_[i]);
    return std::move(graph_);
  }

 private:
  /// The nodes around one output.
  struct Ends {
    Output output;
    NodeId made = kNone;  ///< its compute step
    NodeId send_begin = kNone, send_end = kNone;
    NodeId receive_begin = kNone, receive_end = kNone;
  };
  /// A rank's streams: 0 is that of computation.
  std::size_t stream_of(std::size_t rank, const PipelineOp& step) const {
    const std::size_t receives = is_receive(step.kind) ? 1 : 0;
    switch (rules_.streams) {
      case MessageStreams::compute:
        return 0;
      case MessageStreams::one:
        return 1;
      case MessageStreams::two:
        return 1 + receives;
      case MessageStreams::pairs:
        break;
    }
    const Output output = moved_by(step);
    const std::size_t from = holders_.rank_of(output.stage, output.microbatch);
    const std::size_t peer = receives != 0 ? from : *holders_.receiver(rank, output);
    return 1 + 2 * peer + receives;
  }
  Ends& ends(const Output& output) {
    Ends& e = ends_[output_index(schedule_, output)];
    e.output = output;
    return e;
  }
  NodeId add(const Node& node) {
    graph_.nodes.push_back(node);
    return graph_.nodes.size() - 1;
  }
  void wait(NodeId who, NodeId for_whom) {
    if (for_whom != kNone) graph_.waits.emplace_back(who, for_whom);
  }

  void add_rank(std::size_t rank) {
    std::vector<NodeId> last(2 * program_.size() + 3, kNone);  // [stream] what its next operation comes after
    graph_.computes.emplace_back();
    std::vector<PipelineOp> batch;
    for (const PipelineOp& step : program_[rank]) {
      const bool moves = is_send(step.kind) || is_receive(step.kind);
      if (!moves && !is_compute(step.kind)) continue;  // parameters and gradients move in no time here
      if (moves) batch.push_back(step);
      if (!moves || !rules_.batched) add_batch(rank, batch, last);
      if (!moves) add_compute(rank, step, last[0]);
    }
    add_batch(rank, batch, last);
  }

  void add_compute(std::size_t rank, const PipelineOp& step, NodeId& last) {
    std::vector<NodeId>& computes = graph_.computes[rank];
    const int r = static_cast<int>(rank);
    const NodeId node = add({duration(schedule_, times_, r, schedule_.actions[rank][computes.size()]), r, {}});
    wait(node, last);
    for (const Output& input : inputs_of(schedule_, step)) wait(node, ends(input).receive_end);
    for (const Output& output : results_of(step)) ends(output).made = node;
    computes.push_back(node);
    last = node;
  }

  struct Call {
    std::size_t stream;
    NodeId begin;
    NodeId end;
  };

  /// What of the batch is on one stream begins together and ends together.
  void add_batch(std::size_t rank, std::vector<PipelineOp>& batch, std::vector<NodeId>& last) {
    std::vector<Call> calls;
    for (const PipelineOp& step : batch) {
      const std::size_t stream = stream_of(rank, step);
      auto call = std::find_if(calls.begin(), calls.end(), [&](const Call& c) { return c.stream == stream; });
      if (call == calls.end()) call = calls.insert(calls.end(), begin_call(rank, stream, last[stream]));
      Ends& e = ends(moved_by(step));
      if (is_send(step.kind)) {
        wait(call->begin, e.made);
        e.send_begin = call->begin, e.send_end = call->end;
      } else {
        e.receive_begin = call->begin, e.receive_end = call->end;
      }
    }
    batch.clear();
  }

  Call begin_call(std::size_t rank, std::size_t stream, NodeId& last) {
    const int r = static_cast<int>(rank);
    const Call call{stream, add({0, r, {}}), add({0, r, {}})};
    wait(call.begin, last);
    wait(call.end, call.begin);
    last = call.end;
    return call;
  }

  void add_message(const Ends& e) {
    if (e.send_begin == kNone) return;
    const NodeId message = add({times_.latency, -1, e.output});
    wait(message, e.send_begin);
    wait(e.receive_end, message);
    if (rules_.sends == SendRule::eager) return;
    wait(message, e.receive_begin);
    wait(e.send_end, message);
  }

  const Schedule& schedule_;
  const PipelineProgram& program_;
  const PipelineTimes& times_;
  BlockingRules rules_;
  StageHolders holders_;
  std::vector<Ends> ends_;
  Graph graph_;
};

/// Start of each node; none for those that wait for each other.
std::vector<std::optional<std::int64_t>> starts_of(const Graph& graph) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::size_t> first(count + 1, 0);  // followers of node n: follower[first[n] .. first[n+1])
  std::vector<int> missing(count, 0);
  for (const auto& [who, for_whom] : graph.waits) {
    ++first[for_whom + 1];
    ++missing[who];
  }
  for (std::size_t n = 0; n < count; ++n) first[n + 1] += first[n];
  std::vector<NodeId> follower(graph.waits.size());
  std::vector<std::size_t> fill(first.begin(), first.end() - 1);
  for (const auto& [who, for_whom] : graph.waits) follower[fill[for_whom]++] = who;

  std::vector<std::int64_t> earliest(count, 0);
  std::vector<std::optional<std::int64_t>> starts(count);
  std::vector<NodeId> ready;
  for (NodeId n = 0; n < count; ++n) {
    if (missing[n] == 0) ready.push_back(n);
  }
  while (!ready.empty()) {
    const NodeId n = ready.back();
    ready.pop_back();
    starts[n] = earliest[n];
    for (std::size_t i = first[n]; i < first[n + 1]; ++i) {
      NodeId next = follower[i];
      earliest[next] = std::max(earliest[next], earliest[n] + graph.nodes[n].duration);
      if (--missing[next] == 0) ready.push_back(next);
    }
  }
  return starts;
}

/// Nodes that wait for each other in a cycle, each for the one after it. Requires that some node has no start.
std::vector<NodeId> cycle_of(const Graph& graph, const std::vector<std::optional<std::int64_t>>& starts) {
  std::vector<NodeId> waits_for(graph.nodes.size(), kNone);
  for (const auto& [who, for_whom] : graph.waits) {
    if (!starts[who] && !starts[for_whom]) waits_for[who] = for_whom;
  }
  NodeId node = static_cast<NodeId>(std::find(starts.begin(), starts.end(), std::nullopt) - starts.begin());
  std::vector<bool> seen(graph.nodes.size());
  while (!seen[node]) {
    seen[node] = true;
    node = waits_for[node];
  }
  std::vector<NodeId> cycle{node};
  for (NodeId n = waits_for[node]; n != node; n = waits_for[n]) cycle.push_back(n);
  return cycle;
}

/// One sentence part per message of the cycle that leads from a rank to another.
std::string describe(const Graph& graph, const std::vector<NodeId>& cycle, const StageHolders& holders) {
  std::string text;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Node& node = graph.nodes[cycle[i]];
    if (node.rank >= 0) continue;
    const int from = graph.nodes[cycle[(i + cycle.size() - 1) % cycle.size()]].rank;
    const int to = graph.nodes[cycle[(i + 1) % cycle.size()]].rank;
    if (from == to) continue;
    const bool sends = holders.rank_of(node.message.stage, node.message.microbatch) == static_cast<std::size_t>(from);
    const std::string send = to_string(send_of(node.message));
    const std::string receive = to_string(receive_of(node.message));
    text += fmt::format("{}rank {} waits at {} for {} of rank {}", text.empty() ? "" : "; ", from,
                        sends ? send : receive, sends ? receive : send, to);
  }
  return text;
}

}  // namespace

Result<PipelineRun> simulate_program(const Schedule& schedule, const PipelineProgram& program,
                                     const PipelineTimes& times, const BlockingRules& rules) {
  const Graph graph = WaitGraphBuilder(schedule, program, times, rules).build();
  const auto starts = starts_of(graph);
  if (std::find(starts.begin(), starts.end(), std::nullopt) != starts.end()) {
    return fail("deadlock: " + describe(graph, cycle_of(graph, starts), StageHolders(schedule)));
  }
  PipelineRun run;
  for (const std::vector<NodeId>& computes : graph.computes) {
    std::vector<Interval>& actions = run.actions.emplace_back();
    for (NodeId node : computes) actions.push_back({*starts[node], *starts[node] + graph.nodes[node].duration});
  }
  summarise(schedule, times, run);
  return run;
}

Result<PipelineRun> simulate_blocking(const Schedule& schedule, const PipelineTimes& times,
                                      const BlockingRules& rules) {
  const PipelineProgram computes = program_of(schedule);
  const PipelineProgram program = rules.receives == ReceiveOrder::early ? with_early_receives(schedule, computes)
                                                                        : with_receives_at_use(schedule, computes);
  return simulate_program(schedule, program, times, rules);
}

}  // namespace tracecast
