/// \file
/// Linear layers under tensor parallelism: matrix multiplications of all three passes, casts of narrow operands, LoRA
/// adapters, and the collectives that join the tensor ranks before and after them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/graph/op_writer.hpp"

namespace tracecast {

/// How a weight matrix is divided over the tensor-parallel group.
enum class MatrixSplit { column, row, replicated };

/// One weight matrix: out x in per rank.
struct Linear {
  std::string name;
  std::int64_t in = 0;   ///< per rank
  std::int64_t out = 0;  ///< per rank
  MatrixSplit split = MatrixSplit::replicated;
  Precision precision = Precision::bf16;
  bool tied = false;    ///< shares its matrix with the embedding on this rank, or with another use of the output layer
  bool frozen = false;  ///< passes gradients on, but has no weight gradient
  bool biased = false;  ///< a vector of `out` is added to the result
  std::int64_t adapter_rank = 0;  ///< of its LoRA adapters (plan/fine_tuning.hpp); 0: none
  /// With sequence parallelism, in the backward: gathers its input again, and reduces the input's gradient. Layers that share an
  /// input do each once.
  bool gathers_input = true;
  bool reduces_input_gradient = true;
  std::int64_t parameters() const { return (tied ? 0 : in * out) + adapters(); }
  std::int64_t adapters() const { return adapter_rank * (in + out); }
  std::int64_t trained() const { return (tied || frozen ? 0 : in * out) + adapters(); }
};

/// `linear`, frozen and with adapters as the training settings want it, and with a bias as the model has it, for `target`
/// ("qkv", "proj", "fc1", "fc2").
Linear tuned(const LayerShape& shape, Linear linear, const std::string& target);

/// With sequence parallelism: gathers [T, h] from the tensor ranks' parts of the sequence, for these linear layers or, without
/// `part`, in 16 bits. What is multiplied in 8 or 4 bits is quantised before (docs/references.md#narrow-gathers).
void gather_sequence(OpWriter& writer, std::optional<LinearPart> part = {});
/// The same of [T, width] that is multiplied in `multiplied`.
void gather_sequence(OpWriter& writer, Precision multiplied, std::int64_t width);
/// With gathers_layers(): gathers the [T, width] result of a linear layer, or of attention.
void gather_result(OpWriter& writer, std::int64_t width);
/// Adds up the [T, h] partial sums of a row-parallel layer.
void reduce_partial_sums(OpWriter& writer);
/// The end of attention or feed-forward: sums of the row-parallel layer, or with gathers_layers() all columns.
void finish_block(OpWriter& writer);

/// An operand of 8 or 4 bits, as it is made from 16.
struct Cast {
  Precision precision = Precision::bf16;
  Pass pass = Pass::forward;
  std::int64_t elements = 0;
  std::optional<int> copies = {};  ///< none: with the one that the weight gradient reads (quantised_copies)
  std::int64_t tensors = 1;        ///< quantised one after the other
};

/// Makes the operand of `name`. Nothing for wider operands than 8 bits.
void quantise(OpWriter& writer, const std::string& name, const Cast& cast);
/// ZeRO-3 has the weights in 16 bit each time they have been gathered: one copy is made for every use. Elsewhere copies
/// are made once per step (end_of_step.hpp).
void quantise_weights(OpWriter& writer, const std::string& name, const Cast& cast);

/// Adds `elements` 16-bit weight gradients to the fp32 ones, where that is work of its own (adds_gradients_apart).
void add_gradients(OpWriter& writer, const std::string& name, std::int64_t elements);

void linear_forward(OpWriter& writer, const Linear& linear);
/// Backward of the second layer of a pair. Row-parallel: its output gradient has been gathered; the input gradient
/// needs no reduction. With gathers_layers() it is a column-parallel one.
void row_backward(OpWriter& writer, const Linear& linear, BackwardPart part);
/// Backward of a column-parallel layer. The input is gathered again during the computation of the input gradient,
/// which is reduced during the computation of the weight gradient.
/// With DTensor nothing is gathered, and the reduction waits for both gradients: the input's is a sum over several
/// matrices.
void column_backward(OpWriter& writer, const Linear& linear, BackwardPart part);

}  // namespace tracecast
