#include "tests/tracer/simulated_recording.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "tests/tracer/recorded_ranks.hpp"
#include "tracer/nccl_events.hpp"
#include "tracer/trace_writer.hpp"

namespace tracecast::test {
namespace {

constexpr const char* kSendRecvKernel = "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE";

/// Symbols of libnccl 2.28.9.
const char* nccl_kernel_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE";
    case Collective::all_gather:
      return "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE";
    case Collective::reduce_scatter:
      return "_Z44ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE";
    case Collective::broadcast:
      return "_Z31ncclDevKernel_Broadcast_RING_LL24ncclDevKernelArgsStorageILm4096EE";
    default:
      return kSendRecvKernel;
  }
}

const char* symbol_of(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::residual:
      return "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEEEEvv";
    case OperatorKind::optimizer:
      return "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelIvEEvv";
    default:
      return kernel_name(kind);
  }
}

/// One rank's recorder.
class RankRecording {
 public:
  RankRecording(const ForecastRun& run, std::int32_t rank, const std::filesystem::path& path,
                const RecordingOptions& options)
      : graph_(run.graph),
        rank_(rank),
        options_(options),
        random_(options.seed * 1'000'003 + static_cast<std::uint64_t>(rank)),
        writer_(path.string(), header(run, rank)),
        nccl_(writer_, nccl::Clock{[this] { return now_; }, [this](std::int64_t id) { launch_id_ = id; },
                                   [this] { launch_id_ = 0; }}) {
    writer_.device({0, "NVIDIA H100 80GB HBM3", "9.0", 132, 85'017'493'504, false});
    offset_ = std::uniform_int_distribution<std::int64_t>(0, options.clock_ns)(random_) + 1'000'000'000;
    contexts_.assign(graph_.communicators.size(), nullptr);
    for (std::size_t c = 0; c < graph_.communicators.size(); ++c) {
      const Communicator& communicator = graph_.communicators[c];
      const auto member = std::find(communicator.members.begin(), communicator.members.end(), rank);
      if (member == communicator.members.end()) continue;
      contexts_[c] = nccl_.begin_communicator(1'000 + c, communicator.placement.nodes, communicator.placement.ranks,
                                              static_cast<int>(member - communicator.members.begin()));
    }
    world_ = nccl_.begin_communicator(7, 2, static_cast<int>(graph_.ranks.size()), rank);
  }

  /// `spans`: of this rank, by arrival.
  void step(const std::vector<const Span*>& spans, std::int64_t begin_ns) {
    for (const Span* span : spans) {
      const Op& op =
          graph_.templates[static_cast<std::size_t>(span->template_index)].ops[static_cast<std::size_t>(span->op)];
      if (span->end == span->start && op.type == OpType::compute) continue;
      const std::int64_t arrival = begin_ns + offset_ + span->arrival.picoseconds / 1'000;
      const std::int64_t start = begin_ns + offset_ + span->start.picoseconds / 1'000;
      const std::int64_t end = begin_ns + offset_ + span->end.picoseconds / 1'000;
      if (op.type == OpType::compute && op.payload >= 0) compute(op, start, end);
      if (op.type == OpType::collective) collective(op, arrival, end);
      if (op.type == OpType::send || op.type == OpType::receive) message(op, arrival, end);
    }
  }

  void finish() {
    nccl_.finish();
    writer_.finish();
  }

 private:
  static TraceHeader header(const ForecastRun& run, std::int32_t rank) {
    TraceHeader h;
    h.recorder = "cupti 130001";
    h.clock = "cupti nanoseconds";
    h.date = "2026-11-22T12:00:00Z";
    h.driver = "13.0";
    h.cuda = "13.0";
    h.rank = run.graph.ranks[static_cast<std::size_t>(rank)].representative;
    h.ranks = static_cast<int>(run.graph.ranks.size());
    return h;
  }

  void kernel(const char* name, StreamId stream, std::int64_t start, std::int64_t end) {
    // The host runs ahead by up to a millisecond, 2 us per launch.
    const std::int64_t launch = std::min(start - 3'000, std::max(last_launch_ + 2'000, start - 1'000'000));
    last_launch_ = launch;
    now_ = launch + 10;
    writer_.call(1, ++correlation_, launch, launch + 2'000, "");
    if (launch_id_ != 0) writer_.external(kRecorderIds, launch_id_, correlation_);
    writer_.kernel(name, 0, 7 + stream, correlation_, start, end, 132, 384);
  }

  void compute(const Op& op, std::int64_t start, std::int64_t end) {
    const Operator& what = graph_.operators[static_cast<std::size_t>(op.payload)].op;
    const double factor = 1 + options_.jitter * std::uniform_real_distribution<double>(-1, 1)(random_);
    const auto length = static_cast<std::int64_t>(static_cast<double>(end - start) * factor + 0.5);
    kernel(symbol_of(what.kind), op.stream, start, start + std::max<std::int64_t>(1, length));
  }

  void* launched(void* context, const char* name, StreamId stream, std::int64_t start, std::int64_t end) {
    nccl::Event event{};
    event.type = nccl::kKernelLaunch;
    void* const handle = nccl_.start(context, event);
    kernel(name, stream, start, end);
    nccl_.stop(handle);
    event = {};
    event.type = nccl::kGroup;
    return nccl_.start(context, event);
  }

  void collective(const Op& op, std::int64_t arrival, std::int64_t end) {
    const CostedCollective& entry = graph_.collectives[static_cast<std::size_t>(op.payload)];
    const std::int32_t group =
        graph_.ranks[static_cast<std::size_t>(rank_)].communicators[static_cast<std::size_t>(entry.slot)];
    if (group < 0) return;
    const auto index = static_cast<std::size_t>(group);
    const auto ranks = static_cast<std::size_t>(graph_.communicators[index].placement.ranks);
    const auto bytes = static_cast<std::size_t>(entry.call.size.count);
    const Collective kind = entry.call.collective;
    void* const handle = launched(contexts_[index], nccl_kernel_of(kind), op.stream, arrival, end);
    nccl::Event event{};
    if (kind == Collective::all_to_all) {
      for (std::size_t peer = 0; peer < ranks; ++peer)
        for (const char* function : {"Recv", "Send"}) {
          event.type = nccl::kPointToPoint;
          event.point_to_point = {function, nullptr, "ncclInt8", bytes / ranks, static_cast<int>(peer), 4, handle};
          nccl_.start(contexts_[index], event);
        }
      return nccl_.stop(handle);
    }
    const bool in_bytes = kind == Collective::all_gather || kind == Collective::broadcast || bytes % 2 != 0;
    const char* const type = in_bytes ? "ncclInt8" : "ncclBfloat16";
    const std::size_t share = kind == Collective::all_gather || kind == Collective::reduce_scatter ? ranks : 1;
    const char* const function = kind == Collective::all_reduce       ? "AllReduce"
                                 : kind == Collective::all_gather     ? "AllGather"
                                 : kind == Collective::reduce_scatter ? "ReduceScatter"
                                                                      : "Broadcast";
    event.type = nccl::kCollective;
    event.collective = {sequence_[{group, kind}]++,
                        function,
                        nullptr,
                        nullptr,
                        bytes / share / (in_bytes ? 1 : 2),
                        0,
                        type,
                        24,
                        16,
                        "RING",
                        "LL",
                        handle};
    nccl_.start(contexts_[index], event);
    nccl_.stop(handle);
  }

  void message(const Op& op, std::int64_t arrival, std::int64_t end) {
    const Message& m = graph_.messages[static_cast<std::size_t>(op.payload)];
    const ChannelEnd& other =
        graph_.ranks[static_cast<std::size_t>(rank_)].channels[static_cast<std::size_t>(m.channel)];
    if (other.rank < 0) return;
    void* const handle = launched(world_, kSendRecvKernel, op.stream, arrival, std::max(end, arrival + 1));
    nccl::Event event{};
    event.type = nccl::kPointToPoint;
    event.point_to_point = {op.type == OpType::send ? "Send" : "Recv",
                            nullptr,
                            "ncclInt8",
                            static_cast<std::size_t>(m.size.count),
                            other.rank,
                            4,
                            handle};
    nccl_.start(world_, event);
    nccl_.stop(handle);
  }

  const StepGraph& graph_;
  std::int32_t rank_;
  RecordingOptions options_;
  std::mt19937_64 random_;
  std::int64_t now_ = 0;
  std::int64_t last_launch_ = 0;
  std::int64_t offset_ = 0;
  std::int64_t correlation_ = 0;
  std::int64_t launch_id_ = 0;
  std::vector<void*> contexts_;  ///< [communicator]
  void* world_ = nullptr;
  std::map<std::pair<std::int32_t, Collective>, std::uint64_t> sequence_;
  TraceWriter writer_;
  nccl::Recorder nccl_;
};

}  // namespace

std::vector<std::filesystem::path> write_recordings(const ForecastRun& run, const std::filesystem::path& folder,
                                                    const RecordingOptions& options) {
  REQUIRE_FALSE(run.timeline.spans.empty());
  std::vector<std::vector<const Span*>> of_rank(run.graph.ranks.size());
  for (const Span& span : run.timeline.spans) of_rank[static_cast<std::size_t>(span.rank)].push_back(&span);
  std::vector<std::filesystem::path> paths;
  for (std::size_t r = 0; r < of_rank.size(); ++r) {
    std::stable_sort(of_rank[r].begin(), of_rank[r].end(),
                     [](const Span* a, const Span* b) { return a->arrival < b->arrival; });
    paths.push_back(folder / ("run.trace." + std::to_string(run.graph.ranks[r].representative)));
    RankRecording recording(run, static_cast<std::int32_t>(r), paths.back(), options);
    for (int step = 0; step < options.steps; ++step)
      recording.step(of_rank[r], step * (run.timeline.step_time.picoseconds / 1'000 + 50'000));
    recording.finish();
  }
  return paths;
}

}  // namespace tracecast::test
