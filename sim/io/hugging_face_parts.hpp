/// \file
/// Parts of a config.json that several families of models share. Each function adds what it reads to the model.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

/// A word of the file for a layer, and its letter.
using LayerWord = std::pair<std::string_view, char>;
/// The letters of all layers, by a list with a word for each; nothing: the list is missing or empty.
/// Errors: other words; not as many as layers
std::optional<std::string> layer_letters(HuggingFaceConfig& config, const Model& model, const std::string& key,
                                         const std::vector<LayerWord>& words);
/// This letter for each layer; nothing for a number of layers that the check of the model reports.
std::optional<std::string> every_layer(const Model& model, char letter);
/// Errors: a list that is not as long as the model
void check_layers(HuggingFaceConfig& config, const Model& model, const std::string& key, std::size_t length);
/// n where every n-th layer, and no other, has the letter; 0: none has it.
/// Errors: another order. `what`: of the letter, in words
int every_nth(HuggingFaceConfig& config, const std::string& key, std::string_view letters, char letter,
              std::string_view what);

void read_latent_attention(HuggingFaceConfig& config, Model& model);

}  // namespace tracecast
