#include "sim/forecast/schedule_runs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/cost/costs.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/stage_times.hpp"
#include "sim/network/measured_network.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kPicosecondsPerMillisecond = 1'000'000'000;

/// The computation of every pass of one rank: (phase, chunk, micro-batch) -> from the first start to the last end.
class PassSpans {
 public:
  /// `spans`: of the rank, by stream order.
  PassSpans(const StepGraph& graph, std::span<const Span> spans) {
    for (const Span& span : spans) {
      const Template& each = graph.templates[static_cast<std::size_t>(span.template_index)];
      if (each.ops[static_cast<std::size_t>(span.op)].stream != kComputeStream) break;
      if (span.end == span.start) continue;
      const Pass key{each.phase, each.chunk, span.microbatch};
      const auto [found, added] = spans_.try_emplace(key, ActionSpan{{}, span.start.picoseconds, span.end.picoseconds});
      if (!added) found->second.end = std::max(found->second.end, span.end.picoseconds);
    }
  }

  /// `before`: end of the action before it; an action that computes nothing takes no time from there.
  ActionSpan of(const Action& action, std::int64_t before) const {
    const ActionSpan nothing{action, before, before};
    ActionSpan span = pass(phase_of(action.kind), action.chunk, action.microbatch, nothing);
    if (action.kind == ActionKind::forward_backward) {
      const ActionSpan other = pass(Phase::backward, action.chunk2, action.microbatch2, span);
      span.start = std::min(span.start, other.start);
      span.end = std::max(span.end, other.end);
    }
    span.action = action;
    return span;
  }

 private:
  using Pass = std::tuple<Phase, std::int16_t, std::int32_t>;

  static Phase phase_of(ActionKind kind) {
    if (kind == ActionKind::forward || kind == ActionKind::forward_backward) return Phase::forward;
    return kind == ActionKind::backward_weight ? Phase::weight_gradient : Phase::backward;
  }

  ActionSpan pass(Phase phase, std::int16_t chunk, std::int32_t microbatch, const ActionSpan& otherwise) const {
    const auto found = spans_.find({phase, chunk, microbatch});
    return found == spans_.end() ? otherwise : found->second;
  }

  std::map<Pass, ActionSpan> spans_;
};

ScheduleRun pipeline_of(const ForecastRun& step) {
  std::vector<std::vector<ActionSpan>> actions;
  for (int pp = 0; pp < step.schedule.ranks; ++pp) {
    const std::vector<Rank>& ranks = step.graph.ranks;
    const auto rank = std::find_if(ranks.begin(), ranks.end(), [pp](const Rank& r) { return r.pp_rank == pp; });
    TRACECAST_ASSERT(rank != ranks.end(), "every pipeline rank has a rank");
    const auto index = static_cast<std::int32_t>(rank - ranks.begin());
    const auto own = std::ranges::equal_range(step.timeline.spans, index, {}, &Span::rank);
    const PassSpans spans(step.graph, {own.begin(), own.end()});
    std::vector<ActionSpan>& list = actions.emplace_back();
    for (const Action& action : step.schedule.actions[static_cast<std::size_t>(pp)])
      list.push_back(spans.of(action, list.empty() ? 0 : list.back().end));
  }
  ScheduleRun run = summarise(std::move(actions), kPicosecondsPerMillisecond);
  run.makespan = step.timeline.step_time.picoseconds;
  const double exposed_s = step.forecast.exposed_s[static_cast<std::size_t>(Traffic::pipeline)];
  run.bubble_fraction = step.forecast.bubble_fraction + exposed_s / step.forecast.step_time_s;
  return run;
}

Duration longest_message(const ForecastRun& step) {
  Duration longest;
  for (const Span& span : step.timeline.spans) {
    const Template& each = step.graph.templates[static_cast<std::size_t>(span.template_index)];
    if (each.ops[static_cast<std::size_t>(span.op)].type == OpType::receive)
      longest = std::max(longest, span.end - span.start);
  }
  return longest;
}

/// What a step takes beside its passes: host, gathers, exposed reductions, sums of embeddings, update.
Duration outside_passes(const ForecastRun& step, const ScheduleRun& run) {
  std::int64_t first = run.makespan, last = 0;
  for (const std::vector<ActionSpan>& list : run.actions)
    for (const ActionSpan& span : list) {
      first = std::min(first, span.start);
      last = std::max(last, span.end);
    }
  return Duration{step.timeline.step_time.picoseconds - (last - first)};
}

}  // namespace

Result<ScheduleRun> run_schedule(const Schedule& schedule, const PipelineTimes& times, const MessageRules& rules,
                                 const PipelineProgram* program) {
  const Result<ScheduleGraph> made =
      program ? schedule_graph(schedule, *program, times, rules) : schedule_graph(schedule, times, rules);
  if (!made) return tl::unexpected(made.error());
  const Result<Timeline> timeline = simulate(made->graph, {}, {.record_spans = true});
  if (!timeline) return tl::unexpected(timeline.error());
  std::vector<std::vector<ActionSpan>> actions(schedule.actions.size());
  for (const Span& span : timeline->spans) {
    if (!made->is_action[static_cast<std::size_t>(span.template_index)]) continue;
    const auto rank = static_cast<std::size_t>(span.rank);
    const Action& action = schedule.actions[rank][actions[rank].size()];
    actions[rank].push_back({action, span.start.picoseconds, span.end.picoseconds});
  }
  return summarise(std::move(actions), times.scale);
}

Result<PipelineTimes> stage_times_in(const Scenario& scenario, const Schedule& schedule) {
  Parallel parallel = scenario.parallel;
  if (parallel.pp != schedule.ranks)
    return tl::unexpected(
        located(Error{{{"", 0, "parallel.pp", std::to_string(parallel.pp),
                        fmt::format("is not the number of ranks of the schedule (allowed: {})", schedule.ranks)}}},
                scenario));
  const int chunks = schedule.chunks / schedule.replicas;
  parallel.pp_schedule = default_schedule(chunks);
  parallel.vpp = chunks;
  const int dp = parallel.replicas_on(scenario.cluster.world_size);
  Training training = scenario.training;
  training.global_batch_size = schedule.microbatches * training.micro_batch_size * dp;
  const Result<Plan> plan = make_plan(scenario.model, parallel, training, scenario.cluster.world_size);
  if (!plan) return tl::unexpected(located(plan.error(), scenario));
  const Costs costs(scenario.profile, training.attention_kernel);
  const std::unique_ptr<NetworkModel> network = make_network(scenario.cluster, scenario.profile);
  PipelineTimes times =
      stage_times({scenario.model, *plan, schedule, scenario.cluster, costs, *network}, scenario.perturbation);
  times.scale = kPicosecondsPerMillisecond;
  return times;
}

Result<double> schedule_bubble(const Scenario& scenario, const Schedule& schedule) {
  Result<PipelineTimes> times = stage_times_in(scenario, schedule);
  if (!times) return tl::unexpected(std::move(times.error()));
  times->latency = 0;
  return run_schedule(schedule, *times).map([](const ScheduleRun& run) { return run.bubble_fraction; });
}

bool replicas_differ(const Perturbation& perturbation, const Plan& plan) {
  if (perturbation.none()) return false;
  for (int rank = 0; rank < plan.grid.ranks(); ++rank) {
    Coordinates first = plan.grid.coordinates(rank);
    first[Axis::dp] = 0;
    const int other = plan.grid.rank(first);
    if (slowdown_of(perturbation, rank) != slowdown_of(perturbation, other) ||
        gpu_of(perturbation, rank) != gpu_of(perturbation, other))
      return true;
  }
  return false;
}

RankPassTimes mean_pass_times(const Schedule& schedule, const ScheduleRun& run) {
  const double chunks = static_cast<double>(schedule.chunks) / schedule.replicas;
  RankPassTimes times;
  for (const std::vector<ActionSpan>& list : run.actions) {
    std::array<double, 5> total{};
    std::array<double, 5> count{};
    for (const ActionSpan& span : list) {
      total[static_cast<std::size_t>(span.action.kind)] += static_cast<double>(span.end - span.start);
      count[static_cast<std::size_t>(span.action.kind)] += 1;
    }
    const auto mean = [&](ActionKind kind) {
      const auto k = static_cast<std::size_t>(kind);
      return count[k] == 0 ? 0 : chunks * total[k] / count[k];
    };
    times.forward.push_back(mean(ActionKind::forward));
    times.backward.push_back(mean(ActionKind::backward));
    times.backward_input.push_back(mean(ActionKind::backward_input));
    times.backward_weight.push_back(mean(ActionKind::backward_weight));
    times.overlapped.push_back(mean(ActionKind::forward_backward));
  }
  return times;
}

Result<ScenarioRun> run_pipeline(const Scenario& scenario) {
  Result<ForecastRun> step = forecast(scenario, {.record_spans = true});
  if (!step) return tl::unexpected(std::move(step.error()));
  const Schedule schedule = step->schedule;
  if (schedule.flush) return ScenarioRun{schedule, pipeline_of(*step), longest_message(*step)};
  const Duration once = outside_passes(*step, pipeline_of(*step));
  Scenario longer = scenario;
  longer.training.global_batch_size = scenario.training.global_batch_size / schedule.microbatches *
                                      steady_state_microbatches(schedule.ranks, schedule.microbatches);
  step = forecast(longer, {.record_spans = true});
  if (!step) return tl::unexpected(std::move(step.error()));
  ScenarioRun run{schedule, steady_state(pipeline_of(*step), schedule.microbatches), longest_message(*step)};
  if (updates_every_backward(step->plan.parallel)) {  // an update between two passes is not a wait
    const double each_s = step->forecast.optimizer_s / step->schedule.microbatches;
    const double ticks_per_s = 1e3 * static_cast<double>(run.run.scale);
    run.run.bubble_fraction -= each_s * schedule.microbatches * ticks_per_s / static_cast<double>(run.run.makespan);
  } else {  // an update for each so many micro-batches; the longer step has one, after its steady state
    const double passes = static_cast<double>(run.run.makespan);
    run.run.makespan += once.picoseconds * (run.run.scale / kPicosecondsPerMillisecond);
    run.run.bubble_fraction *= passes / static_cast<double>(run.run.makespan);
  }
  return run;
}

}  // namespace tracecast
