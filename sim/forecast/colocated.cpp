#include "sim/forecast/colocated.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/merge_jobs.hpp"

namespace tracecast {
namespace {

tl::unexpected<Error> fail_key(const Scenario& other, std::string message) {
  return fail(Diagnostic{"", 0, "--co-located", other.name, std::move(message)});
}

std::int32_t on_machine_at(std::int32_t rank, const Cluster& cluster) {
  const GpuCoord coord = cluster.coord_of(rank);
  return coord.node * cluster.node.gpus + coord.gpu;
}

StepGraph on_machine(StepGraph graph, const Cluster& cluster) {
  for (Rank& rank : graph.ranks) rank.representative = on_machine_at(rank.representative, cluster);
  return graph;
}

/// Number of steps of the other job during one step of this job, estimated without sharing.
int steps_of_other(const StepGraph& job, const StepGraph& other_job) {
  constexpr std::int64_t kMaxSteps = 64;  // limits the memory
  const Result<Timeline> own = simulate(job);
  const Result<Timeline> other = simulate(other_job);
  if (!own || !other || other->step_time.picoseconds == 0) return 1;
  const std::int64_t steps =
      (own->step_time.picoseconds + other->step_time.picoseconds - 1) / other->step_time.picoseconds;
  return static_cast<int>(std::clamp<std::int64_t>(steps, 1, kMaxSteps));
}

template <class List>
void keep_first(List& list, std::size_t count) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(count), list.end());
}

}  // namespace

Result<void> take_nodes_in_turn(Scenario& job, Scenario& other) {
  if (job.cluster.name != other.cluster.name)
    return fail_key(other, fmt::format("runs on {}, the job on {}", other.cluster.name, job.cluster.name));
  if (job.cluster.node.gpus != other.cluster.node.gpus)
    return fail_key(other, fmt::format("uses {} GPUs of each rack, the job {} (set cluster.gpus_per_rack)",
                                       other.cluster.node.gpus, job.cluster.node.gpus));
  if (!job.cluster.faults.missing_gpus.empty() || !other.cluster.faults.missing_gpus.empty())
    return fail_key(other, "co-located jobs use whole nodes (allowed: no perturb.missing_gpus)");
  const int own = job.cluster.nodes();
  const int others = other.cluster.nodes();
  const int most = job.cluster.max_nodes;
  if (most > 0 && own + others > most)
    return fail_key(other, fmt::format("both jobs need {} nodes (allowed: {})", own + others, most));
  int taken = 0;
  int given = 0;
  for (int node = 0; node < own + others; ++node) {
    const bool to_job = given == others || (taken < own && taken <= given);
    ++(to_job ? taken : given);
    (to_job ? other : job).cluster.faults.missing_gpus[node] = job.cluster.node.gpus;
  }
  return {};
}

Cluster machine_of(const Scenario& job, const Scenario& other) {
  Cluster machine = job.cluster;
  machine.faults.missing_gpus.clear();
  machine.world_size = std::max(job.cluster.nodes(), other.cluster.nodes()) * machine.node.gpus;
  return machine;
}

Timeline part_of(Timeline both, std::size_t ranks) {
  both.ranks.resize(ranks);
  both.ends.resize(ranks);
  const Duration step = ranks == 0 ? Duration{} : *std::max_element(both.ends.begin(), both.ends.end());
  for (RankTime& rank : both.ranks) rank.bubble = rank.bubble - (both.step_time - step);
  both.step_time = step;
  std::erase_if(both.spans, [&](const Span& span) { return span.rank >= static_cast<std::int32_t>(ranks); });
  return both;
}

Result<StepGraph> both_graphs(const StepGraph& graph, const Scenario& job, const Scenario& other) {
  const Result<ForecastRun> run = forecast(other, {.unfold = true});
  if (!run) return tl::unexpected(run.error());
  const int steps = steps_of_other(graph, run->graph);
  return merge_jobs(on_machine(graph, job.cluster), on_machine(repeated(run->graph, steps), other.cluster));
}

StepGraph part_of(StepGraph both, const StepGraph& job, const Cluster& cluster) {
  std::map<std::int32_t, std::int32_t> rank_at;  // [GPU of the machine] its number in the job
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
  keep_first(both.first_layers, job.first_layers.size());
  both.loads.reset();
  return both;
}

}  // namespace tracecast
