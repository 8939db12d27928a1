/// \file
/// Parts of a config.json that several families of models share. Each function adds what it reads to the model.
#pragma once

#include <string>
#include <vector>

#include "sim/io/hugging_face_config.hpp"
#include "sim/model/model.hpp"

namespace tracecast {

/// Layers, width, heads and vocabulary.
void read_sizes(HuggingFaceConfig& config, Model& model);
/// Heads of keys and values, width of the MLP, longest sequence.
void read_layer_sizes(HuggingFaceConfig& config, Model& model);
/// Biases of attention and MLP, and whether the embeddings are tied.
void read_biases(HuggingFaceConfig& config, Model& model);
Activation gated_activation(HuggingFaceConfig& config);

/// RMSNorm, rotary positions, gated MLP, grouped-query attention.
void read_llama(HuggingFaceConfig& config, Model& model);
void read_qwen2(HuggingFaceConfig& config, Model& model);
void read_qwen3(HuggingFaceConfig& config, Model& model);

/// Experts, experts of a token and width of an expert, each under the first of its keys that is present.
MixtureOfExperts& read_experts(HuggingFaceConfig& config, Model& model, const std::vector<std::string>& experts,
                               const std::vector<std::string>& topk = {"num_experts_per_tok"},
                               const std::vector<std::string>& ffn_hidden = {"moe_intermediate_size"});
/// Qwen: every decoder_sparse_step-th layer has experts.
void read_qwen_experts(HuggingFaceConfig& config, Model& model);
/// Requires experts.
void read_qwen_shared_expert(HuggingFaceConfig& config, Model& model);
/// A number of shared experts: each is as wide as the others.
void read_shared_experts(HuggingFaceConfig& config, const std::string& key, MixtureOfExperts& moe);

void read_latent_attention(HuggingFaceConfig& config, Model& model);

}  // namespace tracecast
