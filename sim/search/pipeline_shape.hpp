/// \file
/// How a schedule places the pp x vpp virtual stages of a model on its pipeline ranks, as far as lower bounds need it:
/// without tensor and expert degrees, batch and recomputation, so that layouts with the same pipeline share it.
///
/// Layers of one kind have the same work (LayerWork::kind), so the cost of a chunk follows from its number of layers of
/// each kind and from the ends of the model in it. Pipeline ranks with equal chunks differ only in the number of stages
/// before and after them; one bound covers each such group.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/scenario.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/search/space.hpp"

namespace tracecast {

/// The kinds of layers of a model.
struct LayerKinds {
  std::vector<int> of;     ///< [layer] its kind
  std::vector<int> first;  ///< [kind] its first layer
};
LayerKinds layer_kinds(const Scenario& scenario);

/// A part of the model: a number of layers of each kind, and the ends of the model.
struct ModelPart {
  std::vector<int> layers;  ///< [kind] number of layers
  int embeddings = 0;
  int heads = 0;
  ModelPart& operator+=(const ModelPart& other);
  auto operator<=>(const ModelPart&) const = default;

  /// Sum over the layers and ends of this part. `of_kind`: [kind] value of one layer.
  template <class Value>
  Value sum(const std::vector<Value>& of_kind, const Value& embedding, const Value& head) const {
    Value total{};
    for (std::size_t kind = 0; kind < layers.size(); ++kind) total += of_kind[kind] * layers[kind];
    if (embeddings > 0) total += embedding;
    if (heads > 0) total += head;
    return total;
  }
};

/// Pipeline ranks with equal chunks.
struct RankGroup {
  ModelPart all;                  ///< its chunks together
  std::vector<ModelPart> chunks;  ///< the different ones, each once
  ModelPart before;               ///< the model before the first stage; the maximum over these ranks
  std::int64_t after = 0;         ///< number of later ranks; the maximum over these ranks
  int messages = 0;               ///< to other pipeline ranks for each micro-batch; the minimum over these ranks
};

struct PipelineShape {
  std::vector<RankGroup> ranks;  ///< empty: the pipeline is impossible
  ModelPart whole;
  int replicas = 1;
  std::int64_t (*chunks_in_flight)(const ScheduleRequest&, int rank) = nullptr;  ///< of the schedule's row
  bool split_backward = false;  ///< weight gradients may come after all input gradients
  bool pairs = false;           ///< a forward and a backward overlap and hide each other's token exchange
};

/// The schedule of a layout with any number of micro-batches: the placement of its stages does not depend on it.
/// Errors: those of make_schedule
Result<Schedule> placement_of(const Layout& layout);

PipelineShape pipeline_shape(const Scenario& scenario, const LayerKinds& kinds, const Layout& layout);

}  // namespace tracecast
