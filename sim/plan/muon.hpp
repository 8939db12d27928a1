/// \file
/// Muon: which matrices it orthogonalises, and which rank works on which of them.
///
/// Muon replaces the momentum M of a weight matrix by a matrix with the same singular vectors and singular values near one:
///
///   X = M / |M|, then `muon_steps` times  A = X X^T,  B = b A + c A A,  X = a X + B X      (r x c, r the shorter side)
///
/// which takes 2 r^2 c + 2 r^3 + 2 r^2 c FLOPs an iteration. Embeddings, the output layer, norms and biases keep Adam. A matrix
/// has to be whole for this, so sharded states need more than the traffic of Adam, or are dealt out by whole matrices.
/// Source: docs/references.md#muon
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/model.hpp"
#include "sim/model/parameters.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/plan_check.hpp"

namespace tracecast {

/// Equal matrices of one rank.
struct MuonMatrices {
  std::int64_t rows = 0;  ///< the shorter side of what is orthogonalised: a whole matrix, or a tensor rank's part of it
  std::int64_t columns = 0;
  std::int64_t held_elements = 0;  ///< of one matrix, on one tensor rank
  std::int64_t count = 0;
  bool expert = false;   ///< of routed experts, which have data- and tensor-parallel groups of their own
  bool divided = false;  ///< over tensor ranks, so that muon_tensor duplicated and distributed need transfers
  bool operator==(const MuonMatrices&) const = default;
};

/// True for the groups whose matrices Muon orthogonalises: all but tables and the output layer.
bool is_orthogonalised(const ParameterGroup& group);

/// The sharding that a plan uses: `automatic` replaced.
MuonSharding muon_sharding(const Parallel& parallel, const Training& training);

/// All matrices of one stage on one rank, before any sharding over data parallelism; largest first.
/// muon_tensor distributed: rows x columns is the rank's part. A matrix that is divided along its shorter side works on
/// the longer one, as the products have to be summed over the ranks.
std::vector<MuonMatrices> muon_matrices(const Model& model, const Plan& plan, const Stage& stage);

/// The part of `matrices` that the rank with the most elements works on, when they are dealt out over `dense` ranks, those of
/// experts over `expert` ranks: the largest first, each to the rank with the least so far.
std::vector<MuonMatrices> fullest_share(const std::vector<MuonMatrices>& matrices, int dense, int expert);

/// Faults: keys of Muon without it; a sharding that the ZeRO stage does not have; fp16, offloaded states and parameter servers, for
/// which no framework has it; tensor parallelism of experts apart from that of the rest where their parts would be joined.
void check_muon(PlanCheck& check, const Parallel& parallel, const Training& training);

/// Held elements of all matrices, of experts or of the others.
std::int64_t held_elements(const std::vector<MuonMatrices>& matrices, bool expert);

}  // namespace tracecast
