/// \file
/// Small languages inside Megatron-LM's arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

/// Layers of each virtual stage of --pipeline-model-parallel-layout, stage 0 first.
///
///   "Et*2|(tt|)*5t|tmL"    E embedding, t layer, m extra prediction layer, L loss; | ends a stage, *n repeats the item or the
///                          group before it, commas are decoration, and so are backslashes (of a shell)
///
/// Nothing: not in that language, or more than 100,000 stages and layers.   Source: docs/references.md#format-megatron
std::optional<std::vector<int>> parse_pipeline_layout(const std::string& text);

/// The same with E before the first layer, and after the last one the prediction layers (m) and L.
std::string pipeline_layout_text(const std::vector<int>& layers, int prediction_layers = 0);

/// Zeros and ones of layers: "([0]*3+[1]*11)", a list as Python has it. Nothing: not in that language, or not `layers` long.
std::optional<std::vector<int>> parse_layer_list(const std::string& text, int layers);

/// Which layers have experts, by --moe-layer-freq: such a list, or n: every n-th, the first of them layer 0.
std::optional<std::vector<int>> parse_layer_frequency(const std::string& text, int layers);

/// A module of --recompute-modules and of training.recompute_modules; "" where the other side has none.
std::string_view megatron_module(std::string_view ours);
std::string_view module_of_megatron(std::string_view theirs);

/// True of GPUs before Blackwell (Profile::architecture): for these Megatron-LM demands CUDA_DEVICE_MAX_CONNECTIONS=1 of tensor and
/// context parallelism.
bool before_blackwell(std::string_view architecture);

}  // namespace tracecast
