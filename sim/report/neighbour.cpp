#include "sim/report/neighbour.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/engine/shared_links.hpp"
#include "sim/graph/side_by_side.hpp"

namespace tracecast {
namespace {

tl::unexpected<Error> refused(const Scenario& neighbour, std::string message) {
  return fail(Diagnostic{"", 0, "--neighbour", neighbour.name, std::move(message)});
}

/// Leaves every job the nodes that it takes: the others are missing for it.
Result<void> take_nodes_in_turn(Scenario& job, Scenario& neighbour) {
  if (job.cluster.name != neighbour.cluster.name)
    return refused(neighbour, fmt::format("runs on {}, the job on {}", neighbour.cluster.name, job.cluster.name));
  if (!job.cluster.faults.missing_gpus.empty() || !neighbour.cluster.faults.missing_gpus.empty())
    return refused(neighbour, "jobs side by side take whole nodes (allowed: no perturb.missing_gpus)");
  const int own = job.cluster.nodes();
  const int others = neighbour.cluster.nodes();
  const int most = job.cluster.max_nodes;
  if (most > 0 && own + others > most)
    return refused(neighbour, fmt::format("both jobs need {} nodes (allowed: {})", own + others, most));
  int taken = 0;
  int given = 0;
  for (int node = 0; node < own + others; ++node) {
    const bool to_job = given == others || (taken < own && taken <= given);
    ++(to_job ? taken : given);
    (to_job ? neighbour : job).cluster.faults.missing_gpus[node] = job.cluster.node.gpus;
  }
  return {};
}

/// The machine without its division into jobs.
Cluster machine_of(const Scenario& job, const Scenario& neighbour) {
  Cluster machine = job.cluster;
  machine.faults.missing_gpus.clear();
  machine.world_size = std::max(job.cluster.nodes(), neighbour.cluster.nodes()) * machine.node.gpus;
  return machine;
}

StepGraph on_machine(StepGraph graph, const Cluster& cluster) {
  for (Rank& rank : graph.ranks) {
    const GpuSeat seat = cluster.seat(rank.representative);
    rank.representative = seat.node * cluster.node.gpus + seat.gpu;
  }
  return graph;
}

/// The first `ranks` ranks alone, as if the step ended with theirs.
Timeline part_of(Timeline both, std::size_t ranks) {
  both.ranks.resize(ranks);
  both.ends.resize(ranks);
  const Duration step = ranks == 0 ? Duration{} : *std::max_element(both.ends.begin(), both.ends.end());
  for (RankTime& rank : both.ranks) rank.bubble = rank.bubble - (both.step_time - step);
  both.step_time = step;
  std::erase_if(both.spans, [&](const Span& span) { return span.rank >= static_cast<std::int32_t>(ranks); });
  return both;
}

}  // namespace

Result<Timeline> simulate_beside(const StepGraph& graph, const Scenario& job, const Scenario& neighbour,
                                 NetworkKind network, const EngineOptions& options) {
  TRACECAST_ASSERT(network != NetworkKind::analytic, "jobs meet on links");
  const Result<ForecastRun> other = forecast(neighbour, {.network = NetworkKind::fluid});
  if (!other) return tl::unexpected(other.error());
  const Cluster machine = machine_of(job, neighbour);
  const StepGraph both = side_by_side(on_machine(graph, job.cluster), on_machine(other->graph, neighbour.cluster));
  const auto simulate_both = network == NetworkKind::fluid ? simulate_fluid : simulate_simgrid;
  Result<Timeline> timeline = simulate_both(both, machine, job.profile.architecture, options);
  if (!timeline) return timeline;
  return part_of(std::move(*timeline), graph.ranks.size());
}

Result<ForecastRun> forecast_beside(Scenario job, Scenario neighbour, ForecastOptions options) {
  if (Result<void> divided = take_nodes_in_turn(job, neighbour); !divided) return tl::unexpected(divided.error());
  const Result<ForecastRun> alone = forecast(job, {.network = options.network});
  if (!alone) return tl::unexpected(alone.error());
  options.neighbour = &neighbour;
  Result<ForecastRun> beside = forecast(job, options);
  if (!beside) return beside;
  beside->forecast.undisturbed_step_s = alone->forecast.step_time_s;
  beside->forecast.perturbations.push_back(
      {fmt::format("{} runs on the nodes between", neighbour.name), alone->forecast.step_time_s});
  return beside;
}

}  // namespace tracecast
