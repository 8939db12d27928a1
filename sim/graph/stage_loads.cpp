#include "sim/graph/stage_loads.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "sim/graph/dominated_links.hpp"
#include "sim/graph/link_classes.hpp"
#include "sim/graph/stage_users.hpp"

namespace tracecast {
namespace {

bool one_rank_per_stage(const StepGraph& graph, const Plan& plan) {
  return graph.ranks.size() == as_index(plan.parallel.pp) &&
         std::all_of(graph.ranks.begin(), graph.ranks.end(),
                     [&](const Rank& rank) { return rank.multiplicity == plan.world_size / plan.parallel.pp; });
}

/// The loads of a graph in which each stage is one class; nothing if links say otherwise.
std::optional<FoldedLoads> loads_of_stages(const StageUsers& stages) {
  const std::optional<CrossedLinks> links =
      link_classes(stages.users(), stages.classes(), stages.class_count(), stages.capacities());
  if (!links) return std::nullopt;
  FoldedWeights weights =
      folded_weights(stages.users(), stages.classes(), stages.class_count(), links->of, links->count);
  FoldedLoads loads;
  for (std::int32_t c = 0; c < stages.class_count(); ++c) {
    std::vector<std::vector<LinkWeight>>& own = weights[as_index(c)];
    for (std::size_t k = 0; k < own.size(); ++k) {
      if (own[k].empty()) continue;
      FoldedTransfer transfer = stages.transfers_of_class(c)[k];
      const bool communicator = c < stages.communicators();
      if (communicator) transfer.owner = c;
      transfer.shape.loads = std::move(own[k]);
      for (LinkWeight& load : transfer.shape.loads) load.link = stages.orbits().first_link(load.link);
      (communicator ? loads.collectives : loads.messages).push_back(std::move(transfer));
    }
  }
  return loads;
}

/// Nodes of a block (link_orbits.hpp) such that stages have whole blocks; units of a fabric mostly have a power of two.
int largest_block(const Plan& plan, const ClusterLinks& links) {
  constexpr int kMost = 32;
  const int ranks = plan.parallel.pp == 1 ? plan.world_size : plan.grid.stride(Axis::pp);
  return ranks % links.gpus() == 0 ? std::gcd(ranks / links.gpus(), kMost) : 1;
}

/// Requires one rank for each stage, and paths that are not hashed
std::optional<StageParts> find_parts(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                     const ClusterLinks& links, const ProgramTransfers& transfers) {
  for (int step = 1; step <= links.gpus(); ++step)
    for (int block = largest_block(plan, links); block >= 1; block = block > 1 ? 1 : 0) {
      std::optional<LinkOrbits> orbits = links.orbits(step, block);
      if (!orbits) continue;
      StageUsers users(folded, plan, groups, links, transfers, std::move(*orbits));
      if (!users.add()) continue;
      std::optional<StageParts> parts;
      if (std::optional<FoldedLoads> loads = loads_of_stages(users))
        parts = StageParts{{}, {}, std::move(*loads)};
      else
        parts = divide_stages(folded, plan, groups, users);
      if (!parts) continue;
      drop_dominated_links(parts->loads, links);
      return parts;
    }
  TRACECAST_ASSERT(false, "a rotation by all GPUs of a node leaves all users in place");
  return std::nullopt;
}

/// Everything that decides the loads of a graph on one cluster.
class TransferKey {
 public:
  TransferKey(const StepGraph& graph, const Plan& plan, const Groups& groups, const ProgramTransfers& transfers) {
    add({plan.world_size});
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp})
      add({plan.grid.size(axis), plan.grid.stride(axis)});
    const std::vector<std::int64_t> divided = groups.key();
    numbers_.insert(numbers_.end(), divided.begin(), divided.end());
    add_ranks(graph);
    add_transfers(graph);
    add_programs(transfers);
  }

  std::vector<std::int64_t> take() { return std::move(numbers_); }

 private:
  void add(std::initializer_list<std::int64_t> numbers) { numbers_.insert(numbers_.end(), numbers); }
  void add_size(std::size_t size) { add({static_cast<std::int64_t>(size)}); }

  void add_ranks(const StepGraph& graph) {
    add_size(graph.communicators.size());
    add_size(graph.ranks.size());
    for (const Rank& rank : graph.ranks) {
      add({rank.representative, rank.multiplicity, rank.program});
      add_size(rank.communicators.size());
      for (const std::int32_t communicator : rank.communicators) add({communicator});
      add_size(rank.channels.size());
      for (const ChannelEnd& end : rank.channels) add({end.rank, end.channel});
    }
  }

  void add_cost(const CollectiveCost& cost) {
    add({cost.duration.picoseconds, cost.latency.picoseconds, static_cast<std::int64_t>(cost.algorithm)});
  }

  void add_transfers(const StepGraph& graph) {
    add_size(graph.collectives.size());
    for (const CostedCollective& each : graph.collectives) {
      add({each.slot, static_cast<std::int64_t>(each.call.collective), each.call.size.count});
      add_cost(each.cost);
    }
    add_size(graph.messages.size());
    for (const Message& each : graph.messages) {
      add({each.size.count});
      add_cost(each.cost);
    }
  }

  void add_programs(const ProgramTransfers& transfers) {
    for (std::size_t program = 0; program < transfers.called.size(); ++program) {
      add_size(transfers.called[program].size());
      for (const auto& [slot, collectives] : transfers.called[program]) {
        add({slot});
        add_size(collectives.size());
        for (const std::int32_t each : collectives) add({each});
      }
      add_size(transfers.sent[program].size());
      for (const auto& [channel, message] : transfers.sent[program]) add({channel, message});
    }
  }

  std::vector<std::int64_t> numbers_;
};

/// Whether the plan's coordinates may give the classes; hashed: no two paths are equivalent.
bool has_stage_classes(const StepGraph& folded, const Plan& plan, const ClusterLinks& links) {
  return !links.hashed() && one_rank_per_stage(folded, plan);
}

}  // namespace

std::optional<StageParts> fold_stages(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                      const ClusterLinks& links) {
  if (!has_stage_classes(folded, plan, links)) return std::nullopt;
  return find_parts(folded, plan, groups, links, ProgramTransfers(folded));
}

void apply(StageParts parts, StepGraph& folded) {
  folded.loads = std::move(parts.loads);
  if (parts.ranks.empty()) return;
  std::vector<Communicator> communicators;
  for (StageParts::Members& each : parts.communicators) {
    communicators.push_back(folded.communicators[as_index(each.communicator)]);
    communicators.back().members = std::move(each.members);
  }
  folded.ranks = std::move(parts.ranks);
  folded.communicators = std::move(communicators);
}

std::optional<StageParts> KnownLoads::fold_stages(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                                  const ClusterLinks& links) {
  if (!has_stage_classes(folded, plan, links)) return std::nullopt;
  const ProgramTransfers transfers(folded);
  std::vector<std::int64_t> key = TransferKey(folded, plan, groups, transfers).take();
  std::vector<std::shared_ptr<const Answer>> answers;
  {
    const std::lock_guard lock(mutex_);
    answers = answers_;
  }
  for (const std::shared_ptr<const Answer>& each : answers)
    if (each->transfers == key) return each->parts;
  auto found =
      std::make_shared<const Answer>(Answer{std::move(key), *find_parts(folded, plan, groups, links, transfers)});
  const std::lock_guard lock(mutex_);
  if (answers_.size() < kMost)
    answers_.push_back(found);
  else
    answers_[std::exchange(oldest_, (oldest_ + 1) % kMost)] = found;
  return found->parts;
}

}  // namespace tracecast
