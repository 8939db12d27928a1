/// \file
/// The parameters that one rank holds before any sharding over data parallelism.
///
/// Column- and row-parallel matrices are divided by tp, key/value heads by min(tp, k), experts by ep etp; norms, biases
/// after row-parallel matrices, routers and position tables are on every rank.
/// Source: docs/references.md#gemm-shapes, docs/references.md#bytes-per-parameter
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/model.hpp"
#include "sim/model/parameters.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

/// Counted apart, since they are sharded over different groups: `dense` over dp x cp, `experts` over
/// tp cp dp / (ep etp).
struct RankParameters {
  std::int64_t dense = 0;
  std::int64_t experts = 0;
  std::int64_t quantised = 0;          ///< of `dense`, read by 8- or 4-bit multiplications (precision.hpp)
  std::int64_t quantised_experts = 0;  ///< of `experts`
  std::int64_t trained = 0;            ///< of `dense`, with gradients and optimizer states (fine_tuning.hpp)
  std::int64_t trained_experts = 0;    ///< of `experts`
  std::int64_t matrices = 0;         ///< of `trained`, in matrices that the optimizer works on (optimizer_matrices.hpp)
  std::int64_t expert_matrices = 0;  ///< of `trained_experts`
  std::int64_t largest_matrix = 0;   ///< of `matrices`; a sum keeps the larger one
  std::int64_t matrix_states = 0;    ///< fp32 numbers kept for `matrices` as a whole: preconditioners, sums of rows
  std::int64_t expert_matrix_states = 0;
  std::int64_t expert_copies = 0;  ///< parameters of redundant experts, beside `experts`
  std::int64_t persistent = 0;     ///< of `dense`, in tensors that DeepSpeed's stage 3 leaves whole
  std::int64_t total() const { return dense + experts; }
  RankParameters& operator+=(const RankParameters& other);
  friend RankParameters operator*(const RankParameters& a, std::int64_t count) {
    return {a.dense * count,
            a.experts * count,
            a.quantised * count,
            a.quantised_experts * count,
            a.trained * count,
            a.trained_experts * count,
            a.matrices * count,
            a.expert_matrices * count,
            a.largest_matrix,
            a.matrix_states * count,
            a.expert_matrix_states * count,
            a.expert_copies * count,
            a.persistent * count};
  }
  bool operator==(const RankParameters&) const = default;
};

RankParameters rank_parameters(const std::vector<ParameterGroup>& groups, const Model& model, const Parallel& parallel);

/// Of `dense`, in tensors that DeepSpeed's stage 3 leaves whole (param_persistence_threshold); 0 with other kinds of data parallelism.
std::int64_t persistent_parameters(const std::vector<ParameterGroup>& groups, const Model& model,
                                   const Parallel& parallel);

/// The parts of a stage in the order they run, each what FSDP gathers as one unit: the embedding, every layer,
/// multi-token-prediction layers, and the output layer with the final norm. A tied output layer on another stage than
/// the embedding has a copy of the word table.
/// shares_table: the rank holds the embedding too (one stage, or a V-shaped placement).
std::vector<RankParameters> stage_units(const Model& model, const Plan& plan, const Stage& stage, bool shares_table);

/// Ranks that hold the same experts, over which their gradients are reduced: tp cp dp / (ep etp).
int expert_gradient_group(const Plan& plan);
/// Those that share one copy of them: with hybrid sharding every copy of the model has all experts.
/// Source: docs/references.md#expert-copies
int expert_shard_group(const Plan& plan);

}  // namespace tracecast
