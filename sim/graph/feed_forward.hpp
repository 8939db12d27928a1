/// \file
/// The dense feed-forward: norm, two linear layers with the activation between them, residual sum.
#pragma once

#include <cstdint>

#include "sim/graph/linear_layer.hpp"

namespace tracecast {

/// Matrices side by side in the first linear layer: 2 with a gate, else 1.
int gate_factor(const Model& model);
/// The two linear layers of a feed-forward of inner width `width`.
Linear fc1(const LayerShape& shape, std::int64_t width);
Linear fc2(const LayerShape& shape, std::int64_t width);
/// Forward: gated reads two and writes one; backward: gated reads three and writes two.
void activation(OpWriter& writer, Pass pass, std::int64_t elements);
/// Elements of the dense feed-forward's activation on one rank.
std::int64_t dense_activated(const LayerShape& shape);

/// The forward between the norm and the residual sum.
void dense_block(OpWriter& writer);
void dense_forward(OpWriter& writer);
void dense_backward(OpWriter& writer, BackwardPart part);

}  // namespace tracecast
