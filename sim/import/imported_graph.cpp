#include "sim/import/imported_graph.hpp"

#include <map>
#include <queue>
#include <unordered_map>

#include <fmt/format.h>

namespace tracecast {
namespace {

constexpr StreamId kHostStream = 4;

/// compute 0, collectives 1, sends 2, receives 3, the CPU 4
StreamId stream_of(const ImportedNode& node) {
  switch (node.kind) {
    case ImportedNode::Kind::collective:
      return 1;
    case ImportedNode::Kind::send:
      return 2;
    case ImportedNode::Kind::receive:
      return 3;
    case ImportedNode::Kind::host:
      return kHostStream;
    default:
      return kComputeStream;
  }
}

}  // namespace

Traffic traffic_of(Collective collective) {
  switch (collective) {
    case Collective::all_gather:
      return Traffic::parameters;
    case Collective::all_to_all:
      return Traffic::expert_parallel;
    case Collective::send_recv:
      return Traffic::pipeline;
    case Collective::broadcast:
      return Traffic::control;
    default:
      return Traffic::gradients;
  }
}

Result<void> check_durations(const ImportedGraph& step, const std::string& file) {
  constexpr double kMaxSeconds = 8'640'000;
  double sum = 0;
  for (const ImportedNode& node : step.nodes) sum += seconds(node.duration);
  if (sum > kMaxSeconds) return fail({file, 0, "", "", "has nodes of more than 100 days together"});
  return {};
}

namespace {

/// Who waits for whom in a file, by index of the nodes.
struct Dependencies {
  std::vector<std::vector<std::int32_t>> before;  ///< [node] as the file lists them
  std::vector<std::vector<std::int32_t>> next;    ///< [node]
  std::int64_t unknown = 0;                       ///< on nodes that the file does not have, or on the node itself
};

/// Errors: an id of two nodes.
Result<Dependencies> dependencies_of(const ImportedGraph& step, const std::vector<std::vector<std::int64_t>>& after,
                                     const std::string& file) {
  const std::size_t count = step.nodes.size();
  std::unordered_map<std::int64_t, std::int32_t> index;
  for (std::size_t i = 0; i < count; ++i)
    if (!index.try_emplace(step.nodes[i].id, static_cast<std::int32_t>(i)).second)
      return fail({file, 0, "id", std::to_string(step.nodes[i].id), "is the id of two nodes"});
  Dependencies found{std::vector<std::vector<std::int32_t>>(count), std::vector<std::vector<std::int32_t>>(count)};
  for (std::size_t i = 0; i < count; ++i)
    for (const std::int64_t id : after[i]) {
      const auto other = index.find(id);
      if (other == index.end() || other->second == static_cast<std::int32_t>(i)) {
        ++found.unknown;
        continue;
      }
      found.before[i].push_back(other->second);
      found.next[static_cast<std::size_t>(other->second)].push_back(static_cast<std::int32_t>(i));
    }
  return found;
}

}  // namespace

Result<void> order_nodes(ImportedGraph& step, const std::vector<std::vector<std::int64_t>>& after,
                         const std::string& file) {
  if (const auto ok = check_durations(step, file); !ok) return ok;
  const Result<Dependencies> found = dependencies_of(step, after, file);
  if (!found) return tl::unexpected(found.error());
  const std::size_t count = step.nodes.size();
  std::vector<std::size_t> waits(count);
  // Of all that are ready the first in the file: a graph that is in order stays as it is.
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    waits[i] = found->before[i].size();
    if (waits[i] == 0) ready.push(static_cast<std::int32_t>(i));
  }
  std::vector<std::int32_t> place(count, -1);
  std::vector<ImportedNode> ordered;
  ordered.reserve(count);
  while (!ready.empty()) {
    const auto i = static_cast<std::size_t>(ready.top());
    ready.pop();
    place[i] = static_cast<std::int32_t>(ordered.size());
    ordered.push_back(std::move(step.nodes[i]));
    for (const std::int32_t before : found->before[i])
      ordered.back().after.push_back(place[static_cast<std::size_t>(before)]);
    for (const std::int32_t next : found->next[i])
      if (--waits[static_cast<std::size_t>(next)] == 0) ready.push(next);
  }
  if (ordered.size() < count)
    return fail(
        {file, 0, "", "", fmt::format("has {} nodes that depend on each other in a cycle", count - ordered.size())});
  step.nodes = std::move(ordered);
  if (found->unknown > 0)
    step.notes.push_back(
        fmt::format("{} dependencies on nodes that are not in the file were left out", found->unknown));
  return {};
}

namespace {

/// An event for every node that one of another stream waits for. [node]
std::vector<EventRef> events_of(const ImportedGraph& step, StepGraph& graph) {
  std::vector<EventRef> events(step.nodes.size());
  for (const ImportedNode& node : step.nodes)
    for (const std::int32_t before : node.after)
      if (stream_of(step.nodes[static_cast<std::size_t>(before)]) != stream_of(node) &&
          events[static_cast<std::size_t>(before)].none())
        events[static_cast<std::size_t>(before)] = {graph.rank_events++, 0};
  return events;
}

CostedOperator operator_of(const ImportedNode& node) {
  return {{OperatorKind::copy, Pass::forward, Precision::fp32, node.name, ElementwiseShape{}},
          {node.duration, 0, Provenance::measured},
          false};
}

CostedCollective costed_collective(const ImportedNode& node) {
  CostedCollective call;
  call.slot = stream_of(node) - 1;
  call.call.collective = node.kind == ImportedNode::Kind::collective ? node.collective : Collective::send_recv;
  call.traffic = traffic_of(call.call.collective);
  call.call.size = node.size;
  call.cost.duration = node.duration;
  call.cost.provenance = Provenance::measured;
  return call;
}

/// The lone rank, with a communicator for each stream of transfers. Durations are recorded, so that none needs partners.
void add_rank(StepGraph& graph) {
  Rank rank;
  for (std::int32_t slot = 0; slot < 3; ++slot) {
    Communicator communicator;
    communicator.name = graph.streams[static_cast<std::size_t>(slot) + 1].name;
    communicator.placement.ranks = 2;
    communicator.members = {0};
    graph.communicators.push_back(std::move(communicator));
    rank.communicators.push_back(slot);
  }
  graph.ranks.push_back(std::move(rank));
}

}  // namespace

StepGraph step_graph_of(const ImportedGraph& step) {
  StepGraph graph;
  graph.streams = {{"compute"}, {"collectives"}, {"send"}, {"receive"}, {"host"}};
  graph.microbatches = 1;
  Template part;
  part.name = "step";
  const std::vector<EventRef> events = events_of(step, graph);
  std::map<std::string, std::int32_t> operators;
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    const ImportedNode& node = step.nodes[i];
    Op op;
    op.stream = stream_of(node);
    op.duration = node.duration;
    op.records = events[i];
    for (const std::int32_t before : node.after)
      if (stream_of(step.nodes[static_cast<std::size_t>(before)]) != op.stream)
        op.waits.push_back(events[static_cast<std::size_t>(before)]);
    if (op.stream == kComputeStream || op.stream == kHostStream) {
      op.payload = operators.try_emplace(node.name, static_cast<std::int32_t>(operators.size())).first->second;
      if (static_cast<std::size_t>(op.payload) == graph.operators.size()) graph.operators.push_back(operator_of(node));
    } else {
      op.type = OpType::collective;
      op.payload = static_cast<std::int32_t>(graph.collectives.size());
      graph.collectives.push_back(costed_collective(node));
    }
    part.ops.push_back(std::move(op));
  }
  graph.templates.push_back(std::move(part));
  graph.programs.push_back({{0, 0}});
  add_rank(graph);
  return graph;
}

}  // namespace tracecast
