/// \file
/// Families of Hugging Face models with layers of linear attention or Mamba.
#pragma once

#include "sim/io/hugging_face_config.hpp"
#include "sim/model/model.hpp"

namespace tracecast {

/// Gated delta nets with gated attention in every fourth layer, and a dense MLP.
void read_qwen3_5(HuggingFaceConfig& config, Model& model);
/// Qwen3-Next and Qwen3.5 with experts in every layer; these have no dense width.
void read_qwen3_next(HuggingFaceConfig& config, Model& model);
/// Single blocks: the pattern's letters are those of Megatron-LM. No positions; an MLP of two matrices with squared ReLU.
void read_nemotron_h(HuggingFaceConfig& config, Model& model);
/// Kimi delta attention, with latent attention in the layers that the config lists (numbered from 1).
void read_kimi_linear(HuggingFaceConfig& config, Model& model);

}  // namespace tracecast
