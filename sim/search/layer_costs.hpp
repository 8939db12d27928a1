/// \file
/// Costs of the parts of a model on one rank, computed once for all layouts that share them:
///
///   time          of one micro-batch, if the compute stream waits only for the collectives inside its layers (time_alone in
///                 stage_times.hpp)
///   activations   that it keeps
///   traffic       of FSDP per micro-batch
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sim/cost/costs.hpp"
#include "sim/network/network_model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/search/link_time.hpp"
#include "sim/search/pipeline_shape.hpp"

namespace tracecast {

/// Picoseconds of forward and backward.
struct PassTime {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  PassTime& operator+=(const PassTime& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
  friend PassTime operator*(const PassTime& a, int count) { return {a.forward * count, a.backward * count}; }
};

struct LayerCosts {
  std::vector<PassTime> layer;  ///< [kind]
  PassTime embedding;
  PassTime head;
  std::vector<LinkTime> layer_links;  ///< [kind] of the collectives in a forward and a backward
  LinkTime embedding_links;
  LinkTime head_links;
  std::vector<double> layer_kept;  ///< [kind] bytes of activations of one micro-batch
  double embedding_kept = 0;
  double head_kept = 0;

  PassTime time_of(const ModelPart& part) const { return part.sum(layer, embedding, head); }
  LinkTime links_of(const ModelPart& part) const { return part.sum(layer_links, embedding_links, head_links); }
  /// Bytes of activations on the GPU; with `offloaded`, those of layers are on the host.
  double kept_of(const ModelPart& part, bool offloaded) const {
    const double ends = (part.embeddings > 0 ? embedding_kept : 0) + (part.heads > 0 ? head_kept : 0);
    return offloaded ? ends : ends + layers_kept_of(part);
  }
  double layers_kept_of(const ModelPart& part) const { return part.sum(layer_kept, 0.0, 0.0); }
};

/// Picoseconds of all gathers and all reductions of dense parameters, and of experts, and of FSDP's copies beside them.
struct ShardTimes {
  std::int64_t copies = 0;  ///< on the compute stream
  std::int64_t gathers = 0;
  std::int64_t reductions = 0;
  std::int64_t expert_gathers = 0;
  std::int64_t expert_reductions = 0;
  ShardTimes& operator+=(const ShardTimes& other) {
    copies += other.copies;
    gathers += other.gathers;
    reductions += other.reductions;
    expert_gathers += other.expert_gathers;
    expert_reductions += other.expert_reductions;
    return *this;
  }
  friend ShardTimes operator*(const ShardTimes& a, int count) {
    return {a.copies * count, a.gathers * count, a.reductions * count, a.expert_gathers * count,
            a.expert_reductions * count};
  }
  /// Of the busiest communicator.   separate: gathers have communicators of their own
  std::int64_t longest(bool separate) const {
    if (separate) return std::max({gathers, reductions, expert_gathers, expert_reductions});
    return std::max(gathers + reductions, expert_gathers + expert_reductions);
  }
};

/// Occupation of ports by each byte of large data-parallel collectives.
struct PortRates {
  double all_reduce = 0;
  double reduce_scatter = 0;
  double all_gather = 0;
};

/// Data-parallel traffic. With ZeRO-3, per micro-batch: its time alone, and that of links. Without, the bytes of a step
/// follow from the parameters.
struct ShardTraffic {
  std::vector<ShardTimes> layer;  ///< [kind]
  ShardTimes embedding;
  ShardTimes head;
  std::vector<LinkTime> layer_links;  ///< [kind]
  LinkTime embedding_links;
  LinkTime head_links;
  PortRates dense;
  PortRates expert;
  ShardTimes of(const ModelPart& part) const { return part.sum(layer, embedding, head); }
  LinkTime links_of(const ModelPart& part) const { return part.sum(layer_links, embedding_links, head_links); }
};

/// The packed sequences of training.documents, which depend on the layout's context parallelism only. Not thread-safe.
class KnownPacks {
 public:
  /// Requires a plan of the same scenario with documents
  std::shared_ptr<const PackedSteps> of(const Plan& plan);

 private:
  std::map<int, std::shared_ptr<const PackedSteps>> known_;  ///< [cp]
};

/// The inputs of the cost functions. Not thread-safe.
struct CostSources {
  const Scenario& scenario;
  const LayerKinds& kinds;
  const Costs& costs;
  const NetworkModel& network;
  const LinkTimes& links;
  KnownPacks& packs;
};

/// Data-parallel degree on which the placement of groups inside a layer depends: `dp` for groups of experts and for
/// groups outside data parallelism in the rank_order of the scenario, else 1.
int placing_dp(const Scenario& scenario, const Layout& layout, int dp);

/// `dp`: as placing_dp() returns it. `pairs`: without the token exchanges, which other passes may hide.
LayerCosts layer_costs(const CostSources& from, const Layout& layout, int dp, bool pairs);

/// Zero if no shards are gathered: dp 1, parameter servers.
/// `mirrored`: the schedule holds the model twice, and gradients are reduced behind all backwards.
ShardTraffic shard_traffic(const CostSources& from, const Layout& layout, int dp, bool mirrored);

}  // namespace tracecast
