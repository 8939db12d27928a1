/// Lower bounds: a step time and a memory need that no simulation of a layout can undercut.
///
/// Time. Let F_s and B_s be how long the compute stream needs for one micro-batch through virtual stage s when it waits
/// for nothing but the collectives inside its layers (layer_costs.hpp). A template takes at least the sum of its layers,
/// since every operation waits for the ones before it on its stream (the exposed end of one layer is the beginning of the
/// next). A rank runs all its micro-batches on one compute stream; before its first forward the stages before have to pass
/// one micro-batch forward, and after its last backward they have to pass it back. Other streams of a rank work in order
/// too: FSDP's gathers, its reductions, and copies of activations to the host are done for every micro-batch. The update
/// of offloaded optimizer states begins when every rank has its gradient norm.
///
///   step >= max of  max over ranks of  sum of F before + M sum over chunks (F + B) + sum of B before
///                   sum of F + B over all stages                                     (one micro-batch's way)
///                   max over ranks of  M sum over chunks (gathers), (reductions), (copies)
///         + max over ranks of  update on the host
///
/// Schedules that split the backward may end a rank with weight gradients, of several stages at once: then the last sum
/// of the first line and B of the second are left out.
/// Left out, so the bound holds without them: host time, messages between stages, other data-parallel traffic, updates on
/// the GPU.
///
/// Memory. States of the rank with most of them, activations in flight that its schedule cannot do without
/// (ScheduleVariant::chunks_in_flight, else one chunk's), and the fixed part.
#pragma once

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
#include "sim/search/layer_costs.hpp"
#include "sim/search/pipeline_shape.hpp"
#include "sim/search/space.hpp"

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

/// The shapes of all pipelines of a space, [pp][vpp][pp_schedule]; for any number of tables.
struct SpaceShapes {
  LayerKinds kinds;
  std::vector<PipelineShape> of;
};
/// On `threads` threads.
SpaceShapes space_shapes(const Scenario& scenario, const SearchSpace& space, int threads);

/// Bounds of all layouts of one scenario on one machine. What a layer costs is worked out once for all layouts that share
/// it. Not thread-safe: one for each thread.
class BoundTable {
 public:
  /// The scenario's cluster says where; it must outlive the table.
  explicit BoundTable(const Scenario& scenario);
  ~BoundTable();

  /// Nothing when the layout cannot be laid out: degrees that do not divide, a batch that does not, too few layers.
  /// (What is left to refuse, make_plan and make_schedule refuse.)
  std::optional<LayoutBound> bound(const Layout& layout);

  /// The same for the layouts first .. first + space.layouts_per_layer_cost() - 1, in this order; those that cannot be laid
  /// out, or repeat another one, are left out.
  void append_bounds(const SearchSpace& space, std::int64_t first, const SpaceShapes& shapes,
                     std::vector<BoundedLayout>& bounds);

 private:
  struct Laid;
  struct Held;

  bool divides(const Layout& layout) const;
  bool can_offload(const Laid& laid) const;
  const LayerCosts& costs_of(const Layout& layout, int dp, bool pairs);
  const ShardTraffic& traffic_of(const Layout& layout, int dp);
  const Held& held(const Layout& layout);
  Laid lay(const Layout& layout, const PipelineShape& shape);
  bool change(Laid& laid, const Layout& layout);
  LayoutBound bound_of(const Laid& laid);
  Duration compute_bound(const Laid& laid) const;
  std::int64_t stream_bound(const Laid& laid);
  std::int64_t update_bound(const Laid& laid);
  Bytes memory_bound(const Laid& laid);

  const Scenario& scenario_;
  const LayerKinds kinds_;
  const Costs costs_;
  const std::unique_ptr<NetworkModel> network_;
  const CostSources sources_;
  const bool disturbed_;  ///< ranks of a perturbed machine differ: what holds for one of them bounds nothing
  std::map<std::tuple<int, int, int, bool, std::int64_t, Recompute, int, bool>, std::unique_ptr<LayerCosts>>
      known_costs_;
  std::map<std::tuple<int, int, int, int>, std::unique_ptr<ShardTraffic>> known_traffic_;
  std::map<std::pair<int, int>, std::unique_ptr<Held>> known_held_;
  std::map<std::tuple<std::string, int, int>, std::unique_ptr<PipelineShape>> known_shapes_;  ///< of bound()
};

}  // namespace tracecast
