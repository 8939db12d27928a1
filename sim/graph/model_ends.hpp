/// \file
/// Both ends of the model: embedding, output layer and loss; and the inputs of multi-token-prediction modules.
#pragma once

#include <cstdint>

#include "sim/graph/linear_layer.hpp"

namespace tracecast {

/// Of the embedding's table that one rank holds.
std::int64_t table_parameters(const LayerShape& shape);
/// `again`: another use of the same matrix, by multi-token prediction.
Linear output_layer(const LayerShape& shape, bool again = false);
/// Of a multi-token-prediction module without its layer: projection and three norms.
std::int64_t prediction_parameters(const LayerShape& shape);

void embedding_forward(OpWriter& writer);
void embedding_backward(OpWriter& writer);
/// The scatter-add alone: the table's gradient is complete elsewhere.
void embedding_gradient(OpWriter& writer);

/// Final norm, output layer, cross-entropy.
void head_forward(OpWriter& writer, bool again = false);
void head_backward(OpWriter& writer, BackwardPart part, bool again = false);

/// Before the layer of a multi-token-prediction module: the next words are looked up, they and the last hidden
/// state are normed, and both are projected to one width.
void prediction_input_forward(OpWriter& writer);
void prediction_input_backward(OpWriter& writer, BackwardPart part);

}  // namespace tracecast
