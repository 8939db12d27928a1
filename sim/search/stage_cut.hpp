/// \file
/// Cuts of a model into stages for a machine with GPUs of several kinds (perturb.gpus).
///
/// A pipeline rank computes as fast as the slowest of its GPUs; F and B of a layer on each kind of GPU are those of
/// layer_costs.hpp. The time of a cut is the largest sum of F + B over the stages of a pipeline rank, for one micro-batch. The best
/// cut comes from a binary search for the least time T that is possible:
///
///   T is possible if all layers are placed when every virtual stage, the last one first, takes as many as T / vpp allows
///
/// That is the least of all cuts with a layer on every stage for vpp 1; above, stages of a rank take T / vpp at most each. Of equal
/// cuts it has the fewest layers in front, where pipelines keep the most activations. Simulated, it was within 3 % of the best of all
/// cuts (stage_cut_test.cpp): filling and draining the pipeline and the gradients do not count here.
/// Leaves out   memory (the search drops what does not fit), messages, micro-batches or tensor degrees that depend on the GPU.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "sim/io/scenario.hpp"
#include "sim/network/network_model.hpp"
#include "sim/search/layer_costs.hpp"
#include "sim/search/pipeline_shape.hpp"
#include "sim/search/space.hpp"

namespace tracecast {

/// A cut and its time.
struct StageCut {
  std::vector<int> layers;   ///< [virtual stage]
  std::int64_t longest = 0;  ///< picoseconds of the slowest pipeline rank for one micro-batch
};

/// Best cuts of the layouts of one scenario. Not thread-safe.
class StageCuts {
 public:
  /// The scenario must outlive it.
  explicit StageCuts(const Scenario& scenario);

  /// nullopt without pipeline, for schedules that hold each stage twice, and with more stages than layers.
  /// Requires degrees that divide the ranks
  std::optional<StageCut> best(const Layout& layout);

 private:
  const LayerCosts& costs_of(std::size_t gpu, const Layout& layout, int dp);

  const Scenario& scenario_;
  const LayerKinds layer_kinds_;
  const std::unique_ptr<NetworkModel> network_;
  const LinkTimes links_;
  KnownPacks packs_;
  std::deque<Costs> gpus_;  ///< [gpu_of()]
  std::map<std::tuple<std::size_t, int, int, int, bool, std::int64_t, Recompute, int>, LayerCosts> known_;
};

}  // namespace tracecast
