/// \file
/// The work of optimizers that treat a matrix as a whole: Newton-Schulz iterations (Muon), statistics, factorisations and products
/// with preconditioners (Shampoo, SOAP), sums of rows and columns (Adafactor); and the transfers that divided matrices ask for.
/// Factorisations are those of the mean step: one in `preconditioner_interval`.
/// Source: docs/references.md#muon, docs/references.md#preconditioners, docs/references.md#adafactor
#pragma once

#include <vector>

#include "sim/graph/data_parallel.hpp"
#include "sim/plan/optimizer_matrices.hpp"

namespace tracecast {

class MatrixUpdate {
 public:
  explicit MatrixUpdate(DataParallel& data) : data_(data), context_(data.context()) {}

  /// Writes the update of one chunk's matrices. Returns its other trained parameters, which are updated by themselves.
  Bucket write(TemplateWriter& writer, const Chunk& chunk);

 private:
  using Matrices = std::vector<OptimizerMatrices>;
  const Training& training() const { return context_.plan.training; }
  const Optimizer& optimizer() const { return optimizer_of(training().optimizer); }
  MatrixSharding sharding() const;
  /// Data-parallel ranks that have a part of these matrices' states or work.
  int ranks(bool expert) const;
  /// What this rank works on.
  Matrices share_of(const Matrices& all) const;
  std::int64_t own_elements(const Matrices& all, const Matrices& share) const;
  void newton_schulz(TemplateWriter& writer, const Matrices& all);
  void preconditioned(TemplateWriter& writer, const Matrices& all);
  void factored(TemplateWriter& writer, const Matrices& all);
  /// Sends elements of `width` bytes over the data-parallel groups and waits for them: all to everyone, or each to its owner.
  void exchange(TemplateWriter& writer, const Matrices& all, Traffic traffic, std::int64_t width, bool to_everyone);
  void over_tensor_ranks(TemplateWriter& writer, Collective what, std::int64_t elements);
  void multiply(TemplateWriter& writer, Precision precision, const char* name, const GemmShape& shape);
  void orthogonalise(TemplateWriter& writer, const OptimizerMatrices& matrices);
  void precondition(TemplateWriter& writer, const OptimizerMatrices& matrices);
  void factorise(TemplateWriter& writer, const OptimizerMatrices& matrices);
  /// Adds up `numbers` of each matrix over the ranks that it is divided over.
  void add_up(TemplateWriter& writer, const Matrices& all, bool sums);

  DataParallel& data_;
  BuildContext& context_;
};

}  // namespace tracecast
