/// \file
/// Which linear layers compute in which precision.
///
/// `training.dtype` is that of the linear layers of attention, feed-forward and experts. Where it has 8 or 4 bits, the
/// embedding, the router, the output layer, norms, softmax and the attention core stay in 16 bit, and so do the linear
/// layers that `bf16_modules`, `bf16_layers_start` and `bf16_layers_end` name.
/// Source: DeepSeek-V3 (arXiv 2412.19437) 3.3.1; Transformer Engine; Megatron-LM --first-last-layers-bf16
#pragma once

#include "sim/model/model.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

/// Linear layers that a scenario names together in `bf16_modules`. Shared experts belong to mlp.
enum class LinearPart { attention, mlp, experts };
template <>
struct EnumNames<LinearPart> {
  static constexpr NamedValue<LinearPart> table[] = {
      {LinearPart::attention, "attention"}, {LinearPart::mlp, "mlp"}, {LinearPart::experts, "experts"}};
};

/// Of the linear layers of `part` in layer `layer`.
Precision linear_precision(const Model& model, const Training& training, int layer, LinearPart part);

/// Of multiplications that stay out of 8 and 4 bits: fp32 in a training in fp32, else bf16, which stands for fp16 too.
Precision wide_precision(const Training& training);

/// Bytes of what stays out of 8 and 4 bits: of a parameter and a gradient as they compute, and of an activation as layers and pipeline
/// stages hand it on. 4 with fp32, else 2.
std::int64_t wide_size(const Training& training);
/// Bytes of a parameter that the optimizer updates: of the fp32 copy, if it keeps one.
std::int64_t updated_size(const Training& training);

/// Copies of a quantised tensor that its multiplications read: by rows for the output and the input gradient by columns.
/// Source: Transformer Engine (row-wise and column-wise data of a quantised tensor)
int quantised_copies(const Training& training, Precision precision);
/// True if quantising reads a tensor once more before, for its largest value (docs/references.md#te-gemms).
bool finds_largest(const Training& training, Precision precision);
/// Bytes that quantising moves for each element: what is read in 16 bit, and `copies` that are written.
double quantising_bytes(const Training& training, Precision precision, int copies);

/// Bytes of the quantised copies of one weight, each with its scales, kept from one micro-batch to the next. 0 in 16 and 32 bit.
double weight_copy_bytes(const Training& training);

/// True if multiplications write weight gradients in 16 bit that kernels of their own add to the fp32 ones after each
/// micro-batch, rather than adding to the fp32 ones themselves: DeepSpeed's BF16_Optimizer (Training::keep_16bit_gradients). In fp16
/// its gradients have no fp32 copy.   Source: docs/references.md#bf16-optimizer
bool adds_gradients_apart(const Training& training);

/// Bytes of a gradient that is reduced over the ranks: those of the type in which it is accumulated, but where adds_gradients_apart()
/// the 16 bits that DeepSpeed communicates in by default.   Source: docs/references.md#bf16-optimizer
std::int64_t reduced_gradient_size(const Training& training);

}  // namespace tracecast
