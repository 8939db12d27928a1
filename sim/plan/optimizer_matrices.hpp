/// \file
/// The matrices that an optimizer works on as a whole, and which rank works on which of them (optimizers.hpp has the table).
///
/// Muon replaces the momentum M of a weight matrix by a matrix with the same singular vectors and singular values near one:
///
///   X = M / |M|, then `muon_steps` times  A = X X^T,  B = b A + c A A,  X = a X + B X      (r x c, r the shorter side)
///
/// which takes 2 r^2 c + 2 r^3 + 2 r^2 c FLOPs an iteration.
///
/// Shampoo keeps statistics L = sum G G^T (r x r) and R = sum G^T G (c x c) of every matrix, cut into blocks whose sides are at
/// most `preconditioner_block`, and their inverse fourth roots, computed anew every `preconditioner_interval` steps. Each step:
/// both statistics and L^(-1/4) M R^(-1/4), 4 rc (r + c) FLOPs; states 2 (r^2 + c^2) numbers beside momentum and variance.
/// SOAP keeps L and R and their eigenvectors, and leaves out sides longer than the limit. Each step: statistics, gradient and
/// momentum into that basis and the update back, 8 rc (r + c) FLOPs.
///
/// Adafactor keeps sums of squares of rows and columns, r + c numbers, and no variance of the elements.
///
/// Embeddings, the output layer, norms and biases keep Adam; Adafactor's tables are matrices too. A matrix or block
/// has to be whole for this, so sharded states need more than the traffic of Adam, or are dealt out by whole matrices.
/// Source: docs/references.md#muon, docs/references.md#preconditioners, docs/references.md#adafactor
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/model.hpp"
#include "sim/model/parameters.hpp"
#include "sim/plan/optimizers.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/plan_check.hpp"

namespace tracecast {

/// Equal matrices of one rank.
struct OptimizerMatrices {
  std::int64_t rows =
      0;  ///< the shorter side of what is worked on: a whole matrix, a tensor rank's part or a block of it
  std::int64_t columns = 0;
  std::int64_t held_elements = 0;  ///< of one matrix, on one tensor rank
  std::int64_t count = 0;
  bool expert = false;   ///< of routed experts, which have data- and tensor-parallel groups of their own
  bool divided = false;  ///< over tensor ranks, so that muon_tensor duplicated and distributed need transfers
  bool operator==(const OptimizerMatrices&) const = default;
};

/// True for the groups whose matrices the optimizer works on: all but tables and the output layer; Adafactor's too.
bool works_on_matrices(const ParameterGroup& group, const Model& model, const Optimizer& optimizer);

/// The matrices of a group on one rank, before any sharding over data parallelism; of Shampoo their blocks.
std::vector<OptimizerMatrices> matrices_of(const ParameterGroup& group, const Model& model, const Plan& plan);

/// fp32 numbers that are kept for one of these matrices as a whole: preconditioners with their factors, or sums of rows and columns.
std::int64_t state_elements(const OptimizerMatrices& matrices, const Training& training);

/// The sides of one of these matrices that have a preconditioner.
std::vector<std::int64_t> preconditioned_sides(const OptimizerMatrices& matrices, const Training& training);

/// The sharding that a plan uses: `automatic` replaced.
MatrixSharding matrix_sharding(const Parallel& parallel, const Training& training);

/// All matrices of one stage on one rank, before any sharding over data parallelism; largest first.
/// muon_tensor distributed: rows x columns is the rank's part. A matrix that is divided along its shorter side works on
/// the longer one, as the products have to be summed over the ranks.
std::vector<OptimizerMatrices> optimizer_matrices(const Model& model, const Plan& plan, const Stage& stage);

/// The part of `matrices` that the rank with the most elements works on, when they are dealt out over `dense` ranks, those of
/// experts over `expert` ranks: the largest first, each to the rank with the least so far.
std::vector<OptimizerMatrices> fullest_share(const std::vector<OptimizerMatrices>& matrices, int dense, int expert);

/// Ranks that deal out the matrices of one rank with whole states, those of experts or the others; 1: each works on its own.
int dealing_ranks(const Plan& plan, bool expert);

/// Faults: keys of an optimizer without it; a sharding that the ZeRO stage does not have; fp16, offloaded states and parameter
/// servers, for which no framework has it; tensor parallelism of experts apart from that of the rest where their parts would be joined.
void check_optimizer(PlanCheck& check, const Parallel& parallel, const Training& training);

/// Held elements of all matrices, of experts or of the others.
std::int64_t held_elements(const std::vector<OptimizerMatrices>& matrices, bool expert);

}  // namespace tracecast
