#include "sim/engine/simulate.hpp"

#include <cstring>
#include <type_traits>
#include <vector>

#include "sim/graph/shared_transfers.hpp"
#include "sim/network/fluid.hpp"
#include "sim/network/simgrid.hpp"

namespace tracecast {
namespace {

// ---- A timeline as bytes, between the simulating child process and this one -------------------------------------------

template <class T>
void put(std::string& text, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
void put_all(std::string& text, const std::vector<T>& values) {
  put(text, values.size());
  for (const T& value : values) put(text, value);
}

template <class T>
T get(const std::string& text, std::size_t& at) {
  T value;
  TRACECAST_ASSERT(at + sizeof value <= text.size(), "the child process writes a complete timeline");
  std::memcpy(&value, text.data() + at, sizeof value);
  at += sizeof value;
  return value;
}

template <class T>
std::vector<T> get_all(const std::string& text, std::size_t& at) {
  std::vector<T> values(get<std::size_t>(text, at));
  for (T& value : values) value = get<T>(text, at);
  return values;
}

/// The first letter is the kind of content: 't' a timeline, 'e' an error message.
std::string to_bytes(const Result<Timeline>& result) {
  if (!result) return "e" + to_string(result.error());
  std::string text = "t";
  put(text, result->given_up);
  put(text, result->step_time);
  put(text, result->events);
  put_all(text, result->ranks);
  put_all(text, result->ends);
  put_all(text, result->spans);
  return text;
}

Result<Timeline> from_bytes(const std::string& text) {
  if (text.empty() || text.front() != 't') return fail(text.empty() ? text : text.substr(1));
  std::size_t at = 1;
  Timeline timeline;
  timeline.given_up = get<bool>(text, at);
  timeline.step_time = get<Duration>(text, at);
  timeline.events = get<std::int64_t>(text, at);
  timeline.ranks = get_all<RankTime>(text, at);
  timeline.ends = get_all<Duration>(text, at);
  timeline.spans = get_all<Span>(text, at);
  return timeline;
}

Result<Timeline> simulate_fluid(const StepGraph& graph, const ClusterLinks& links, const EngineOptions& options) {
  FluidNetwork network(links);
  const SharedTransfers transfers =
      graph.loads ? SharedTransfers(graph, [&network](const TransferShape& shape) { return network.add_kind(shape); })
                  : SharedTransfers(graph, links,
                                    [&network](const SharedTransfer& each) { return network.add_kind(each.shape); });
  const LinkSharing sharing{network, transfers};
  return run_engine(graph, options, &sharing);
}

Result<Timeline> simulate_simgrid(const StepGraph& graph, const ClusterLinks& links, const EngineOptions& options) {
  SimGridNetwork network(links);
  const SharedTransfers transfers(graph, links, [&network](const SharedTransfer& transfer) {
    return network.add_kind(transfer.cost, transfer.schedule, transfer.group);
  });
  if (transfers.kinds() == 0) return run_engine(graph, options);
  const Result<std::string> answer = network.run([&](FlowNetwork& in_child) {
    const LinkSharing sharing{in_child, transfers};
    return to_bytes(run_engine(graph, options, &sharing));
  });
  if (!answer) return tl::unexpected(answer.error());
  return from_bytes(*answer);
}

}  // namespace

StepNetwork::StepNetwork(NetworkKind kind, const Cluster& machine, const std::string& architecture) : kind_(kind) {
  if (kind != NetworkKind::isolated) links_.emplace(machine, architecture);
}

Result<Timeline> simulate(const StepGraph& graph, const StepNetwork& network, const EngineOptions& options) {
  switch (network.kind()) {
    case NetworkKind::isolated:
      return run_engine(graph, options);
    case NetworkKind::fluid:
      return simulate_fluid(graph, *network.links(), options);
    case NetworkKind::simgrid:
      return simulate_simgrid(graph, *network.links(), options);
  }
  TRACECAST_ASSERT(false, "every network simulates steps");
  return {};
}

}  // namespace tracecast
