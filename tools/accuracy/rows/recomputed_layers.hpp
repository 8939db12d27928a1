/// \file
/// Of how many layers a source says that everything is recomputed.
#pragma once

#include <string_view>

namespace tracecast::accuracy {

/// "20 of 80 layers", "20/80", "25%", "layers 0-19", "block, 5 layers", "recompute_num_layers=5", "1 layer per virtual stage",
/// "every 2nd layer".
struct RecomputedLayers {
  int count = 0;               ///< 0: the text has no such number
  int of = 0;                  ///< so many layers, "20 of 80"; 0: not said
  int every = 0;               ///< every so many-th layer; 0: not said
  bool of_each_stage = false;  ///< `count` is of each (virtual) stage, as of Megatron's method "block"
  bool of_option = false;      ///< `count` is recompute_num_layers, whose meaning depends on the method
  bool operator==(const RecomputedLayers&) const = default;
};

/// Of a text in small letters. Nothing if the method is "uniform", whose number is the size of the units in which every layer is
/// recomputed (docs/references.md#recompute-method).
RecomputedLayers recomputed_layers(std::string_view text);

/// Layers of a virtual stage of a model with `layers`, evenly spread if the text does not say where they are; 0: all, or the text does not
/// say.   partial: the row says that not all are, so that Megatron's method cannot be "uniform"; without it, "16 layers" are fewer
/// than all only if the model has more
int recomputed_per_stage(const RecomputedLayers& said, int layers, int virtual_stages, bool partial);

}  // namespace tracecast::accuracy
