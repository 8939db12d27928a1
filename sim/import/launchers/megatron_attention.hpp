/// \file
/// What Megatron-LM's arguments, or the YAML of Megatron-Bridge and NeMo, say of attention.
#pragma once

#include <string_view>

#include "sim/import/launchers/run_import.hpp"

namespace tracecast {

/// Grouped queries, windows, latent attention, gated delta nets, an indexer. With `recipe` an absent flag keeps what the recipe says.
void import_megatron_attention(RunImport& run, bool recipe);

/// The setting that names a kind of attention that no model file describes; "": none does.
std::string_view unknown_attention_variant(RunImport& run);

}  // namespace tracecast
