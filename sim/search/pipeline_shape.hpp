/// How a schedule lays a model, cut into pp x vpp virtual stages, over its pipeline ranks: as far as lower bounds need it,
/// that is without what layouts with the same pipeline do not share (degrees, batch, recomputation).
///
/// Layers come in kinds with the same work (LayerWork::kind), so what a chunk costs follows from how many layers of each
/// kind it has and from the ends of the model that it holds. Pipeline ranks whose chunks have equal parts differ only in
/// how many stages come before and after them; one of each such set bounds all of them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/io/scenario.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/search/space.hpp"

namespace tracecast {

/// Kinds of a model's layers.
struct LayerKinds {
  std::vector<int> of;     ///< [layer] its kind
  std::vector<int> first;  ///< [kind] its first layer
};
LayerKinds layer_kinds(const Scenario& scenario);

/// A piece of the model: layers of each kind, and its ends.
struct ModelPart {
  std::vector<int> layers;  ///< [kind] how many
  int embeddings = 0;
  int heads = 0;
  ModelPart& operator+=(const ModelPart& other);
  auto operator<=>(const ModelPart&) const = default;

  /// Sum over the piece of what each of its parts has: `of_kind` [kind].
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
struct AlikeRanks {
  ModelPart all;                  ///< of its chunks together
  std::vector<ModelPart> chunks;  ///< those that differ, each once
  ModelPart before;               ///< the model before its first stage; the longest way of these ranks
  std::int64_t after = 0;         ///< ranks behind it; the most of these ranks
};

struct PipelineShape {
  std::vector<AlikeRanks> ranks;  ///< empty: it cannot be laid out
  ModelPart whole;
  int replicas = 1;
  std::int64_t (*chunks_in_flight)(const ScheduleRequest&, int rank) = nullptr;  ///< of the schedule's row
  bool split_backward = false;  ///< weight gradients may come after all input gradients
  bool pairs = false;           ///< forwards and backwards hide each other's exchanges of tokens
};

PipelineShape pipeline_shape(const Scenario& scenario, const LayerKinds& kinds, const Layout& layout);

}  // namespace tracecast
