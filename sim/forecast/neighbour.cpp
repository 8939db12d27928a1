#include "sim/forecast/neighbour.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/engine/shared_links.hpp"
#include "sim/graph/folded_step.hpp"
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

std::int32_t on_machine_at(std::int32_t rank, const Cluster& cluster) {
  const GpuSeat seat = cluster.seat(rank);
  return seat.node * cluster.node.gpus + seat.gpu;
}

StepGraph on_machine(StepGraph graph, const Cluster& cluster) {
  for (Rank& rank : graph.ranks) rank.representative = on_machine_at(rank.representative, cluster);
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

/// Steps of the neighbour until the job's one has ended, reckoned without sharing.
int steps_beside(const StepGraph& job, const StepGraph& neighbour) {
  constexpr std::int64_t kMostSteps = 64;  // what more would take in memory
  const Result<Timeline> own = simulate(job);
  const Result<Timeline> other = simulate(neighbour);
  if (!own || !other || other->step_time.picoseconds == 0) return 1;
  const std::int64_t steps =
      (own->step_time.picoseconds + other->step_time.picoseconds - 1) / other->step_time.picoseconds;
  return static_cast<int>(std::clamp<std::int64_t>(steps, 1, kMostSteps));
}

/// Both jobs' graphs, of all ranks, on one machine; the neighbour goes on with further steps while the job's one lasts.
Result<StepGraph> both_graphs(const StepGraph& graph, const Scenario& job, const Scenario& neighbour) {
  const Result<ForecastRun> other = forecast(neighbour, {.unfold = true, .network = NetworkKind::fluid});
  if (!other) return tl::unexpected(other.error());
  const int steps = steps_beside(graph, other->graph);
  return side_by_side(on_machine(graph, job.cluster), on_machine(repeated(other->graph, steps), neighbour.cluster));
}

template <class List>
void keep_first(List& list, std::size_t count) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(count), list.end());
}

/// The first job alone, out of the folded graph of both. Its classes, and all that they use, come first.
StepGraph part_of(StepGraph both, const StepGraph& job, const Cluster& cluster) {
  std::map<std::int32_t, std::int32_t> rank_at;  // [place on the machine] its number in the job
  for (const Rank& rank : job.ranks) rank_at[on_machine_at(rank.representative, cluster)] = rank.representative;
  std::size_t classes = 0;
  for (std::int64_t ranks = 0; ranks < job.total_ranks(); ++classes) ranks += both.ranks[classes].multiplicity;
  keep_first(both.ranks, classes);
  std::int32_t communicators = 0;
  for (Rank& rank : both.ranks) {
    rank.representative = rank_at.at(rank.representative);
    for (const std::int32_t each : rank.communicators) communicators = std::max(communicators, each + 1);
  }
  keep_first(both.communicators, static_cast<std::size_t>(communicators));
  keep_first(both.operators, job.operators.size());
  keep_first(both.collectives, job.collectives.size());
  keep_first(both.messages, job.messages.size());
  keep_first(both.templates, job.templates.size());
  keep_first(both.programs, job.programs.size());
  return both;
}

}  // namespace

Result<Timeline> simulate_beside(const StepGraph& graph, const Scenario& job, const Scenario& neighbour,
                                 NetworkKind network, const EngineOptions& options) {
  TRACECAST_ASSERT(network != NetworkKind::analytic, "jobs meet on links");
  const Result<StepGraph> both = both_graphs(graph, job, neighbour);
  if (!both) return tl::unexpected(both.error());
  const auto simulate_both = network == NetworkKind::fluid ? simulate_fluid : simulate_simgrid;
  Result<Timeline> timeline = simulate_both(*both, machine_of(job, neighbour), job.profile.architecture, options);
  if (!timeline) return timeline;
  return part_of(std::move(*timeline), graph.ranks.size());
}

Result<Timeline> simulate_folded_beside(StepGraph& graph, const Scenario& job, const Scenario& neighbour,
                                        const EngineOptions& options) {
  const Result<StepGraph> both = both_graphs(graph, job, neighbour);
  if (!both) return tl::unexpected(both.error());
  const Cluster machine = machine_of(job, neighbour);
  FoldedStep folded = fold(*both, ClusterLinks(machine, job.profile.architecture));
  Result<Timeline> timeline = simulate_folded(folded.graph, folded.loads, machine, job.profile.architecture, options);
  if (!timeline) return timeline;
  graph = part_of(std::move(folded.graph), graph, job.cluster);
  return part_of(std::move(*timeline), graph.ranks.size());
}

Result<ForecastRun> forecast_beside(Scenario job, Scenario neighbour, ForecastOptions options) {
  if (Result<void> divided = take_nodes_in_turn(job, neighbour); !divided) return tl::unexpected(divided.error());
  neighbour.cluster.routing = job.cluster.routing;  // of the machine that both run on
  neighbour.cluster.routing_seed = job.cluster.routing_seed;
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
