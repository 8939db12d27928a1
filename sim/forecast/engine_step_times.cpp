#include "sim/forecast/engine_step_times.hpp"

#include <algorithm>
#include <map>

#include "sim/cost/slowest_rank.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/network/sites.hpp"

namespace tracecast {
namespace {

/// The graph with one slower rank, and all ranks of its class with it. Ranks share templates and programs, so this rank gets copies.
StepGraph with_slow_rank(StepGraph graph, std::size_t rank, int speed_percent) {
  if (graph.ranks[rank].first_batch >= 0) {               // its times are not those of its templates
    std::int32_t& slowdown = graph.ranks[rank].slowdown;  // beyond that of the scenario's perturb.slow_rank
    slowdown =
        static_cast<std::int32_t>(std::min<std::int64_t>(std::int64_t{slowdown} * 100 / speed_percent, INT32_MAX));
    return graph;
  }
  std::map<std::int32_t, std::int32_t> slow_templates;
  const auto slowed = [&](std::int32_t index) {
    const auto [entry, fresh] = slow_templates.try_emplace(index, static_cast<std::int32_t>(graph.templates.size()));
    if (!fresh) return entry->second;
    Template copy = graph.templates[static_cast<std::size_t>(index)];
    for (Op& op : copy.ops)
      if (op.type == OpType::compute) op.duration = {op.duration.picoseconds * 100 / speed_percent};
    graph.templates.push_back(std::move(copy));
    return entry->second;
  };
  const auto healthy = static_cast<std::size_t>(graph.ranks[rank].program);
  std::vector<ProgramItem> program = graph.programs[healthy];
  for (ProgramItem& item : program) item.template_index = slowed(item.template_index);
  graph.ranks[rank].program = static_cast<std::int32_t>(graph.programs.size());
  graph.programs.push_back(std::move(program));
  graph.first_layers.resize(graph.programs.size());
  graph.first_layers.back() = graph.first_layers[healthy];
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
  scenario.training.global_batch_size =
      keep_batch ? (batch + per_round - 1) / per_round * per_round : batch / dp * left;
}

void degrade(Cluster& cluster, const MachineState& state) {
  cluster.node.nics = std::max(1, cluster.node.nics - state.lost_rails);
  cluster.node.nic_rate.bytes_per_second = cluster.node.nic_rate.bytes_per_second * state.link_speed_percent / 100;
  renew_sites(cluster);
  for (FabricTier& tier : cluster.tiers) tier.oversubscription *= 100.0 / state.uplink_speed_percent;
}

}  // namespace

int replicas_of(const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  return p.dp > 0 ? p.dp : p.replicas_on(scenario.cluster.world_size);
}

EngineStepTimes::EngineStepTimes(Scenario scenario, bool keep_batch, double healthy_step_s, const ForecastRun* known)
    : scenario_(std::move(scenario)), keep_batch_(keep_batch), healthy_step_s_(healthy_step_s), known_(known) {}

Result<Duration> EngineStepTimes::engine_time(const Scenario& scenario, int gpu_speed_percent) const {
  const Result<ForecastRun> run = forecast(scenario);
  if (!run) return tl::unexpected(located(run.error(), scenario));
  return engine_time(scenario, *run, gpu_speed_percent);
}

Result<Duration> EngineStepTimes::engine_time(const Scenario& scenario, const ForecastRun& run,
                                              int gpu_speed_percent) const {
  // Beyond the simulated step: the other steps of a period of local SGD do not average.
  const Duration step = run.forecast.averaging ? from_seconds(run.forecast.step_time_s) : run.timeline.step_time;
  if (gpu_speed_percent == 100) return step;
  Duration slowest;
  for (std::size_t rank = 0; rank < run.graph.ranks.size(); ++rank) {
    const Result<Timeline> timeline =
        simulate(with_slow_rank(run.graph, rank, gpu_speed_percent), run.network, engine_of(scenario, {}));
    if (!timeline) return tl::unexpected(timeline.error());
    slowest = std::max(slowest, timeline->step_time);
  }
  return slowest + (step - run.timeline.step_time);
}

Result<StepTime> EngineStepTimes::of(const MachineState& state) const {
  Scenario scenario = scenario_;
  if (state.global_batch > 0) scenario.training.global_batch_size = state.global_batch;
  const std::int64_t full_batch = scenario.training.global_batch_size;
  degrade(scenario.cluster, state);  // with all nodes, by which the sites are divided
  if (state.lost_replicas > 0) drop_replicas(scenario, replicas_of(scenario), state.lost_replicas, keep_batch_);
  MachineState whole = state;
  whole.gpu_speed_percent = 100;
  const Result<Duration> time = known_ != nullptr && whole == MachineState{}
                                    ? engine_time(scenario, *known_, state.gpu_speed_percent)
                                    : engine_time(scenario, state.gpu_speed_percent);
  if (!time) return tl::unexpected(time.error());
  const std::int64_t sequences = keep_batch_ ? full_batch : scenario.training.global_batch_size;
  StepTime step{*time, sequences * scenario.training.seq_length};
  if (healthy_step_s_ > 0) {
    const Result<Duration> healthy =
        known_ != nullptr ? engine_time(scenario_, *known_, 100) : engine_time(scenario_, 100);
    if (!healthy) return tl::unexpected(healthy.error());
    step.time = from_seconds(seconds(*time) / seconds(*healthy) * healthy_step_s_);
  }
  return step;
}

}  // namespace tracecast
