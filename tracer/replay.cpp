#include "tracer/replay.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/import/kernel_names.hpp"
#include "tracer/recorded_work.hpp"

namespace tracecast {
namespace {

constexpr std::string_view kStepRange = "ProfilerStep#";
constexpr std::size_t kMaxStreams = 248;  // StreamId is 8 bits, and the compute stream has two more
constexpr const char* kGap = "gap";

Duration duration_of(std::int64_t nanoseconds) { return {nanoseconds * 1000}; }

std::optional<std::int64_t> step_number(const TraceRange& range) {
  if (!range.name.starts_with(kStepRange)) return std::nullopt;
  std::int64_t number = 0;
  const char* const digits = range.name.data() + kStepRange.size();
  const auto [end, error] = std::from_chars(digits, range.name.data() + range.name.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// A kernel or copy to be added to the graph. Times are ns since the begin of the step.
struct Node {
  RecordedWork work;
  std::int64_t issue = 0;
  std::int64_t start = 0;  ///< not before the end of the previous node on its stream
  std::int64_t end = 0;
  std::int64_t ready = 0;      ///< issued, and the previous node has ended
  std::int32_t order = 0;      ///< of issue, on its device
  std::int32_t cause = -1;     ///< node on another stream that it waits for
  std::int32_t previous = -1;  ///< node before it on its stream
  bool is_cause = false;       ///< another node or a host call waits for it
  EventRef event;
};

/// A host call that waited for the end of `cause`.
struct Sync {
  std::int64_t time = 0;  ///< of the call
  std::int32_t cause = -1;
};

bool waits_for_gpu(const std::string& name) {
  return name.find("Synchronize") != std::string::npos || name == "cudaMemcpy" || name == "hipMemcpy";
}

OperatorShape shapeless(OperatorKind kind) {
  if (kind == OperatorKind::gemm || kind == OperatorKind::grouped_gemm || kind == OperatorKind::scores)
    return GemmShape{};
  if (kind == OperatorKind::attention) return AttentionShape{};
  return ElementwiseShape{};
}

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

/// The nodes of one device and their dependencies.
class DeviceNodes {
 public:
  /// `host_end`: how long the step lasts on the host; 0: until its last launch.
  DeviceNodes(const Trace& trace, const std::vector<RecordedWork>& works, std::int64_t origin, std::int64_t host_end) {
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

  std::vector<Node> nodes;                                    ///< in the order of issue
  std::vector<Sync> syncs;                                    ///< by time
  std::map<std::int64_t, std::vector<std::int32_t>> streams;  ///< [recorded number] nodes in order

 private:
  Node& at(std::int32_t index) { return nodes[static_cast<std::size_t>(index)]; }

  /// Orders each stream by begin: launches from several threads may have been recorded out of order.
  void order_streams() {
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

  /// Indices of nodes, sorted by end.
  std::vector<std::int32_t> by_end() const {
    std::vector<std::int32_t> order(nodes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::stable_sort(order.begin(), order.end(), [this](std::int32_t a, std::int32_t b) {
      return nodes[static_cast<std::size_t>(a)].end < nodes[static_cast<std::size_t>(b)].end;
    });
    return order;
  }

  /// The last node to end in (after, until] for which `fits` holds; -1: none.
  template <class Fits>
  std::int32_t last_end(const std::vector<std::int32_t>& ends, std::int64_t after, std::int64_t until, Fits fits) {
    auto it = std::upper_bound(ends.begin(), ends.end(), until,
                               [this](std::int64_t time, std::int32_t n) { return time < at(n).end; });
    while (it != ends.begin() && at(*--it).end > after)
      if (fits(at(*it))) return *it;
    return -1;
  }

  void find_causes() {
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

  /// Only if no other thread launches meanwhile: the host is modelled as one stream of launches.
  void find_syncs(const Trace& trace, std::int64_t origin, std::int64_t host_end) {
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
};

/// Writes the nodes of all devices into one graph.
class Builder {
 public:
  explicit Builder(const Trace& trace)
      : trace_(trace),
        optimizer_(trace, [](const TraceRange& r) { return r.name.starts_with("Optimizer.step"); }),
        backward_(trace, [](const TraceRange& r) {
          return r.name.starts_with("autograd::engine") || r.name.find("Backward") != std::string::npos;
        }) {
    for (const TraceCollective& c : trace.collectives) collectives_[c.start_ns].push_back(&c);
    graph_.streams.push_back({"compute"});
    graph_.microbatches = 1;
  }

  /// The host continues until `host_end`.
  void add(DeviceNodes& nodes, std::int64_t host_end) {
    name_streams(nodes);
    for (const Node& node : nodes.nodes)
      if (node.previous >= 0 && needs_previous(nodes, node))
        nodes.nodes[static_cast<std::size_t>(node.previous)].is_cause = true;
    for (Node& node : nodes.nodes)
      if (node.is_cause) node.event = {graph_.rank_events++, 0};
    program_.clear();
    open_ = {};
    std::int64_t host = 0;
    auto sync = nodes.syncs.begin();
    for (Node& node : nodes.nodes) {
      for (; sync != nodes.syncs.end() && sync->time < node.issue; ++sync) host = std::max(host, wait(nodes, *sync));
      write(nodes, node, duration_of(std::max<std::int64_t>(0, node.issue - host)));
      host = std::max(host, node.issue);
    }
    for (; sync != nodes.syncs.end(); ++sync) host = std::max(host, wait(nodes, *sync));
    finish(duration_of(host_end - host));
    Rank rank;
    rank.representative = std::clamp(trace_.header.rank, 0, 1 << 24) + device_count_++;
    rank.program = static_cast<std::int32_t>(graph_.programs.size());
    graph_.programs.push_back(program_);
    graph_.ranks.push_back(rank);
  }

  StepGraph take() {
    std::vector<std::int32_t> all(graph_.communicators.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
    for (Rank& rank : graph_.ranks) rank.communicators = all;
    return std::move(graph_);
  }
  std::vector<RecordedCall> take_calls() { return std::move(calls_); }

 private:
  bool is_transfer(const RecordedWork& work) const {
    return work.kernel >= 0 && !nccl_kernel(name_of(work)).name.empty();
  }
  const std::string& name_of(const RecordedWork& work) const {
    return work.kernel >= 0 ? trace_.kernels[static_cast<std::size_t>(work.kernel)].name
                            : trace_.copies[static_cast<std::size_t>(work.copy)].kind;
  }

  /// The stream with the most computation becomes the compute stream of the graph.
  void name_streams(const DeviceNodes& nodes) {
    stream_of_.clear();
    std::int64_t most = -1;
    std::int64_t compute = 0;
    for (const auto& [number, members] : nodes.streams) {
      std::int64_t busy = 0;
      for (const std::int32_t n : members) {
        const Node& node = nodes.nodes[static_cast<std::size_t>(n)];
        if (!is_transfer(node.work)) busy += node.end - node.start;
      }
      if (busy > most) compute = number;
      most = std::max(most, busy);
    }
    stream_of_[compute] = kComputeStream;
    compute_ = compute;
    idle_ = extra_stream(idle_, "idle");
    const auto& of_compute = nodes.streams.at(compute);
    const auto transfers = [&](std::int32_t n) { return is_transfer(nodes.nodes[static_cast<std::size_t>(n)].work); };
    if (std::any_of(of_compute.begin(), of_compute.end(), transfers))
      transfers_ = extra_stream(transfers_, "NCCL beside compute");
    std::size_t next = 1;
    for (const auto& [number, members] : nodes.streams) {
      if (number == compute) continue;
      while (next == idle_ || next == transfers_) ++next;
      stream_of_[number] = static_cast<StreamId>(std::min(next, kMaxStreams));
      if (next == graph_.streams.size()) graph_.streams.push_back({fmt::format("stream {}", number)});
      ++next;
    }
  }

  /// A stream of the graph for what the recorded compute stream does besides computing, made once.
  StreamId extra_stream(StreamId known, const char* name) {
    if (known != kComputeStream) return known;
    graph_.streams.push_back({name});
    return static_cast<StreamId>(graph_.streams.size() - 1);
  }

  /// Transfers of the compute stream have a stream of their own, in the recorded order: time in which the compute stream only
  /// communicates is not computation.
  StreamId lane_of(const Node& node) const {
    if (node.work.stream == compute_ && is_transfer(node.work)) return transfers_;
    return stream_of_.at(node.work.stream);
  }

  /// When it could have begun.
  static std::int64_t ready_of(const DeviceNodes& nodes, const Node& node) {
    if (node.cause < 0) return node.ready;
    return std::max(node.ready, nodes.nodes[static_cast<std::size_t>(node.cause)].end);
  }

  /// Whether the node before it on the recorded stream is on another stream of the graph than what waits for it.
  bool needs_previous(const DeviceNodes& nodes, const Node& node) const {
    const Node& previous = nodes.nodes[static_cast<std::size_t>(node.previous)];
    if (node.work.stream != compute_) return false;
    const bool pauses = node.start > ready_of(nodes, node);
    const StreamId waiting = pauses ? kComputeStream : lane_of(node);  // before a pause the compute stream waits
    return lane_of(previous) != waiting;
  }

  Phase phase_of(const RecordedWork& work) const {
    if (work.call < 0) return Phase::forward;
    const TraceCall& call = trace_.calls[static_cast<std::size_t>(work.call)];
    if (optimizer_.covers(call.thread, call.start_ns)) return Phase::optimizer;
    return backward_.covers(call.thread, call.start_ns) ? Phase::backward : Phase::forward;
  }

  void close() {
    if (open_.ops.empty()) return;
    constexpr const char* kNames[] = {"forward", "backward", "weight gradient", "optimizer"};
    open_.name = fmt::format("{} {}", kNames[static_cast<std::size_t>(open_.phase)], graph_.templates.size());
    program_.push_back({static_cast<std::int32_t>(graph_.templates.size()), 0});
    graph_.templates.push_back(std::move(open_));
    open_ = {};
  }

  /// Returns the time at which the host continues.
  std::int64_t wait(const DeviceNodes& nodes, const Sync& sync) {
    const Node& cause = nodes.nodes[static_cast<std::size_t>(sync.cause)];
    Op op;
    op.type = OpType::host_sync;
    op.waits.push_back(cause.event);
    open_.ops.push_back(op);
    close();
    return cause.end;
  }

  /// Host time after the last launch.
  void finish(Duration host) {
    if (host > Duration{}) {
      Op op;
      op.host = host;
      open_.ops.push_back(op);
    }
    close();
  }

  void write(const DeviceNodes& nodes, const Node& node, Duration host) {
    const Phase phase = phase_of(node.work);
    if (!open_.ops.empty() && open_.phase != phase) close();
    open_.phase = phase;
    Op op;
    op.stream = lane_of(node);
    const bool pauses = node.start > ready_of(nodes, node);
    if (node.cause >= 0) op.waits.push_back(nodes.nodes[static_cast<std::size_t>(node.cause)].event);
    if (node.previous >= 0 && needs_previous(nodes, node))
      op.waits.push_back(nodes.nodes[static_cast<std::size_t>(node.previous)].event);
    if (pauses && node.work.stream == compute_) {
      pause_compute(op, host, duration_of(node.start - ready_of(nodes, node)));
      host = {};
    } else if (pauses) {
      Op gap = op;
      gap.host = host;
      gap.duration = duration_of(node.start - ready_of(nodes, node));
      gap.payload = gap_index(gap.duration);
      op.waits.clear();
      open_.ops.push_back(gap);
      host = {};
    }
    op.host = host;
    op.records = node.event;
    op.duration = duration_of(node.end - node.start);
    if (is_transfer(node.work))
      fill_collective(op, node);
    else
      fill_compute(op, node, phase);
    open_.ops.push_back(op);
  }

  std::int32_t gap_index(Duration duration) {
    return operator_index({OperatorKind::copy, Pass::forward, Precision::fp32, kGap, ElementwiseShape{}}, duration);
  }

  /// The compute stream first waits for what `op` waits for, then pauses: a pause is on a stream of its own, since it is not
  /// computation, and the compute stream waits for its end.
  void pause_compute(Op& op, Duration host, Duration duration) {
    Op before;
    before.host = host;
    before.waits = std::move(op.waits);
    before.records = {graph_.rank_events++, 0};
    Op gap;
    gap.stream = idle_;
    gap.duration = duration;
    gap.payload = gap_index(duration);
    gap.waits = {before.records};
    gap.records = {graph_.rank_events++, 0};
    Op after;
    after.waits = {gap.records};
    op.waits = {gap.records};
    open_.ops.push_back(std::move(before));
    open_.ops.push_back(gap);
    if (op.stream != kComputeStream) open_.ops.push_back(std::move(after));
  }

  void fill_compute(Op& op, const Node& node, Phase phase) {
    const std::string& name = name_of(node.work);
    Operator what;
    what.kind = node.work.copy >= 0 ? OperatorKind::copy : kernel_kind(name);
    what.pass = phase == Phase::optimizer ? Pass::optimizer : phase == Phase::backward ? Pass::backward : Pass::forward;
    what.precision = kernel_precision(name).value_or(Precision::fp32);
    what.name = short_kernel_name(name);
    what.shape = shapeless(what.kind);
    op.payload = operator_index(what, op.duration);
  }

  std::int32_t operator_index(const Operator& what, Duration duration) {
    const auto key = std::tuple(what.name, what.kind, what.pass, what.precision, duration.picoseconds);
    const auto [found, added] = operators_.try_emplace(key, static_cast<std::int32_t>(graph_.operators.size()));
    if (added) graph_.operators.push_back({what, {duration, 0, Provenance::measured}, false});
    return found->second;
  }

  /// The recorded NCCL calls of this kernel, if the trace has them: one, or those of a group of calls.
  std::vector<const TraceCollective*> calls_of(const Node& node) const {
    const TraceKernel& kernel = trace_.kernels[static_cast<std::size_t>(node.work.kernel)];
    std::vector<const TraceCollective*> calls;
    const auto found = collectives_.find(kernel.start_ns);
    if (found == collectives_.end()) return calls;
    for (const TraceCollective* each : found->second)
      if (each->end_ns == kernel.end_ns &&
          (calls.empty() || (each->launch != 0 && each->launch == calls.front()->launch)))
        calls.push_back(each);
    return calls;
  }

  void fill_collective(Op& op, const Node& node) {
    op.type = OpType::collective;
    CostedCollective entry;
    entry.call.collective = nccl_kernel(name_of(node.work)).collective().value_or(Collective::all_reduce);
    entry.cost.duration = op.duration;
    entry.cost.provenance = Provenance::measured;
    int ranks = std::clamp(trace_.header.ranks, 2, 1 << 24);
    RecordedCall recorded{UINT64_MAX, unnamed_[graph_.ranks.size()]++, duration_of(node.end)};
    const std::vector<const TraceCollective*> calls = calls_of(node);
    for (const TraceCollective* call : calls)
      entry.call.size += Bytes{std::clamp<std::int64_t>(call->count, 0, std::int64_t{1} << 50) * type_size(call->type)};
    if (!calls.empty()) {
      entry.call.collective = collective_of(calls.front()->name).value_or(entry.call.collective);
      ranks = std::clamp(calls.front()->ranks, 1, 1 << 24);
      if (const auto name = name_of_call(calls)) std::tie(recorded.group, recorded.sequence) = *name;
    }
    entry.traffic = traffic_of(entry.call.collective);
    calls_.push_back(recorded);
    entry.slot = communicator(recorded.group, ranks, op.stream);
    op.payload = static_cast<std::int32_t>(graph_.collectives.size());
    graph_.collectives.push_back(entry);
  }

  /// Group and sequence number by which other ranks know a kernel's calls; none for a kernel that runs several collectives.
  static std::optional<std::pair<std::uint64_t, std::int64_t>> name_of_call(
      const std::vector<const TraceCollective*>& calls) {
    const TraceCollective& first = *calls.front();
    if (first.nodes == 0) return std::pair(first.communicator, first.sequence);  // another profiler's numbers
    constexpr std::int64_t kNumbers = std::int64_t{1} << 48;                     // NCCL counts each function by itself
    const auto kind = static_cast<std::int64_t>(collective_of(first.name).value_or(Collective::all_reduce));
    if (first.peer < 0) {
      if (calls.size() > 1) return std::nullopt;
      return std::pair(first.communicator, kind * kNumbers + first.sequence);
    }
    // Messages between two ranks, in one or both directions: the one from the lower rank names them.
    const TraceCollective* named = &first;
    for (const TraceCollective* each : calls) {
      if (each->peer != first.peer) return std::nullopt;
      if ((each->name == "Send") == (each->rank < each->peer)) named = each;
    }
    const auto low = static_cast<std::uint64_t>(std::min(first.rank, first.peer));
    const auto high = static_cast<std::uint64_t>(std::max(first.rank, first.peer));
    const bool upwards = (named->name == "Send") == (named->rank < named->peer);
    return std::pair(first.communicator ^ ((low << 32U | high) * 0x9E3779B97F4A7C15U),
                     (kind * 2 + (upwards ? 0 : 1)) * kNumbers + named->sequence);
  }

  /// One for each stream that a group is used on: in the engine a communicator belongs to one stream.
  std::int32_t communicator(std::uint64_t group, int ranks, StreamId stream) {
    const auto index = static_cast<std::int32_t>(graph_.communicators.size());
    const auto rank = static_cast<std::int32_t>(graph_.ranks.size());
    const auto [found, added] = groups_.try_emplace({group, stream, rank}, index);
    if (added) {
      Communicator c;
      c.name = group == UINT64_MAX ? "recorded" : fmt::format("group {}", group);
      c.placement.ranks = ranks;
      c.members = {rank};
      graph_.communicators.push_back(std::move(c));
    }
    return found->second;
  }

  const Trace& trace_;
  CoveredTime optimizer_;
  CoveredTime backward_;
  std::map<std::int64_t, std::vector<const TraceCollective*>> collectives_;  ///< [start]
  StepGraph graph_;
  std::vector<ProgramItem> program_;
  Template open_;
  std::map<std::int64_t, StreamId> stream_of_;
  std::int64_t compute_ = 0;             ///< recorded number of the compute stream
  StreamId idle_ = kComputeStream;       ///< for its pauses; kComputeStream: none yet
  StreamId transfers_ = kComputeStream;  ///< for its transfers, likewise
  std::map<std::tuple<std::string, OperatorKind, Pass, Precision, std::int64_t>, std::int32_t> operators_;
  std::map<std::tuple<std::uint64_t, StreamId, std::int32_t>, std::int32_t> groups_;
  std::vector<RecordedCall> calls_;
  std::map<std::size_t, std::int64_t> unnamed_;  ///< [rank] NCCL kernels so far
  std::int32_t device_count_ = 0;
};

constexpr std::int64_t kLatest = std::int64_t{1} << 62;                        // ns since 1970: the year 2116
constexpr std::int64_t kLongest = std::int64_t{100} * 86'400 * 1'000'000'000;  // ns; a Duration can hold 106 days

bool in_range(const Trace& trace) {
  const auto good = [](const auto& r) { return std::abs(r.start_ns) < kLatest && std::abs(r.end_ns) < kLatest; };
  return std::all_of(trace.kernels.begin(), trace.kernels.end(), good) &&
         std::all_of(trace.copies.begin(), trace.copies.end(), good) &&
         std::all_of(trace.calls.begin(), trace.calls.end(), good) &&
         std::all_of(trace.ranges.begin(), trace.ranges.end(), good);
}

/// Errors: work or a call that ends before it begins, which no clock measures.
Result<void> check_clocks(const Trace& trace, const std::string& file) {
  const auto check = [&file](const auto& records, const char* kind, auto name) -> Result<void> {
    for (const auto& r : records)
      if (r.end_ns < r.start_ns)
        return fail({file, 0, fmt::format("{} {}", kind, short_kernel_name(name(r))), fmt::format("{} ns", r.end_ns),
                     fmt::format("ends before it begins (allowed: from {} ns on)", r.start_ns)});
    return {};
  };
  if (auto ok = check(trace.kernels, "kernel", [](const TraceKernel& k) { return k.name; }); !ok) return ok;
  if (auto ok = check(trace.copies, "copy", [](const TraceCopy& c) { return c.kind; }); !ok) return ok;
  return check(trace.calls, "call", [](const TraceCall& c) { return c.name; });
}

/// Limits of the step on the host, or of the whole trace.
struct Window {
  std::int64_t begin = INT64_MIN;
  std::int64_t end = INT64_MAX;
};

std::optional<Window> find_window(const Trace& trace, std::int64_t step) {
  for (const TraceRange& range : trace.ranges)
    if (step_number(range) == step && range.end_ns >= range.start_ns && range.domain != "gpu_user_annotation")
      return Window{range.start_ns, range.end_ns};
  return std::nullopt;
}

Result<Window> window_of(const Trace& trace, std::optional<std::int64_t> step, const std::string& file) {
  if (!step) return Window{};
  if (const auto window = find_window(trace, *step)) return *window;
  const std::vector<std::int64_t> steps = recorded_steps(trace);
  return fail({file, 0, "step", std::to_string(*step),
               steps.empty() ? "not found: the trace has no ranges ProfilerStep#N"
                             : fmt::format("not a step of the trace (allowed: {})", fmt::join(steps, " "))});
}

/// What was launched in one window.
struct LaunchedWork {
  std::map<std::int64_t, std::vector<RecordedWork>> devices;
  std::int64_t launched = INT64_MAX;  ///< first launch
  std::int64_t begin = INT64_MAX;     ///< of the first work on a GPU
  std::int64_t end = INT64_MIN;       ///< of the last
};

LaunchedWork launched_in(const Trace& trace, const std::vector<RecordedWork>& works, const Window& window) {
  LaunchedWork result;
  for (const RecordedWork& work : works) {
    const std::int64_t launch = launch_ns(trace, work);
    if (launch < window.begin || launch >= window.end) continue;
    result.launched = std::min(result.launched, launch);
    result.begin = std::min(result.begin, work.start_ns);
    result.end = std::max(result.end, work.end_ns);
    result.devices[work.device].push_back(work);
  }
  return result;
}

/// A step on the GPU's clock.
struct StepTimes {
  std::int64_t begin = 0;     ///< of its first work on a GPU
  std::int64_t host_end = 0;  ///< when the host has issued it; the GPU may be done earlier or later
  std::int64_t length = 0;
};

/// The end of all work that was launched before `time`; INT64_MIN: none.
std::int64_t end_of_earlier(const Trace& trace, const std::vector<RecordedWork>& works, std::int64_t time) {
  std::int64_t end = INT64_MIN;
  for (const RecordedWork& work : works)
    if (launch_ns(trace, work) < time) end = std::max(end, work.end_ns);
  return end;
}

/// The host may run ahead of the GPU, so a step is not as long as its range on the host, and its work begins when that of the
/// step before has ended. Its length is the distance from its first work to the first work of the next step; of the last step,
/// from the end of all earlier work to the end of its own. Where the GPU waited for the host, that is the range on the host.
/// Work that goes on beside the next step counts to its end.
StepTimes times_of(const Trace& trace, const std::vector<RecordedWork>& works, std::int64_t step, const Window& window,
                   const LaunchedWork& work) {
  const auto next_window = find_window(trace, step + 1);
  const LaunchedWork next = next_window ? launched_in(trace, works, *next_window) : LaunchedWork{};
  if (!next.devices.empty() && next.begin > work.begin) {
    const bool host_was_late = next.launched >= work.end;  // the GPU had nothing to do meanwhile
    const std::int64_t host_end = host_was_late ? next.begin : std::max(work.begin, std::min(next.launched, work.end));
    return {work.begin, host_end, std::max(next.begin, work.end) - work.begin};
  }
  const std::int64_t earlier = end_of_earlier(trace, works, window.begin);
  const bool host_was_ahead = earlier > work.launched;
  const std::int64_t begin = !host_was_ahead ? window.begin : std::min(earlier, work.begin);
  const std::int64_t host_end = std::max(begin, window.end);
  return {begin, host_end, std::max(work.end, host_end) - begin};
}

}  // namespace

std::vector<std::int64_t> recorded_steps(const Trace& trace) {
  std::set<std::int64_t> steps;
  for (const TraceRange& range : trace.ranges)
    if (const auto number = step_number(range)) steps.insert(*number);
  return {steps.begin(), steps.end()};
}

Result<Replay> replay_graph(const Trace& trace, std::optional<std::int64_t> step, const std::string& file) {
  if (!in_range(trace)) return fail({file, 0, "", "", "has a time out of range (allowed: nanoseconds below 2^62)"});
  if (auto ok = check_clocks(trace, file); !ok) return tl::unexpected(ok.error());
  const Result<Window> window = window_of(trace, step, file);
  if (!window) return tl::unexpected(window.error());
  const std::vector<RecordedWork> all = recorded_work(trace);
  LaunchedWork work = launched_in(trace, all, *window);
  if (work.devices.empty()) return fail({file, 0, "", "", step ? "has no GPU work in that step" : "has no GPU work"});
  const StepTimes times = step ? times_of(trace, all, *step, *window, work)
                               : StepTimes{work.launched, work.launched, work.end - work.launched};
  const std::int64_t origin = times.begin;
  if (work.end - origin > kLongest || times.length > kLongest)
    return fail({file, 0, "", "", "lasts longer than 100 days"});
  Replay replay;
  Builder builder(trace);
  const std::int64_t host_end = times.host_end - origin;
  for (auto& [device, works] : work.devices) {
    DeviceNodes nodes(trace, works, origin, host_end);
    if (nodes.streams.size() > kMaxStreams)
      return fail({file, 0, "", "",
                   fmt::format("uses {} streams of one GPU (allowed: up to {})", nodes.streams.size(), kMaxStreams)});
    replay.works += static_cast<std::int64_t>(works.size());
    replay.syncs += static_cast<std::int64_t>(nodes.syncs.size());
    replay.waits += std::count_if(nodes.nodes.begin(), nodes.nodes.end(), [](const Node& n) { return n.cause >= 0; });
    builder.add(nodes, host_end);
  }
  replay.graph = builder.take();
  replay.calls = builder.take_calls();
  replay.recorded = duration_of(times.length);
  return replay;
}

}  // namespace tracecast
