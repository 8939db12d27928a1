#include "sim/plan/precision.hpp"

#include <algorithm>

namespace tracecast {

Precision linear_precision(const Model& model, const Training& training, int layer, LinearPart part) {
  if (!is_narrow(training.dtype)) return training.dtype;
  const bool at_end =
      layer < training.bf16_layers_start || layer >= model.layers() + model.mtp_layers - training.bf16_layers_end;
  const bool named = std::ranges::find(training.bf16_modules, to_string(part)) != training.bf16_modules.end();
  return at_end || named ? Precision::bf16 : training.dtype;
}

Precision wide_precision(const Training& training) {
  return training.dtype == Precision::fp32 ? Precision::fp32 : Precision::bf16;
}

std::int64_t wide_size(const Training& training) { return element_size(wide_precision(training)); }

std::int64_t updated_size(const Training& training) { return training.master_weights ? 4 : wide_size(training); }

int quantised_copies(const Training& training, Precision precision) {
  return precision == Precision::fp8 && !training.fp8_transpose ? 1 : 2;
}

bool finds_largest(const Training& training, Precision precision) {
  const bool current = training.fp8_scaling == Fp8Scaling::current && !training.row_scales;
  return precision == Precision::nvfp4 || (precision == Precision::fp8 && current);
}

double quantising_bytes(const Training& training, Precision precision, int copies) {
  const int reads = finds_largest(training, precision) ? 2 : 1;
  return reads * quantised_size(Precision::bf16) + copies * quantised_size(precision);
}

double weight_copy_bytes(const Training& training) {
  const Precision precision = training.dtype;
  return is_narrow(precision) ? quantised_copies(training, precision) * quantised_size(precision) : 0;
}

bool adds_gradients_apart(const Training& training) {
  return training.keep_16bit_gradients && training.grad_reduce_dtype == Precision::fp32 &&
         training.dtype != Precision::fp16 && training.dtype != Precision::fp32;
}

std::int64_t reduced_gradient_size(const Training& training) {
  return element_size(adds_gradients_apart(training) ? Precision::bf16 : training.grad_reduce_dtype);
}

}  // namespace tracecast
