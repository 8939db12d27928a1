#include "tracer/replay.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "sim/import/imported_graph.hpp"
#include "sim/import/kernel_names.hpp"
#include "tracer/recorded_calls.hpp"
#include "tracer/recorded_work.hpp"
#include "tracer/replay_nodes.hpp"
#include "tracer/step_times.hpp"
#include "tracer/step_windows.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kMaxStreams = 248;  // StreamId is 8 bits, and the compute stream has two more

Duration duration_of(std::int64_t nanoseconds) { return {nanoseconds * 1000}; }

/// Writes the nodes of all devices into one graph.
class Builder {
 public:
  explicit Builder(const Trace& trace)
      : trace_(trace),
        recorded_calls_(trace),
        optimizer_(trace, [](const TraceRange& r) { return r.name.starts_with("Optimizer.step"); }),
        backward_(trace,
                  [](const TraceRange& r) {
                    return r.name.starts_with("autograd::engine") || r.name.find("Backward") != std::string::npos;
                  }),
        threads_(trace) {
    for (const TraceKernel& kernel : trace.kernels) {
      const auto [name, added] = transfers_by_name_.try_emplace(kernel.name);
      if (added) name->second = transfer_kernel(kernel.name);
    }
    graph_.streams.push_back({"compute"});
    graph_.microbatches = 1;
  }

  /// The host continues until `host_end`.
  void add(DeviceNodes& nodes, std::int64_t host_end) {
    name_streams(nodes);
    for (const Node& node : nodes.nodes)
      if (node.previous >= 0 && (needs_previous(nodes, node) || pauses_transfers(nodes, node)))
        nodes.nodes[static_cast<std::size_t>(node.previous)].is_cause = true;
    for (Node& node : nodes.nodes)
      if (node.is_cause) node.event = {graph_.rank_events++, 0};
    program_.clear();
    open_ = {};
    awaited_.clear();
    std::int64_t host = 0;
    auto sync = nodes.syncs.begin();
    for (Node& node : nodes.nodes) {
      for (; sync != nodes.syncs.end() && sync->time < node.issue; ++sync) host = std::max(host, wait(nodes, *sync));
      write(nodes, node, duration_of(std::max<std::int64_t>(0, node.issue - host)));
      host = std::max(host, node.issue);
    }
    for (; sync != nodes.syncs.end(); ++sync) host = std::max(host, wait(nodes, *sync));
    if (host_end <= host) await_last(nodes);
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
    return work.kernel >= 0 && !transfers_by_name_.at(name_of(work)).name.empty();
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

  /// Whether a transfer on another stream than the compute stream begins after a pause.
  bool pauses_transfers(const DeviceNodes& nodes, const Node& node) const {
    return node.work.stream != compute_ && is_transfer(node.work) && node.start > ready_of(nodes, node);
  }

  /// The compute stream is about to wait for a transfer. It first waits for the pauses before it and before those that it queued
  /// behind, each after the transfer before: a pause is waiting, not communication.
  void await_pauses(const DeviceNodes& nodes, std::int32_t cause, Duration& host) {
    const Node& last = nodes.nodes[static_cast<std::size_t>(cause)];
    if (!is_transfer(last.work)) return;
    const std::vector<std::int32_t>& members = nodes.streams.at(last.work.stream);
    for (std::size_t& next = awaited_[last.work.stream]; next < members.size() && members[next] <= cause; ++next) {
      const Node& node = nodes.nodes[static_cast<std::size_t>(members[next])];
      if (node.pause.none()) continue;
      if (node.previous >= 0) await(nodes.nodes[static_cast<std::size_t>(node.previous)].event, host);
      await(node.pause, host);
    }
  }

  /// After its last kernel the compute stream waits for what ends last.
  void await_last(const DeviceNodes& nodes) {
    const auto last = std::ranges::max_element(nodes.nodes, {}, &Node::end);
    Duration host;
    if (last->work.stream != compute_) await_pauses(nodes, static_cast<std::int32_t>(last - nodes.nodes.begin()), host);
  }

  void await(EventRef event, Duration& host) {
    Op op;
    op.host = std::exchange(host, Duration{});
    op.waits.push_back(event);
    open_.ops.push_back(std::move(op));
  }

  Phase phase_of(const RecordedWork& work) const {
    if (work.call < 0) return Phase::forward;
    const TraceCall& call = trace_.calls[static_cast<std::size_t>(work.call)];
    if (optimizer_.covers(call.thread, call.start_ns)) return Phase::optimizer;
    const bool backward =
        backward_.covers(call.thread, call.start_ns) || threads_.launched(call.thread).value_or(false);
    return backward ? Phase::backward : Phase::forward;
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

  void write(const DeviceNodes& nodes, Node& node, Duration host) {
    const Phase phase = phase_of(node.work);
    if (!open_.ops.empty() && open_.phase != phase) close();
    open_.phase = phase;
    if (node.work.stream == compute_ && node.cause >= 0) await_pauses(nodes, node.cause, host);
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
      if (pauses_transfers(nodes, node)) gap.records = node.pause = {graph_.rank_events++, 0};
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
    return operator_index({OperatorKind::copy, Pass::forward, Precision::fp32, kRecordedPause, ElementwiseShape{}},
                          duration);
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

  /// Forward kernels of a backward are recomputed ones.
  static Pass pass_of(Phase phase, const std::string& name) {
    if (phase == Phase::optimizer) return Pass::optimizer;
    return is_backward_kernel(name).value_or(phase == Phase::backward) ? Pass::backward : Pass::forward;
  }

  void fill_compute(Op& op, const Node& node, Phase phase) {
    const std::string& name = name_of(node.work);
    Operator what;
    what.kind = node.work.copy >= 0 ? OperatorKind::copy : kernel_kind(name);
    what.pass = pass_of(phase, name);
    what.precision = kernel_precision(name).value_or(Precision::fp32);
    what.name = short_kernel_name(name);
    what.shape = shape_for(what.kind);
    op.payload = operator_index(what, op.duration);
  }

  std::int32_t operator_index(const Operator& what, Duration duration) {
    const auto key = std::tuple(what.name, what.kind, what.pass, what.precision, duration.picoseconds);
    const auto [found, added] = operators_.try_emplace(key, static_cast<std::int32_t>(graph_.operators.size()));
    if (added) graph_.operators.push_back({what, {duration, 0, Provenance::measured}, false});
    return found->second;
  }

  void fill_collective(Op& op, const Node& node) {
    op.type = OpType::collective;
    CostedCollective entry;
    entry.call.collective = transfers_by_name_.at(name_of(node.work)).collective().value_or(Collective::all_reduce);
    entry.cost.duration = op.duration;
    entry.cost.provenance = Provenance::measured;
    int ranks = std::clamp(trace_.header.ranks, 2, 1 << 24);
    RecordedCall recorded{UINT64_MAX, -1, duration_of(node.end)};
    const std::vector<const TraceCollective*> calls =
        recorded_calls_.of(trace_.kernels[static_cast<std::size_t>(node.work.kernel)]);
    for (const TraceCollective* call : calls) entry.call.size += bytes_of(*call);
    if (!calls.empty()) {
      entry.call.collective = collective_of(calls.front()->name).value_or(entry.call.collective);
      const bool message = calls.front()->peer >= 0;
      ranks = std::clamp(calls.front()->ranks, 1, 1 << 24);
      recorded.members = message ? 2 : ranks;
      if (message && calls.size() == 1) recorded.direction = calls.front()->name == "Send" ? 1 : -1;
      if (const auto name = name_of_calls(calls))
        std::tie(recorded.group, recorded.sequence) = *name;
      else if (message && calls.front()->rank < 0)
        recorded.alone = "messages of recordings that do not name their rank";
      else if (entry.call.collective == Collective::send_recv && !message)
        recorded.alone = "messages whose other rank was not recorded";
    } else if (nccl_kernel(name_of(node.work)).name.empty()) {
      recorded.alone = "transfers of other libraries than NCCL";
      recorded.kernel = short_kernel_name(name_of(node.work));
    }
    entry.traffic = traffic_of(entry.call.collective);
    entry.slot = communicator(recorded.group, ranks, op.stream);
    calls_.push_back(std::move(recorded));
    op.payload = static_cast<std::int32_t>(graph_.collectives.size());
    graph_.collectives.push_back(entry);
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
  RecordedCalls recorded_calls_;
  CoveredTime optimizer_;
  CoveredTime backward_;
  BackwardThreads threads_;
  std::unordered_map<std::string_view, NcclKernel> transfers_by_name_;  ///< of all kernels: thousands have few names
  StepGraph graph_;
  std::vector<ProgramItem> program_;
  Template open_;
  std::map<std::int64_t, StreamId> stream_of_;
  std::map<std::int64_t, std::size_t> awaited_;  ///< [recorded stream] nodes whose pauses the compute stream awaited
  std::int64_t compute_ = 0;                     ///< recorded number of the compute stream
  StreamId idle_ = kComputeStream;               ///< for its pauses; kComputeStream: none yet
  StreamId transfers_ = kComputeStream;          ///< for its transfers, likewise
  std::map<std::tuple<std::string, OperatorKind, Pass, Precision, std::int64_t>, std::int32_t> operators_;
  std::map<std::tuple<std::uint64_t, StreamId, std::int32_t>, std::int32_t> groups_;
  std::vector<RecordedCall> calls_;
  std::int32_t device_count_ = 0;
};

using Windows = std::map<std::int64_t, StepWindow>;

/// Errors: a step that the trace does not have.
Result<StepWindow> window_of(const Windows& windows, std::optional<std::int64_t> step, const std::string& file) {
  if (!step) return StepWindow{};
  if (const auto found = windows.find(*step); found != windows.end()) return found->second;
  std::vector<std::int64_t> numbers;
  for (const auto& [number, window] : windows) numbers.push_back(number);
  return fail({file, 0, "step", std::to_string(*step),
               numbers.empty() ? "not found: the trace has no ranges ProfilerStep#N, and its work does not repeat"
                               : fmt::format("not a step of the trace (allowed: {})", fmt::join(numbers, " "))});
}

Result<Replay> replay_windows(const Trace& trace, const Windows& windows, std::optional<std::int64_t> step,
                              bool ends_elsewhere, const std::string& file) {
  if (auto ok = check_times(trace, file); !ok) return tl::unexpected(ok.error());
  const Result<StepWindow> window = window_of(windows, step, file);
  if (!window) return tl::unexpected(window.error());
  const std::vector<RecordedWork> all = recorded_work(trace);
  LaunchedWork work = launched_in(trace, all, *window);
  if (work.devices.empty()) return fail({file, 0, "", "", step ? "has no GPU work in that step" : "has no GPU work"});
  RecordedStepTimes times{work.launched, work.launched, work.end - work.launched};
  if (step) times = times_of(trace, all, windows, *step, work);
  if (ends_elsewhere) times = {work.begin, work.begin, work.end - work.begin};
  const std::int64_t origin = times.begin;
  if (work.end - origin > kLongestNs || times.length > kLongestNs)
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

std::string and_more(const std::vector<std::string>& files) {
  return files.size() > 1 ? fmt::format("{} and {} more", files.front(), files.size() - 1) : files.front();
}

/// Recordings that call the step by another number.
void note_shifts(const RankSteps& steps, std::int64_t step, const std::vector<std::string>& files,
                 std::vector<std::string>& notes) {
  std::map<std::int64_t, std::vector<std::string>> shifted;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (steps.shifts[i] != 0) shifted[step + steps.shifts[i]].push_back(files[i]);
  for (const auto& [number, of_files] : shifted)
    notes.push_back(fmt::format("step {} of {} is step {} of {}, whose recording{} began at another step", step,
                                files.front(), number, and_more(of_files), of_files.size() > 1 ? "s" : ""));
}

/// Recordings of which nothing says that they call the step by the same number.
void note_unplaced(const RankSteps& steps, std::int64_t step, const std::vector<std::string>& files,
                   std::vector<std::string>& notes) {
  std::vector<std::string> unplaced;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (!steps.placed[i]) unplaced.push_back(files[i]);
  if (!unplaced.empty())
    notes.push_back(
        fmt::format("no numbered call says which step of {} is step {} of {}: taken to have the same number",
                    and_more(unplaced), step, files.front()));
}

/// Errors: a step that some recordings do not have.
Result<void> check_common(const RankSteps& steps, std::int64_t step, const std::vector<std::string>& files) {
  const std::vector<std::int64_t> common = steps.common();
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (steps.windows[i].empty() || steps.windows[i].contains(step)) continue;
    return fail({files[i], 0, "step", std::to_string(step),
                 fmt::format("not a step of the trace{} (allowed: {})",
                             steps.shifts[i] != 0 ? ", by the numbers of " + files.front() : "",
                             common.empty() ? "none, the recordings have no step in common"
                                            : fmt::format("{}", fmt::join(common, " ")))});
  }
  return {};
}

/// Collectives with ranks that were not recorded.
void note_absent(Replay& replay) {
  std::size_t absent = 0;
  for (std::size_t i = 0; i < replay.calls.size(); ++i) {
    const auto slot = static_cast<std::size_t>(replay.graph.collectives[i].slot);
    if (static_cast<std::size_t>(replay.calls[i].members) > replay.graph.communicators[slot].members.size()) ++absent;
  }
  if (absent > 0)
    replay.notes.push_back(
        fmt::format("calls of collectives that were not matched with all their ranks: {} of {}; their times may "
                    "include waiting",
                    absent, replay.calls.size()));
}

}  // namespace

std::vector<std::int64_t> recorded_steps(const Trace& trace) {
  std::vector<std::int64_t> numbers;
  for (const auto& [number, window] : step_windows(trace)) numbers.push_back(number);
  return numbers;
}

Result<Replay> replay_graph(const Trace& trace, std::optional<std::int64_t> step, const std::string& file) {
  return replay_windows(trace, step ? step_windows(trace) : Windows{}, step, false, file);
}

Result<Replay> replay_ranks(std::span<const Trace> traces, const std::vector<std::string>& files,
                            const RankSteps& steps, std::optional<std::int64_t> step) {
  if (step && traces.size() > 1)
    if (const Result<void> common = check_common(steps, *step, files); !common) return tl::unexpected(common.error());
  const auto has_next = [step](const Windows& windows) { return step && windows.contains(*step + 1); };
  const bool any_has_next = std::ranges::any_of(steps.windows, has_next);
  std::vector<Replay> replays;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const Windows windows = step ? steps.windows[i] : Windows{};
    Result<Replay> replay = replay_windows(traces[i], windows, step, any_has_next && !has_next(windows), files[i]);
    if (!replay) return replay;
    replays.push_back(std::move(*replay));
  }
  Replay all = replays.size() == 1 ? std::move(replays[0]) : join_ranks(std::move(replays));
  if (step) note_shifts(steps, *step, files, all.notes);
  if (step) note_unplaced(steps, *step, files, all.notes);
  note_absent(all);
  return all;
}

}  // namespace tracecast
