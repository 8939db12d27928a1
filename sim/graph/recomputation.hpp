/// \file
/// Forward work that a layer's backward repeats, as far as it is less than the whole forward and more than the
/// attention core.
#pragma once

#include "sim/graph/op_writer.hpp"

namespace tracecast {

/// What torchtitan's op-level option repeats of a layer: multiplications with even numbers in their order (keys, the output
/// of attention, the second matrix of a gated feed-forward), and element-wise work. The last multiplication is not needed;
/// experts are left as they are.   Source: torchtitan, _apply_ac_to_transformer_block (docs/references.md#op-level)
void recompute_selected_operators(OpWriter& writer);
/// What training.recompute_modules repeats of a layer.
void recompute_modules(OpWriter& writer);

}  // namespace tracecast
