/// What the parts of a model take on one rank under one layout, worked out once for all layouts that share it: the time of
/// one micro-batch when the compute stream waits for nothing but the collectives inside its layers (stage_times.hpp's
/// time_alone), the activations that it keeps, and the data-parallel traffic that FSDP has with every micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/costs.hpp"
#include "sim/network/network_model.hpp"
#include "sim/search/pipeline_shape.hpp"

namespace tracecast {

/// ps; forward and backward, or a gather and a reduction.
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
  std::vector<double> layer_kept;  ///< [kind] bytes of activations of one micro-batch
  double embedding_kept = 0;
  double head_kept = 0;

  PassTime time_of(const ModelPart& part) const { return part.sum(layer, embedding, head); }
  /// On the GPU; with `offloaded` layers keep theirs on the host.
  double kept_of(const ModelPart& part, bool offloaded) const {
    const double ends = (part.embeddings > 0 ? embedding_kept : 0) + (part.heads > 0 ? head_kept : 0);
    return offloaded ? ends : ends + layers_kept_of(part);
  }
  double layers_kept_of(const ModelPart& part) const { return part.sum(layer_kept, 0.0, 0.0); }
};

/// With ZeRO-3: what the parameter stream gathers and the gradient stream reduces of one micro-batch.
struct ShardTraffic {
  std::vector<PassTime> layer;  ///< [kind] forward: all gathers; backward: all reductions
  PassTime embedding;
  PassTime head;
  PassTime of(const ModelPart& part) const { return part.sum(layer, embedding, head); }
};

/// The scenario's own costs, for one thread.
struct CostSources {
  const Scenario& scenario;
  const LayerKinds& kinds;
  const Costs& costs;
  const NetworkModel& network;
};

/// Data-parallel degree that the groups inside a layer depend on: those of experts, and those that lie outside data
/// parallelism in the scenario's rank_order, on `dp` itself; others lie alike for all, as for 1.
int placing_dp(const Scenario& scenario, const Layout& layout, int dp);

/// `dp`: of a pipeline of one rank, as placing_dp() says. `pairs`: without the exchanges of tokens, which
/// other passes may hide.
LayerCosts layer_costs(const CostSources& from, const Layout& layout, int dp, bool pairs);

/// Nothing where no shard is gathered: data parallelism of one, parameter servers.
ShardTraffic shard_traffic(const CostSources& from, const Layout& layout, int dp);

}  // namespace tracecast
