/// \file
/// Megatron-Bridge's YAML: overrides of a recipe, or the whole configuration that a recipe makes (ConfigContainer.to_yaml, run_config.yaml of a
/// checkpoint), told with the names and meanings of Megatron-LM's arguments.
/// Source: docs/references.md#format-megatron
#pragma once

#include <string>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// A flag of the tree that parse_bridge returns: the file is a whole configuration, with its model.
inline constexpr const char* kWholeConfiguration = "tracecast-whole-configuration";

/// The class of its section `peft`: "megatron.bridge.peft.dora.DoRA".
inline constexpr const char* kAdapterKind = "adapter-kind";

/// Errors: those of parse_yaml; an unknown name of mixed_precision.
Result<JsonDocument> parse_bridge(const std::string& content, const std::string& file);

/// Whether a text is Python that makes a configuration of Megatron-Bridge.
bool is_bridge_recipe(std::string_view content, std::string_view file);

/// NeMo's YAML, which has a section `trainer`: values of other settings are put in, and words that NeMo has in place of Megatron-LM's flags
/// become these.
void write_out_nemo(JsonNode& root);

}  // namespace tracecast
