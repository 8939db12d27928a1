/// \file
/// Lower bounds of step time and memory: no simulation of a layout gives less.
///
/// Time. F_s and B_s are the times that the compute stream needs for one micro-batch through virtual stage s if it
/// waits only for the collectives inside its layers (layer_costs.hpp). A template takes at least the sum of its layers,
/// since every operation waits for the previous one on its stream. A rank runs all its micro-batches on one compute
/// stream. Before its first forward, the earlier stages run one micro-batch forward; after its last backward, they run
/// it backward. Other streams of a rank also work in order: the gathers and reductions of FSDP, which share a
/// communicator, and the copies of activations to the host occur for every micro-batch. The update of offloaded optimizer states begins when every rank
/// has its gradient norm.
///
///   step >= max of  max over ranks of  sum of F before + M sum over chunks (F + B + FSDP's copies) + sum of B before
///                   sum of F + B over all stages                                     (path of one micro-batch)
///                   max over ranks of  M sum over chunks (gathers + reductions of one communicator), (copies)
///                   max over links of  sum over transfers of occupation                 (link_time.hpp)
///         + max over ranks of  update on the host
///
/// Of packed documents F and B are means over all micro-batches, and the mean step is no shorter than M times their sum: the
/// passes of single micro-batches before and after it are left out. With packing dynamic_cp attention is left out, too.
/// With schedules that split the backward, a rank may end with weight gradients of several stages; then the last sum of
/// the first line and B of the second line are zero.
/// A GPU's link carries the collectives of its layers and, with ZeRO-3, of its parameters; a domain's ports also all other
/// data-parallel traffic and the messages between stages, if each stage fills whole domains (else ports are left out).
/// With the isolated network, links are not shared, and a step may be shorter than this bound.
/// Leaves out (the bound stays a lower bound): host time, tiers above the ports, gradients of tied embeddings and of
/// mirrored stages, updates on the GPU.
///
/// With GPUs of several kinds (perturb.gpus) each layout has its own cut: M times its time (stage_cut.hpp) is the bound, and memory has
/// none. Other differences between ranks leave no bound of the time.
///
/// Memory. Parameter states of the largest rank, the minimum of activations in flight of its schedule
/// (ScheduleVariant::chunks_in_flight, else one chunk's), and the fixed part.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/cost/costs.hpp"
#include "sim/io/scenario.hpp"
#include "sim/network/network_model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "sim/search/layer_costs.hpp"
#include "sim/search/link_time.hpp"
#include "sim/search/pipeline_shape.hpp"
#include "sim/search/space.hpp"
#include "sim/search/stage_cut.hpp"

namespace tracecast {

struct LayoutBound {
  Duration step_time;
  Bytes memory;  ///< of the tightest rank
  bool operator==(const LayoutBound&) const = default;
};

/// A layout of a space by its number.
struct BoundedLayout {
  std::int64_t id = 0;
  LayoutBound bound;
};

/// The shapes of all pipelines of a space, [pp][vpp][pp_schedule]; tables on several threads share them.
struct SpaceShapes {
  LayerKinds kinds;
  std::vector<PipelineShape> of;
};
/// Computes them on `threads` threads.
SpaceShapes space_shapes(const Scenario& scenario, const SearchSpace& space, int threads);

/// Bounds of all layouts of one scenario on one machine. Layer costs are computed once for all layouts that share them.
/// Not thread-safe: use one per thread.
class BoundTable {
 public:
  /// The scenario, with the machine as its cluster, must outlive the table.
  explicit BoundTable(const Scenario& scenario);
  ~BoundTable();

  /// nullopt if the layout is impossible: degrees or batch sizes that do not divide, too few layers. make_plan and
  /// make_schedule check the rest.
  std::optional<LayoutBound> bound(const Layout& layout);

  /// Appends the bounds of the layouts first .. first + space.layouts_per_layer_cost() - 1, in this order, without
  /// impossible layouts and duplicates.
  void append_bounds(const SearchSpace& space, std::int64_t first, const SpaceShapes& shapes,
                     std::vector<BoundedLayout>& bounds);

 private:
  struct LayoutState;
  struct StageParameters;

  bool divides(const Layout& layout) const;
  bool can_offload(const LayoutState& state) const;
  const LayerCosts& costs_of(const Layout& layout, int dp, bool pairs);
  const ShardTraffic& traffic_of(const Layout& layout, int dp, bool mirrored);
  const StageParameters& parameters_of(const Layout& layout);
  LayoutState set_layout(const Layout& layout, const PipelineShape& shape);
  bool set_sharding(LayoutState& state, const Layout& layout);
  LayoutBound bound_of(const LayoutState& state);
  Duration compute_bound(const LayoutState& state) const;
  Duration cut_bound(const LayoutState& state, const Layout& layout) const;
  std::int64_t stream_bound(const LayoutState& state);
  std::int64_t link_bound(const LayoutState& state) const;
  double reduced_once(const LayoutState& state, const RankParameters& held) const;
  bool fills_domains(const Parallel& parallel) const;
  std::int64_t update_bound(const LayoutState& state);
  Bytes memory_bound(const LayoutState& state);

  const Scenario& scenario_;
  const LayerKinds kinds_;
  const std::array<Axis, kAxes> rank_order_;
  const Costs costs_;
  const std::unique_ptr<NetworkModel> network_;
  const LinkTimes links_;
  KnownPacks packs_;
  const CostSources sources_;
  const bool disturbed_;                   ///< ranks of a perturbed machine differ: there is no bound of the time
  const std::unique_ptr<StageCuts> cuts_;  ///< of a machine with GPUs of several kinds, disturbed by nothing else
  std::map<std::tuple<int, int, int, bool, std::int64_t, Recompute, int, bool>, std::unique_ptr<LayerCosts>>
      known_costs_;
  std::map<std::tuple<int, int, int, int, bool>, std::unique_ptr<ShardTraffic>> known_traffic_;
  std::map<std::pair<int, int>, std::unique_ptr<StageParameters>> known_parameters_;
  std::map<std::tuple<std::string, int, int>, std::unique_ptr<PipelineShape>> known_shapes_;  ///< of bound()
};

}  // namespace tracecast
