/// Lower bounds: a step time and a memory need that no simulation of a layout can undercut.
///
/// Time. Let F_s and B_s be how long the compute stream needs for one micro-batch through virtual stage s when it waits
/// for nothing but the collectives inside its layers: the sum over layers of stage_times.hpp's time_alone of that layer.
/// A template takes at least the sum of its layers, since every operation waits for the ones before it on its stream
/// (the exposed end of one layer is the beginning of the next). A rank runs all its micro-batches on one compute stream;
/// before its first forward the stages before have to pass one micro-batch forward, and after its last backward they
/// have to pass it back:
///
///   step >= max over ranks of  min over chunks (sum of F before) + M sum over chunks (F + B) + min over chunks (sum of B before)
///   step >= sum of F + B over all stages                                                     (one micro-batch's way)
///
/// Schedules that split the backward may end a rank with weight gradients, of several stages at once: then the last term
/// of the first bound and B of the second are left out.
/// Left out, so the bound holds without them: host time, messages between stages, data-parallel traffic, optimizer.
///
/// Memory. States of the rank with most of them, activations in flight that its schedule cannot do without (1F1B:
/// min(P - r, M) micro-batches; interleaved: its warm-up; others: one), and the fixed part.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sim/cost/costs.hpp"
#include "sim/io/scenario.hpp"
#include "sim/network/network_model.hpp"
#include "sim/search/space.hpp"

namespace tracecast {

struct LayoutBound {
  Duration step_time;
  Bytes memory;  ///< of the tightest rank
  bool operator==(const LayoutBound&) const = default;
};

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

 private:
  struct LayerTimes;
  struct Shape;
  struct Parameters;

  bool divides(const Layout& layout) const;
  const LayerTimes& layer_times(const Layout& layout, int dp);
  const Shape& shape(const Layout& layout);
  const Parameters& parameters(const Layout& layout);
  Duration time_bound(const LayerTimes& times, const Shape& laid, std::int64_t microbatches);
  Bytes memory_bound(const Layout& layout, int dp, std::int64_t microbatches, const LayerTimes& times,
                     const Shape& laid);

  /// The last time bound: layouts that differ in what data parallelism divides follow each other and share it.
  struct LastTime {
    const LayerTimes* times = nullptr;
    const Shape* shape = nullptr;
    std::int64_t microbatches = 0;
    Duration bound;
  };

  const Scenario& scenario_;
  const Costs costs_;
  const std::unique_ptr<NetworkModel> network_;
  std::map<std::tuple<int, int, int, std::int64_t, Recompute, int, bool>, std::unique_ptr<LayerTimes>> layer_times_;
  std::map<std::tuple<std::string, int, int>, std::unique_ptr<Shape>> shapes_;
  std::map<std::pair<int, int>, std::unique_ptr<Parameters>> parameters_;
  LastTime last_;
  std::vector<std::pair<std::int64_t, std::int64_t>> before_;  ///< scratch of time_bound: forward and backward, ps
};

}  // namespace tracecast
