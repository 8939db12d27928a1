/// \file
/// Attention with its projections, and context parallelism: keys and values around a ring, gathered, or heads exchanged
/// for parts of the sequence.
#pragma once

#include <vector>

#include "sim/graph/linear_layer.hpp"

namespace tracecast {

/// The projections before the attention core, in order.
std::vector<Linear> attention_inputs(const LayerShape& shape);
/// One of them, behind the gather of the latent vectors that it multiplies, if there is one.
void attention_input_forward(OpWriter& writer, const Linear& linear);
/// The same as PyTorch multiplies them: queries, keys and values one by one.
std::vector<Linear> separate_attention_inputs(const LayerShape& shape);
Linear attention_output(const LayerShape& shape);
/// The projections of a decoder layer's attention over the encoder's result; none elsewhere.
std::vector<Linear> cross_attention_linears(const LayerShape& shape);

/// Norm, attention and residual sum; with an encoder also those of the attention over its result.
void attention_forward(OpWriter& writer);
/// `recompute_core`: repeats the forward of the attention core first.
void attention_backward(OpWriter& writer, BackwardPart part, bool recompute_core);

/// The norm of queries and keys, for models that have it.
void qk_norm(OpWriter& writer, Pass pass);
/// Rotary position embedding, for models that have it.
void rope(OpWriter& writer, Pass pass);

}  // namespace tracecast
