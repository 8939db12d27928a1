/// \file
/// The parameters of a model as groups: what they belong to and how a rank's share of them is found.
///
/// The one place that knows which matrices a layer has; exact counts (model.hpp), the parameters of a rank
/// (plan/rank_parameters.hpp) and model FLOPs are all sums over these groups.
/// Layers are numbered through: those of an encoder first, then the decoder's.
/// Source: docs/references.md#parameter-counts, docs/references.md#gemm-shapes (column- and row-parallel matrices);
/// published checkpoints for biases and norms.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/model.hpp"

namespace tracecast {

enum class Part { embedding, attention, mlp, router, expert, norm, output };

/// How many of a group's parameters one rank holds.
enum class Split {
  replicated,    ///< all of them on every rank of the tensor-parallel group
  tensor,        ///< count / tp
  query_groups,  ///< by key/value heads: max(1, k / tp) of k
  expert,        ///< count / (ep etp)
  expert_bias,   ///< count / ep: added after the experts' row-parallel matrix
};

struct ParameterGroup {
  Part part = Part::attention;
  Split split = Split::tensor;
  std::int64_t count = 0;
  bool matrix = false;  ///< multiplied with every token it sees; biases, norms and tables are not
  /// Of matrices: `pieces` of inputs x outputs, which are updated one by one. Row-parallel ones are divided by inputs.
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t pieces = 0;
  bool row_parallel = false;
  bool operator==(const ParameterGroup&) const = default;
};

/// Norms of a layer over the hidden state: one before every mixer and feed-forward.
int layer_norms(const Model& model, int layer);

/// Requires 0 <= layer < model.layers().
std::vector<ParameterGroup> layer_parameter_groups(const Model& model, int layer);

/// Word and position tables, and the norm after them.
std::vector<ParameterGroup> embedding_parameter_groups(const Model& model);

/// Final norm(s) and the output layer. A tied output layer is not a group: it is the word table.
std::vector<ParameterGroup> head_parameter_groups(const Model& model);

/// One multi-token-prediction layer without the tables it shares: two input norms, the 2h -> h projection, a
/// transformer layer like the last one, a final norm.       Source: DeepSeek-V3 (arXiv 2412.19437) section 2.2
std::vector<ParameterGroup> mtp_parameter_groups(const Model& model);

/// Sum of counts, of one part or of all.
std::int64_t sum(const std::vector<ParameterGroup>& groups);
std::int64_t sum(const std::vector<ParameterGroup>& groups, Part part);

}  // namespace tracecast
