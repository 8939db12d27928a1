#include "sim/engine/engine.hpp"

#include <algorithm>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "sim/engine/deadlock_report.hpp"
#include "sim/engine/gpu_sharing.hpp"
#include "sim/engine/worker_compute.hpp"
#include "sim/engine/worker_contention.hpp"
#include "sim/engine/worker_lockstep.hpp"
#include "sim/engine/worker_steady.hpp"
#include "sim/engine/worker_transfers.hpp"

namespace tracecast {
namespace {

using engine::CompiledGraph;
using engine::Exchange;
using engine::NoSpans;
using engine::SpanRecorder;
using engine::State;
using engine::Worker;

/// A thread pays off from this many ranks on.
constexpr std::size_t kRanksPerThread = 256;

/// Returns the number of operations executed.
std::int64_t run_on_threads(State& state, int threads) {
  Exchange exchange(engine::assign_ranks(state.graph, threads), threads);
  NoSpans none;
  std::vector<std::unique_ptr<Worker<NoSpans>>> workers;
  for (int i = 0; i < threads; ++i) workers.push_back(std::make_unique<Worker<NoSpans>>(state, none, &exchange, i));
  std::vector<std::jthread> running;
  for (const auto& worker : workers) running.emplace_back([&worker] { worker->run(); });
  running.clear();  // joins
  std::int64_t executed = 0;
  for (const auto& worker : workers) executed += worker->executed();
  return executed;
}

struct Executed {
  std::int64_t operations = 0;
  std::int64_t skipped = 0;
  bool gave_up = false;
  bool shares_too_long = false;
};

template <class Recorder>
Executed run_on_one_thread(State& state, Recorder& recorder, const EngineOptions& options, const LinkSharing* sharing) {
  Worker<Recorder> worker(state, recorder);
  worker.share_links(sharing);
  if (options.slowing_gpu != nullptr) {
    worker.slow_compute(speeds_beside_collectives(state.graph, *options.slowing_gpu));
    if (options.longest > Duration{}) worker.give_up_after(options.longest.picoseconds);
    if (std::is_same_v<Recorder, NoSpans> && !options.every_period &&
        (sharing == nullptr || sharing->network.moves_on()))
      worker.skip_steady_state(engine::SteadyState::find(state.graph, state.compiled));
  }
  worker.run();
  return {worker.executed(), worker.skipped(), worker.gave_up(), worker.shares_too_long()};
}

/// Operations are fused where collectives concern one rank only. Other groups of ranks may run in lockstep.
CompiledGraph compile_for(const StepGraph& graph, const EngineOptions& options, const SharedTransfers* shared) {
  const bool keep_work = options.slowing_gpu != nullptr;
  if (options.record_spans) return engine::compile(graph, {}, keep_work);
  engine::Lockstep lockstep = engine::find_lockstep(graph, shared);
  engine::LocalStreams streams = engine::find_local_streams(graph, shared, lockstep);
  if (lockstep.slot >= 0 && streams.fuses && !streams.local[lockstep.stream]) {  // other streams may be
    const bool groups = std::any_of(lockstep.members.begin(), lockstep.members.end(), [](auto n) { return n > 1; });
    if (!groups) lockstep = {};
    streams = groups ? engine::LocalStreams{} : engine::find_local_streams(graph, shared);
  }
  return engine::compile(graph, streams, keep_work, std::move(lockstep));
}

/// Step time, and the time breakdown of every rank.
Timeline finalize(const State& state) {
  Timeline timeline;
  for (const engine::StreamState& s : state.streams)
    timeline.step_time.picoseconds = std::max(timeline.step_time.picoseconds, s.clock);
  timeline.ranks.reserve(state.ranks.size());
  timeline.ends.reserve(state.ranks.size());
  for (std::size_t r = 0; r < state.ranks.size(); ++r) {
    Duration end;
    for (std::size_t lane = 0; lane < state.stream_count; ++lane)
      end.picoseconds = std::max(end.picoseconds, state.streams[r * state.stream_count + lane].clock);
    timeline.ends.push_back(end);
    const std::int64_t compute_end = state.streams[r * state.stream_count + kComputeStream].clock;
    timeline.ranks.push_back(state.breakdowns[r].finalize(compute_end, timeline.step_time.picoseconds));
    TRACECAST_ASSERT(timeline.ranks.back().total() == timeline.step_time,
                     "the categories of a rank's time sum to the step time");
  }
  return timeline;
}

}  // namespace

Result<Timeline> run_engine(const StepGraph& graph, const EngineOptions& options, const LinkSharing* sharing) {
  const SharedTransfers* const shared = sharing != nullptr ? &sharing->transfers : nullptr;
  const CompiledGraph compiled = compile_for(graph, options, shared);
  if (const double bytes = State::bytes(graph, compiled); bytes > kMostMemory)
    return fail(
        fmt::format("simulating {} ranks one by one takes {:.3g} GB (allowed: {:.3g} GB; equal ranks are simulated "
                    "once, without --unfold and perturb.speed_spread)",
                    graph.ranks.size(), bytes / 1e9, kMostMemory / 1e9));
  State state(graph, compiled);
  const int threads = std::min(options.threads, static_cast<int>(graph.ranks.size() / kRanksPerThread));
  Executed executed;
  std::vector<Span> spans;
  if (options.record_spans) {
    SpanRecorder recorder(state);
    executed = run_on_one_thread(state, recorder, options, sharing);
    spans = recorder.take();
  } else if (threads > 1 && sharing == nullptr && options.slowing_gpu == nullptr) {
    executed.operations = run_on_threads(state, threads);
  } else {
    NoSpans none;
    executed = run_on_one_thread(state, none, options, sharing);
  }
  if (executed.gave_up) {
    Timeline timeline;
    timeline.given_up = true;
    return timeline;
  }
  if (executed.shares_too_long)
    return fail(fmt::format("transfers that share links make a step longer than {:.3g} days",
                            seconds(kLongestSharing) / kSecondsPerDay));
  if (!std::all_of(state.streams.begin(), state.streams.end(), [&](const auto& s) { return state.finished(s); }))
    return tl::unexpected<Error>(engine::deadlock_report(state));
  Timeline timeline = finalize(state);
  timeline.spans = std::move(spans);
  timeline.events = executed.operations;
  timeline.skipped = executed.skipped;
  return timeline;
}

}  // namespace tracecast
