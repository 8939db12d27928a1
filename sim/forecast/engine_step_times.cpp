#include "sim/forecast/engine_step_times.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/network/sites.hpp"

namespace tracecast {
namespace {

/// Slower ranks of a graph. Ranks share templates and programs, so slower ones get copies.
class SlowRanks {
 public:
  SlowRanks(StepGraph& graph, int speed_percent) : graph_(&graph), speed_percent_(speed_percent) {}

  void add(Rank& rank) {
    if (rank.first_batch < 0) {
      rank.program = program_of(rank.program);
      return;
    }
    // Its times are not those of its templates. This comes on top of the scenario's perturb.slow_rank.
    rank.slowdown = static_cast<std::int32_t>(
        std::min<std::int64_t>(std::int64_t{rank.slowdown} * 100 / speed_percent_, INT32_MAX));
  }

 private:
  std::int32_t program_of(std::int32_t healthy) {
    const auto [entry, fresh] = programs_.try_emplace(healthy, static_cast<std::int32_t>(graph_->programs.size()));
    if (!fresh) return entry->second;
    std::vector<ProgramItem> program = graph_->programs[static_cast<std::size_t>(healthy)];
    for (ProgramItem& item : program) item.template_index = template_of(item.template_index);
    graph_->programs.push_back(std::move(program));
    graph_->first_layers.resize(graph_->programs.size());
    graph_->first_layers.back() = graph_->first_layers[static_cast<std::size_t>(healthy)];
    return entry->second;
  }

  std::int32_t template_of(std::int32_t healthy) {
    const auto [entry, fresh] = templates_.try_emplace(healthy, static_cast<std::int32_t>(graph_->templates.size()));
    if (!fresh) return entry->second;
    Template copy = graph_->templates[static_cast<std::size_t>(healthy)];
    for (Op& op : copy.ops)
      if (op.type == OpType::compute) op.duration = {op.duration.picoseconds * 100 / speed_percent_};
    graph_->templates.push_back(std::move(copy));
    return entry->second;
  }

  StepGraph* graph_;
  int speed_percent_;
  std::map<std::int32_t, std::int32_t> programs_;
  std::map<std::int32_t, std::int32_t> templates_;
};

/// The graph with one slower pipeline rank, in every replica.
StepGraph with_slow_pipeline_rank(StepGraph graph, int pp_rank, int speed_percent) {
  SlowRanks slow(graph, speed_percent);
  for (Rank& rank : graph.ranks)
    if (rank.pp_rank == pp_rank) slow.add(rank);
  return graph;
}

/// Fewer replicas: fewer GPUs, and either their share of the batch or the whole batch in whole micro-batches.
void drop_replicas(Scenario& scenario, int dp, int lost, bool keep_batch) {
  const int left = dp - lost;
  const std::int64_t batch = scenario.training.global_batch_size;
  const std::int64_t per_round = scenario.training.micro_batch_size * left;
  scenario.cluster.world_size = static_cast<int>(std::int64_t{scenario.cluster.world_size} * left / dp);
  wait_for_slowest(scenario.profile, scenario.cluster.world_size, scenario.gpu_spread);
  scenario.parallel.dp = left;
  scenario.training.global_batch_size = keep_batch ? round_up(batch, per_round) : batch / dp * left;
}

void degrade(Cluster& cluster, const MachineState& state) {
  cluster.node.nics = std::max(1, cluster.node.nics - state.lost_rails);
  cluster.node.nic_rate.bytes_per_second = cluster.node.nic_rate.bytes_per_second * state.link_speed_percent / 100;
  renew_sites(cluster);
  for (FabricTier& tier : cluster.tiers) tier.oversubscription *= 100.0 / state.uplink_speed_percent;
}

/// The batch of a ramp is not that of the scenario's file.
Error of_ramp(Error error) {
  for (Diagnostic& each : error.diagnostics)
    if (each.key == "training.global_batch_size")
      each = {"", 0, "run.batch_ramp", "", fmt::format("global_batch = {}: {}", each.value, each.message)};
  return error;
}

}  // namespace

int replicas_of(const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  return p.dp > 0 ? p.dp : p.replicas_on(scenario.cluster.world_size);
}

EngineStepTimes::EngineStepTimes(Scenario scenario, bool keep_batch, double healthy_step_s, const ForecastRun* known)
    : scenario_(std::move(scenario)), keep_batch_(keep_batch), healthy_step_s_(healthy_step_s), known_(known) {}

Result<EngineStepTimes::Step> EngineStepTimes::engine_step(const Scenario& scenario, const Slow& slow) const {
  const Result<ForecastRun> run = forecast(scenario);
  if (!run) return tl::unexpected(located(run.error(), scenario));
  return engine_step(scenario, *run, slow);
}

Result<EngineStepTimes::Step> EngineStepTimes::engine_step(const Scenario& scenario, const ForecastRun& run,
                                                           const Slow& slow) const {
  // Beyond the simulated step: the other steps of a period of local SGD do not average.
  const Duration step = run.forecast.averaging ? from_seconds(run.forecast.step_time_s) : run.timeline.step_time;
  if (slow.speed_percent == 100) return Step{step};
  Step slowest;
  for (int pp_rank = 0; pp_rank < run.plan.parallel.pp; ++pp_rank) {
    if (slow.pp_rank && *slow.pp_rank != pp_rank) continue;
    const Result<Timeline> timeline =
        simulate(with_slow_pipeline_rank(run.graph, pp_rank, slow.speed_percent), run.network, engine_of(scenario, {}));
    if (!timeline) return tl::unexpected(timeline.error());
    if (timeline->step_time > slowest.time) slowest = {timeline->step_time, pp_rank};
  }
  slowest.time = slowest.time + (step - run.timeline.step_time);
  return slowest;
}

/// Without lost replicas the step has few classes, so that all pipeline ranks can be tried.
Result<EngineStepTimes::Step> EngineStepTimes::with_all_replicas(const Scenario& scenario,
                                                                 const MachineState& state) const {
  MachineState known = state;
  known.gpu_speed_percent = 100;
  const Slow slow{state.gpu_speed_percent, {}};
  return known_ != nullptr && known == MachineState{} ? engine_step(scenario, *known_, slow)
                                                      : engine_step(scenario, slow);
}

Result<StepTime> EngineStepTimes::of(const MachineState& state) const {
  Scenario scenario = scenario_;
  if (state.global_batch > 0) scenario.training.global_batch_size = state.global_batch;
  const std::int64_t full_batch = scenario.training.global_batch_size;
  degrade(scenario.cluster, state);  // with all nodes, by which the sites are divided
  Result<Step> step{Step{}};
  if (state.lost_replicas == 0 || state.gpu_speed_percent < 100) {
    MachineState whole = state;
    whole.lost_replicas = 0;
    step = with_all_replicas(scenario, whole);
  }
  if (step && state.lost_replicas > 0) {
    drop_replicas(scenario, replicas_of(scenario), state.lost_replicas, keep_batch_);
    step = engine_step(scenario, {state.gpu_speed_percent, step->slow_pp_rank});
  }
  if (!step) return tl::unexpected(state.global_batch > 0 ? of_ramp(std::move(step.error())) : step.error());
  const std::int64_t sequences = keep_batch_ ? full_batch : scenario.training.global_batch_size;
  StepTime result{step->time, sequences * scenario.training.seq_length};
  if (healthy_step_s_ > 0) {
    const Result<Step> healthy = with_all_replicas(scenario_, {});
    if (!healthy) return tl::unexpected(healthy.error());
    result.time = from_seconds(seconds(step->time) / seconds(healthy->time) * healthy_step_s_);
  }
  return result;
}

}  // namespace tracecast
