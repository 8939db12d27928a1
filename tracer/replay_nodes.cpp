#include "tracer/replay_nodes.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include "tracer/replay.hpp"

namespace tracecast {
namespace {

bool waits_for_gpu(const std::string& name) {
  return name.find("Synchronize") != std::string::npos || name == "cudaMemcpy" || name == "hipMemcpy";
}

}  // namespace

DeviceNodes::DeviceNodes(const Trace& trace, const std::vector<RecordedWork>& works, std::int64_t origin,
                         std::int64_t host_end) {
  for (const RecordedWork& work : works) {
    Node node;
    node.work = work;
    node.issue = std::max<std::int64_t>(0, launch_ns(trace, work) - origin);
    node.start = work.start_ns - origin;
    node.end = work.end_ns - origin;
    nodes.push_back(node);
  }
  order_streams();
  find_causes();
  find_syncs(trace, origin, host_end);
}

void DeviceNodes::order_streams() {
  std::stable_sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) {
    return std::tuple(a.work.stream, a.start, a.end) < std::tuple(b.work.stream, b.start, b.end);
  });
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const bool last = i + 1 == nodes.size() || nodes[i + 1].work.stream != nodes[i].work.stream;
    if (!last) nodes[i].issue = std::min(nodes[i].issue, nodes[i + 1].issue);
  }
  std::int64_t previous_end = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    if (i == 0 || nodes[i - 1].work.stream != node.work.stream) previous_end = 0;
    node.start = std::max(node.start, previous_end);
    node.end = std::max(node.end, node.start);
    node.ready = std::max(node.issue, previous_end);
    previous_end = node.end;
  }
  std::stable_sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) {
    return std::tuple(a.issue, a.start) < std::tuple(b.issue, b.start);
  });
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].order = static_cast<std::int32_t>(i);
    std::vector<std::int32_t>& stream = streams[nodes[i].work.stream];
    if (!stream.empty()) nodes[i].previous = stream.back();
    stream.push_back(static_cast<std::int32_t>(i));
  }
}

std::vector<std::int32_t> DeviceNodes::by_end() const {
  std::vector<std::int32_t> order(nodes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [this](std::int32_t a, std::int32_t b) {
    return nodes[static_cast<std::size_t>(a)].end < nodes[static_cast<std::size_t>(b)].end;
  });
  return order;
}

template <class Fits>
std::int32_t DeviceNodes::last_end(const std::vector<std::int32_t>& ends, std::int64_t after, std::int64_t until,
                                   Fits fits) {
  auto it = std::upper_bound(ends.begin(), ends.end(), until,
                             [this](std::int64_t time, std::int32_t n) { return time < at(n).end; });
  while (it != ends.begin() && at(*--it).end > after)
    if (fits(at(*it))) return *it;
  return -1;
}

void DeviceNodes::find_causes() {
  if (streams.size() < 2) return;
  const std::vector<std::int32_t> ends = by_end();
  for (Node& node : nodes) {
    if (node.start - node.ready <= kPauseNs) continue;
    node.cause = last_end(ends, node.ready, node.start, [&node](const Node& other) {
      return other.work.stream != node.work.stream && other.order < node.order && other.start < node.start;
    });
    if (node.cause >= 0) at(node.cause).is_cause = true;
  }
}

void DeviceNodes::find_syncs(const Trace& trace, std::int64_t origin, std::int64_t host_end) {
  const std::vector<std::int32_t> ends = by_end();
  for (const TraceCall& call : trace.calls) {
    if (!waits_for_gpu(call.name)) continue;
    const std::int64_t begin = call.start_ns - origin;
    const std::int64_t end = call.end_ns - origin;
    const auto next = std::lower_bound(nodes.begin(), nodes.end(), begin,
                                       [](const Node& n, std::int64_t time) { return n.issue < time; });
    if (next == nodes.begin() || end > (next == nodes.end() ? host_end : next->issue)) continue;
    const std::int32_t cause = last_end(ends, begin, end, [begin](const Node& other) { return other.issue < begin; });
    if (cause < 0) continue;
    at(cause).is_cause = true;
    syncs.push_back({begin, cause});
  }
  std::sort(syncs.begin(), syncs.end(), [](const Sync& a, const Sync& b) { return a.time < b.time; });
}

}  // namespace tracecast
