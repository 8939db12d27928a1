/// \file
/// The optimizers: what each keeps of a parameter, and what it does with whole matrices.
///
/// One row for each value of `training.optimizer`. Memory, bytes of the update, checks and the step graph read this table; what
/// the work on matrices is made of is in optimizer_matrices.hpp and graph/matrix_update.hpp.
/// Source: docs/references.md#elementwise-bytes, docs/references.md#muon, docs/references.md#preconditioners
#pragma once

#include "sim/plan/parallel.hpp"

namespace tracecast {

/// What an update does with a matrix as a whole.
enum class MatrixWork {
  none,           ///< nothing: every parameter by itself
  newton_schulz,  ///< orthogonalises its momentum (Muon)
  factored,       ///< sums of squares of rows and columns in place of a variance for each element (Adafactor)
  roots,          ///< both sides times inverse roots of their statistics (Shampoo)
  eigenbasis,     ///< Adam in the eigenbasis of both sides' statistics (SOAP)
};

struct Optimizer {
  OptimizerKind kind = OptimizerKind::adam;
  int states = 0;            ///< of a parameter, each as wide as optimizer_state_dtype
  bool byte_states = false;  ///< each in a byte instead
  bool layer_norms = false;  ///< norms of every layer and of its update
  MatrixWork matrices = MatrixWork::none;
  int matrix_states = 0;         ///< of an element of those matrices, in place of `states`
  int preconditioner_block = 0;  ///< default of training.preconditioner_block
  int preconditioner_interval = 0;
};

const Optimizer& optimizer_of(OptimizerKind kind);

/// True if the update works on whole matrices one by one, which are dealt out or gathered where they are divided.
bool needs_whole_matrices(const Optimizer& optimizer);
/// True if it multiplies with preconditioners of r x r and c x c (Shampoo, SOAP).
bool has_preconditioners(const Optimizer& optimizer);

/// The longest side of a preconditioner, and the steps between two of their factorisations: of the scenario, else the optimizer's.
int preconditioner_block(const Training& training);
int preconditioner_interval(const Training& training);

}  // namespace tracecast
