#include "sim/forecast/colocated.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/engine/simulate.hpp"
#include "sim/graph/merge_jobs.hpp"
#include "sim/network/possible_faults.hpp"

namespace tracecast {
namespace {

tl::unexpected<Error> fail_colocated(const Scenario& other, std::string message) {
  return fail_key("--co-located", other.name, std::move(message));
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

/// Jobs that cannot share a machine with the first.
Result<void> check_neighbour(const Scenario& job, const Scenario& other) {
  if (job.cluster.name != other.cluster.name)
    return fail_colocated(other, fmt::format("runs on {}, the job on {}", other.cluster.name, job.cluster.name));
  if (job.cluster.node.gpus != other.cluster.node.gpus)
    return fail_colocated(other, fmt::format("uses {} GPUs of each rack, the job {} (set cluster.gpus_per_rack)",
                                             other.cluster.node.gpus, job.cluster.node.gpus));
  for (const Scenario* each : {&job, &other}) {
    if (!each->cluster.faults.missing_gpus.empty())
      return fail_colocated(other, "co-located jobs use whole nodes (allowed: no perturb.missing_gpus)");
    if (each->cluster.sites.count > 1)
      return fail_key("cluster.sites", each->name, "cannot be forecast beside another job");
    if (each->training.documents)
      return fail_key("training.documents", each->name, "cannot be forecast beside another job");
  }
  return {};
}

/// [node] the job that has it.
std::vector<std::size_t> owners_of(const std::vector<int>& nodes, JobPlacement placement, int unit) {
  const int total = std::accumulate(nodes.begin(), nodes.end(), 0);
  std::vector<std::size_t> owners(static_cast<std::size_t>(total));
  if (placement == JobPlacement::interleaved) {
    std::vector<int> taken(nodes.size());
    for (std::size_t& owner : owners) {
      owner = nodes.size();
      for (std::size_t job = 0; job < nodes.size(); ++job)
        if (taken[job] < nodes[job] && (owner == nodes.size() || taken[job] < taken[owner])) owner = job;
      ++taken[owner];
    }
    return owners;
  }
  // The nodes in the order in which one job after the other takes them.
  std::vector<int> order(static_cast<std::size_t>(total));
  std::iota(order.begin(), order.end(), 0);
  if (placement == JobPlacement::spread && unit > 0)
    std::ranges::stable_sort(order, {}, [unit](int node) { return node % unit; });
  std::size_t next = 0;
  for (std::size_t job = 0; job < nodes.size(); ++job)
    for (int i = 0; i < nodes[job]; ++i) owners[static_cast<std::size_t>(order[next++])] = job;
  return owners;
}

/// The faults of all jobs. They count their own nodes; the machine counts all.
NetworkFaults faults_of_machine(const std::vector<Scenario>& jobs, const std::vector<std::size_t>& owners) {
  NetworkFaults all;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const NetworkFaults& own = jobs[job].cluster.faults;
    std::vector<int> nodes;
    for (std::size_t node = 0; node < owners.size(); ++node)
      if (owners[node] == job) nodes.push_back(static_cast<int>(node));
    for (NetworkFaults::SlowNic slow : own.slow_nics) {
      slow.node = nodes[static_cast<std::size_t>(slow.node)];
      all.slow_nics.push_back(slow);
    }
    std::vector<int> rails;
    std::ranges::set_union(all.lost_rails, own.lost_rails, std::back_inserter(rails));
    all.lost_rails = std::move(rails);
    for (const auto& [tier, share] : own.lost_uplinks) all.lost_uplinks[tier] = std::max(all.lost_uplinks[tier], share);
  }
  return all;
}

}  // namespace

Result<void> assign_nodes(std::vector<Scenario>& jobs, JobPlacement placement) {
  const Cluster& machine = jobs.front().cluster;
  std::vector<int> nodes;
  for (const Scenario& each : jobs) {
    if (&each != &jobs.front())
      if (Result<void> checked = check_neighbour(jobs.front(), each); !checked) return checked;
    nodes.push_back(each.cluster.nodes());
  }
  const int total = std::accumulate(nodes.begin(), nodes.end(), 0);
  if (machine.max_nodes > 0 && total > machine.max_nodes)
    return fail_colocated(jobs.back(), fmt::format("all jobs need {} nodes (allowed: {})", total, machine.max_nodes));
  const std::vector<std::size_t> owners =
      owners_of(nodes, placement, machine.tiers.empty() ? 0 : machine.tiers.front().nodes);
  Cluster shared = machine;
  shared.faults = faults_of_machine(jobs, owners);
  for (const ImpossibleValue& each : impossible_faults(shared))
    return fail_colocated(jobs.back(), fmt::format("perturb.{} of all jobs together {}", each.key, each.message));
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    Cluster own = std::exchange(jobs[job].cluster, shared);  // --set may have changed the machine of the first
    jobs[job].cluster.world_size = own.world_size;
    jobs[job].cluster.backend = own.backend;
    for (std::size_t node = 0; node < owners.size(); ++node)
      if (owners[node] != job) jobs[job].cluster.faults.missing_gpus[static_cast<int>(node)] = shared.node.gpus;
  }
  return {};
}

std::string neighbours_text(const std::vector<Scenario>& jobs, JobPlacement placement) {
  std::string names;
  for (std::size_t i = 1; i < jobs.size(); ++i) names += (i > 1 ? ", " : "") + jobs[i].name;
  const char* where = placement == JobPlacement::interleaved ? "the nodes in between"
                      : placement == JobPlacement::compact   ? "the nodes after it"
                                                             : "nodes of the same units";
  return fmt::format("{} run{} on {}", names, jobs.size() > 2 ? "" : "s", where);
}

Cluster machine_of(const Scenario& job, std::span<const Scenario> others) {
  Cluster machine = job.cluster;
  int nodes = job.cluster.nodes();
  for (const Scenario& other : others) nodes = std::max(nodes, other.cluster.nodes());
  machine.faults.missing_gpus.clear();
  machine.world_size = nodes * machine.node.gpus;
  return machine;
}

Timeline part_of(Timeline all, std::size_t ranks) {
  all.ranks.resize(ranks);
  all.ends.resize(ranks);
  const Duration step = ranks == 0 ? Duration{} : *std::max_element(all.ends.begin(), all.ends.end());
  for (RankTime& rank : all.ranks) rank.bubble = rank.bubble - (all.step_time - step);
  all.step_time = step;
  std::erase_if(all.spans, [&](const Span& span) { return span.rank >= static_cast<std::int32_t>(ranks); });
  return all;
}

Result<StepGraph> all_graphs(const StepGraph& graph, const Scenario& job, std::span<const Scenario> others) {
  StepGraph all = on_machine(graph, job.cluster);
  for (const Scenario& other : others) {
    const Result<ForecastRun> run = forecast(other, {.unfold = true});
    if (!run) return tl::unexpected(run.error());
    const int steps = steps_of_other(graph, run->graph);
    all = merge_jobs(std::move(all), on_machine(repeated(run->graph, steps), other.cluster));
  }
  return all;
}

StepGraph part_of(StepGraph all, const StepGraph& job, const Cluster& cluster) {
  std::map<std::int32_t, std::int32_t> rank_at;  // [GPU of the machine] its number in the job
  for (const Rank& rank : job.ranks) rank_at[on_machine_at(rank.representative, cluster)] = rank.representative;
  std::size_t classes = 0;
  for (std::int64_t ranks = 0; ranks < job.total_ranks(); ++classes) ranks += all.ranks[classes].multiplicity;
  keep_first(all.ranks, classes);
  std::int32_t communicators = 0;
  for (Rank& rank : all.ranks) {
    rank.representative = rank_at.at(rank.representative);
    for (const std::int32_t each : rank.communicators) communicators = std::max(communicators, each + 1);
  }
  keep_first(all.communicators, static_cast<std::size_t>(communicators));
  keep_first(all.operators, job.operators.size());
  keep_first(all.collectives, job.collectives.size());
  keep_first(all.messages, job.messages.size());
  keep_first(all.templates, job.templates.size());
  keep_first(all.programs, job.programs.size());
  keep_first(all.first_layers, job.first_layers.size());
  all.loads.reset();
  return all;
}

}  // namespace tracecast
