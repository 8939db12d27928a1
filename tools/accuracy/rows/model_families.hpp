/// \file
/// What tables of runs leave out of a model, by its name. Source of every entry: docs/references.md#families
///
/// A family is the beginning of a `name` as family_name (model_names.hpp) spells it. Of several entries that match, the first counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/model/model.hpp"

namespace tracecast::accuracy {

/// Head size where a family's is not hidden / heads; 0: not known.
std::int64_t head_size_of(std::string_view name);

/// Words of the tokenizer, as its embedding has them, and whether the output layer is the embedding.
struct VocabularyFamily {
  const char* family;
  std::int64_t words;
  bool tied;
};
/// nullptr: not known.
const VocabularyFamily* vocabulary_of(std::string_view name);

/// Models with experts, and what of them tables may leave out.
struct ExpertFamily {
  const char* family;
  std::int64_t hidden;
  int experts;
  int topk;
  std::int64_t ffn_hidden;         ///< of one expert
  std::int64_t shared_ffn_hidden;  ///< of all shared ones
  int leading_dense_layers;
};
/// That of this `hidden`. nullptr: not known.
const ExpertFamily* experts_of(std::string_view name, std::int64_t hidden);
/// True if experts of that family are known, of whatever width.
bool has_known_experts(std::string_view name);
/// True if the name says that there are experts: one of these or of others, "moe", or how many parameters are active ("a3b").
bool is_named_for_experts(std::string_view name);

/// Layers of which all but every n-th attend to `tokens`.
struct AttentionWindow {
  const char* family;
  const char* name;  ///< in sentences
  int tokens;
  int global_every;            ///< 0: no layer attends to all
  bool chunked = false;        ///< to those of their chunk of so many
  bool of_checkpoint = false;  ///< only where the software takes the model's keys from its checkpoint
};
/// nullptr: none.
const AttentionWindow* window_of(std::string_view name);

struct LatentFamily {
  const char* family;
  LatentAttention sizes;
  int index_heads;  ///< of the indexer that chooses keys; 0: it has none
};
/// nullptr: another kind of attention.
const LatentFamily* latent_family(std::string_view name);
/// DeepSeek-V3.2's indexer with so many heads.
SparseAttention sparse_attention(int index_heads);

/// Feed-forward layers without a gate, and what goes with them.
struct UngatedFamily {
  const char* family;
  Activation activation;
  Norm norm;
  Position position;
  bool biases;  ///< in linear layers
};
/// GPT's for a family that is not known.
const UngatedFamily& ungated_family(std::string_view name);
/// True if the feed-forward layers of that family have no gate.
bool is_ungated(std::string_view name);

/// True if queries and keys are normalised.
bool has_qk_norm(std::string_view name);
/// True if attention and feed-forward are normalised behind, too, which models here are not.
bool has_four_norms(std::string_view name);
/// True if every second layer has experts.
bool alternates_experts(std::string_view name);

/// True if attention and feed-forward read the same input: docs/references.md#parallel-residual
bool has_parallel_residual(std::string_view name);

/// All that have an entry of head sizes, experts, windows, latent attention or norms: for a test that they have a vocabulary, too.
std::vector<std::string> families_with_entries();

/// Layers that neither columns nor rules describe: "layers of Mamba"; "": none.
std::string_view unmodelled_layers(std::string_view name);

}  // namespace tracecast::accuracy
