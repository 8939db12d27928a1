/// \file
/// Layers of Mamba-2, gated delta net and Kimi delta attention: a projection, a causal convolution, a chunked scan, a norm with a
/// gate, a projection back.
///
/// Tensor parallelism divides heads, with the collectives of attention. Context parallelism exchanges parts of the sequence for
/// heads before the convolution and back after the scan, whatever cp_comm_type says: a recurrence needs every token.
/// Source: docs/references.md#linear-attention
#pragma once

#include <vector>

#include "sim/graph/linear_layer.hpp"

namespace tracecast {

/// The projections before the convolution, in order.
std::vector<Linear> linear_attention_inputs(const LayerShape& shape);
Linear linear_attention_output(const LayerShape& shape);

/// Norm, mixer and residual sum.
void linear_attention_forward(OpWriter& writer);
void linear_attention_backward(OpWriter& writer, BackwardPart part);

}  // namespace tracecast
