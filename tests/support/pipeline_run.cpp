#include "tests/support/pipeline_run.hpp"

#include <algorithm>
#include <cstddef>

#include "sim/schedule/output_times.hpp"
#include "sim/schedule/run_order.hpp"

namespace tracecast {

namespace {

/// Chunk-forwards in flight on one rank, walked along its list.
class Inflight {
 public:
  void start(const Action& action) {
    if (action.kind != ActionKind::forward && action.kind != ActionKind::forward_backward) return;
    peak_ = std::max(peak_, ++now_);
    peak_until_weight_ = std::max(peak_until_weight_, ++now_until_weight_);
  }
  void end(const Action& action) {
    const bool full = action.kind == ActionKind::backward || action.kind == ActionKind::forward_backward;
    if (full || action.kind == ActionKind::backward_input) --now_;
    if (full || action.kind == ActionKind::backward_weight) --now_until_weight_;
  }
  int peak() const { return peak_; }
  int peak_until_weight() const { return peak_until_weight_; }

 private:
  int now_ = 0;
  int now_until_weight_ = 0;
  int peak_ = 0;
  int peak_until_weight_ = 0;
};

/// Fills in what follows from `actions`: makespan, ideal, spans and peaks.
void summarise(const Schedule& schedule, const PipelineTimes& times, PipelineRun& run) {
  run.scale = times.scale;
  for (std::size_t rank = 0; rank < run.actions.size(); ++rank) {
    const std::vector<Interval>& actions = run.actions[rank];
    Inflight inflight;
    std::int64_t rank_work = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = schedule.actions[rank][i];
      inflight.start(action);
      inflight.end(action);
      rank_work += sum_of_parts(schedule, times, static_cast<int>(rank), action);
    }
    run.peak_inflight.push_back(inflight.peak());
    run.peak_inflight_until_weight.push_back(inflight.peak_until_weight());
    run.ideal = std::max(run.ideal, rank_work);
    if (actions.empty()) continue;
    run.makespan = std::max(run.makespan, actions.back().end);
    run.max_rank_span = std::max(run.max_rank_span, actions.back().end - actions.front().start);
  }
}

}  // namespace

Result<PipelineRun> simulate_pipeline(const Schedule& schedule, const PipelineTimes& times) {
  TRACECAST_ASSERT(times.stages.size() == static_cast<std::size_t>(schedule.stages()), "a time per stage");
  PipelineRun run;
  run.actions.resize(schedule.actions.size());
  for (std::size_t rank = 0; rank < run.actions.size(); ++rank)
    run.actions[rank].reserve(schedule.actions[rank].size());
  OutputTimes outputs(schedule, times.latency);
  std::vector<std::int64_t> free_at(run.actions.size(), 0);
  const std::vector<std::size_t> reached = run_order(schedule, [&](int rank, std::size_t index, const Dependencies& d) {
    const auto r = static_cast<std::size_t>(rank);
    const std::int64_t start = std::max(free_at[r], outputs.ready(rank, d));
    free_at[r] = start + duration(schedule, times, rank, schedule.actions[r][index]);
    run.actions[r].push_back({start, free_at[r]});
    outputs.record(rank, d, free_at[r]);
  });
  for (std::size_t rank = 0; rank < reached.size(); ++rank) {
    if (reached[rank] < schedule.actions[rank].size()) return fail("deadlock: " + describe_cycle(schedule, reached));
  }
  summarise(schedule, times, run);
  return run;
}

}  // namespace tracecast
