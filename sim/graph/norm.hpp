/// \file
/// Norms and residual sums around the blocks of a layer: element-wise work by the bytes that it moves.
#pragma once

#include <cstdint>

#include "sim/graph/op_writer.hpp"

namespace tracecast {

std::int64_t norm_parameters(const Model& model);

/// Reads x, writes y; with the residual addition fused in (compiled) reads two tensors and writes two.
void norm_forward(OpWriter& writer);
/// Reads x and dy, writes dx; and adds the gradient that came past the block.
void norm_backward(OpWriter& writer, BackwardPart part);
/// Nothing when the next norm's kernel includes the sum (compiled, without dropout).
void residual_forward(OpWriter& writer);
/// With dropout only. The mask is read as a byte per element.
void residual_backward(OpWriter& writer, BackwardPart part);

}  // namespace tracecast
