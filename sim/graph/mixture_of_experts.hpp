/// \file
/// Routed and shared experts: router, exchange of tokens, grouped multiplications.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/linear_layer.hpp"

namespace tracecast {

/// Of the routed experts that one rank holds.
std::int64_t routed_expert_parameters(const LayerShape& shape);
/// Linear layers other than the routed experts: the router, and those of the shared experts.
std::vector<Linear> moe_linears(const LayerShape& shape);

void moe_forward(OpWriter& writer);
/// The forward between norm and residual sum.
void expert_block(OpWriter& writer);
/// The shared experts with their gather and reduction; nothing if there are none.
void shared_forward(OpWriter& writer);
/// The activations of routed experts alone, and of shared ones.
void expert_activations(OpWriter& writer, bool with_shared);
/// Gradients of the output travel as the tokens do: in `moe_dispatch_dtype` to the experts, in 16 bit back.
void moe_backward(OpWriter& writer, BackwardPart part);

}  // namespace tracecast
