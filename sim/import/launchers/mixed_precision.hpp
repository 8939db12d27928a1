/// \file
/// Recipes for numbers that Megatron-Bridge registers by name: mixed_precision: bf16_with_mxfp8_mixed.
/// Source: megatron/bridge/training/mixed_precision.py; docs/references.md#format-megatron
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// The settings that a name stands for, as a section of Megatron-Bridge. '-' and '_' are alike; "_bf16_params" and
/// "_bf16_grad_reduce" may follow a name, with or without its "_mixed". Nothing: the name is unknown.
std::optional<JsonNode> mixed_precision_settings(std::string_view name, int line);

/// All names, for messages.
std::string mixed_precision_names();

}  // namespace tracecast
