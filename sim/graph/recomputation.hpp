/// \file
/// Forward work that a layer's backward repeats, as far as it is less than the whole forward and more than the
/// attention core.
#pragma once

#include "sim/graph/op_writer.hpp"

namespace tracecast {

/// What torchtitan's op-level option repeats of a layer; attention and every second multiplication are kept.
void recompute_selected_operators(OpWriter& writer);
/// What training.recompute_modules repeats of a layer.
void recompute_modules(OpWriter& writer);

}  // namespace tracecast
