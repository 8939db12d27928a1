/// \file
/// Norms and residual sums around the blocks of a layer: element-wise work by the bytes that it moves.
#pragma once

#include <cstdint>

#include "sim/graph/op_writer.hpp"

namespace tracecast {

std::int64_t norm_parameters(const Model& model);

/// Reads x, writes y; compiled, with the residual addition, reads two tensors and writes two.
void norm_forward(OpWriter& writer);
/// Reads x and dy, writes dx.
void norm_backward(OpWriter& writer, BackwardPart part);
/// Of the norm before a block: its result and the gradient that came past the block are added up, in a kernel of its own unless
/// compiled.
void block_norm_backward(OpWriter& writer, BackwardPart part);
/// Eager PyTorch multiplies queries, keys and values, or gate and value of a feed-forward, one by one.
inline bool has_separate_inputs(const LayerShape& shape) { return shape.training.runs_chains(); }
/// Several multiplications read the norm's result; the gradients that two of them give it are added up.
void sum_of_input_gradients(OpWriter& writer);
/// Nothing when the next norm's kernel includes the sum (compiled, without dropout).
void residual_forward(OpWriter& writer);
/// With dropout only. The mask is read as a byte per element.
void residual_backward(OpWriter& writer, BackwardPart part);

}  // namespace tracecast
