#include "sim/plan/precision.hpp"

#include <catch2/catch.hpp>

#include "sim/plan/parameter_states.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "tests/plan/memory_fixtures.hpp"
#include "tests/support/models.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Training training_of(Precision dtype) { return {.seq_length = 2048, .global_batch_size = 64, .dtype = dtype}; }

std::string mistakes(const Model& model, const Training& training) {
  return error_text(make_plan(model, Parallel{}, training, 1));
}

Bytes weights(const Model& model, const Parallel& parallel, const Training& training, int ranks) {
  return peak(model, value_of(make_plan(model, parallel, training, ranks))).weights;
}

}  // namespace

TEST_CASE("precision: which linear layers stay in 16 bit", "[plan][precision]") {
  const Model model = llama(32, 4096, 11008, 32, 32, 32000);
  Training training = training_of(Precision::mxfp8);
  training.bf16_layers_start = 1;
  training.bf16_layers_end = 2;
  training.bf16_modules = {"attention"};
  CHECK(linear_precision(model, training, 0, LinearPart::mlp) == Precision::bf16);
  CHECK(linear_precision(model, training, 1, LinearPart::mlp) == Precision::mxfp8);
  CHECK(linear_precision(model, training, 1, LinearPart::attention) == Precision::bf16);
  CHECK(linear_precision(model, training, 29, LinearPart::mlp) == Precision::mxfp8);
  CHECK(linear_precision(model, training, 30, LinearPart::mlp) == Precision::bf16);
  training.dtype = Precision::fp32;  // nothing to be kept wider
  CHECK(linear_precision(model, training, 0, LinearPart::mlp) == Precision::fp32);
}

TEST_CASE("precision: bytes of quantised elements with their scales", "[oracle][model][precision]") {
  CHECK(quantised_size(Precision::fp8) == 1);
  CHECK(quantised_size(Precision::fp8_block) == 1.03125);  // 4 bytes for 128
  CHECK(quantised_size(Precision::mxfp8) == 1.03125);      // 1 byte for 32
  CHECK(quantised_size(Precision::nvfp4) == 0.5625);       // half a byte, and 1 for 16
  CHECK(quantised_size(Precision::bf16) == 2);
}

TEST_CASE("precision: bytes that quantising an element moves", "[oracle][model][precision]") {
  Training training;
  const auto bytes = [&](Precision precision) {
    return quantising_bytes(training, precision, quantised_copies(training, precision));
  };
  CHECK(bytes(Precision::fp8) == 4);  // 2 read, 1 written twice
  CHECK(quantising_bytes(training, Precision::mxfp8, 1) == 3.03125);
  CHECK(bytes(Precision::nvfp4) == 5.125);  // 2 read twice, 0.5625 written twice
  training.fp8_scaling = Fp8Scaling::current;
  CHECK(bytes(Precision::fp8) == 6);  // read once more for the largest value
  CHECK(bytes(Precision::mxfp8) == 4.0625);
  training.fp8_transpose = false;
  CHECK(bytes(Precision::fp8) == 5);
  CHECK(bytes(Precision::fp8_block) == 4.0625);
  training.row_scales = true;
  CHECK(bytes(Precision::fp8) == 3);
}

TEST_CASE("precision: quantised copies of the weights are part of the memory", "[oracle][plan][precision]") {
  const Model model = llama(32, 4096, 11008, 32, 32, 32000);
  // Linear layers: all parameters but both tables (2 V h) and the norms (2 L + 1) h.
  const std::int64_t linear = 6'738'415'616 - 2LL * 32000 * 4096 - 65LL * 4096;
  const Bytes wide = weights(model, {}, training_of(Precision::bf16), 1);
  CHECK(weights(model, {}, training_of(Precision::fp8), 1) == wide + Bytes{2 * linear});
  CHECK(weights(model, {}, training_of(Precision::nvfp4), 1) == wide + Bytes{linear * 9 / 8});
  Training kept_narrow = training_of(Precision::fp8);
  kept_narrow.fp8_param_gather = true;
  CHECK(weights(model, {}, kept_narrow, 1) == wide);  // two copies of one byte in place of one of two
  Training one_copy = training_of(Precision::fp8);
  one_copy.fp8_transpose = false;
  CHECK(weights(model, {}, one_copy, 1) == wide + Bytes{linear});
  Training one_wide = training_of(Precision::fp8);
  one_wide.bf16_layers_end = 1;
  CHECK(weights(model, {}, one_wide, 1) == wide + Bytes{2 * linear * 31 / 32});
  const Parallel sharded{.zero_stage = 3};
  CHECK(weights(model, sharded, training_of(Precision::fp8), 8) ==
        weights(model, sharded, training_of(Precision::bf16), 8));
}

TEST_CASE("precision: optimizer states in bf16", "[oracle][plan][precision]") {
  Training training = training_of(Precision::bf16);
  training.optimizer_state_dtype = Precision::bf16;
  CHECK(bytes_per_parameter(training, 1).optimizer == 4 + 2 + 2);  // the master weights stay fp32
  training.dtype = Precision::fp32;
  CHECK(bytes_per_parameter(training, 1).optimizer == 2 + 2);
}

TEST_CASE("precision: settings that do not go together", "[error][plan][precision]") {
  const Model model = llama(32, 4096, 11008, 32, 32, 32000);
  Training training = training_of(Precision::fp8);
  training.bf16_modules = {"mlp", "heads"};
  CHECK(mistakes(model, training) == "training.bf16_modules = heads: is unknown (allowed: attention mlp experts)");
  training = training_of(Precision::fp8);
  training.bf16_layers_start = 20;
  training.bf16_layers_end = 13;
  CHECK(mistakes(model, training) ==
        "training.bf16_layers_start = 20: and bf16_layers_end = 13 are more than the 32 layers");
  training = training_of(Precision::bf16);
  training.fused_norms = true;
  CHECK(mistakes(model, training) ==
        "training.fused_norms = true: needs training.unfused_elementwise = true: otherwise norms are fused");
  training = training_of(Precision::bf16);
  training.fused_rope = true;
  CHECK(mistakes(model, training) ==
        "training.fused_rope = true: needs training.unfused_elementwise = true: otherwise RoPE is fused");
  training = training_of(Precision::bf16);
  training.fp8_output_layer = true;
  CHECK(mistakes(model, training) == "training.fp8_output_layer = true: needs an 8- or 4-bit training.dtype, not bf16");
  training = training_of(Precision::mxfp8);
  training.fp8_scaling = Fp8Scaling::current;
  CHECK(mistakes(model, training) == "training.fp8_scaling = current: needs training.dtype fp8, not mxfp8");
  training = training_of(Precision::fp8);
  training.fp8_scaling = Fp8Scaling::current;
  CHECK(mistakes(model, training).empty());
  training.row_scales = true;
  CHECK(mistakes(model, training) ==
        "training.fp8_scaling = current: needs training.row_scales = false: rows have scales of their own");
  training = training_of(Precision::bf16);
  training.fp8_param_gather = true;
  CHECK(mistakes(model, training) == "training.fp8_param_gather = true: needs an 8- or 4-bit training.dtype, not bf16");
  for (const auto& [dtype, name] : {std::pair{Precision::bf16, "bf16"}, std::pair{Precision::nvfp4, "nvfp4"},
                                    std::pair{Precision::fp8_block, "fp8_block"}}) {
    training = training_of(dtype);
    training.fp8_attention = true;
    CHECK(mistakes(model, training) ==
          std::string("training.fp8_attention = true: needs a training.dtype of fp8 or mxfp8, not ") + name);
  }
  training = training_of(Precision::mxfp8);
  training.fp8_attention = true;
  CHECK(mistakes(model, training).empty());
  training.flash_attention = false;
  CHECK(mistakes(model, training) == "training.fp8_attention = true: needs training.flash_attention = true");
}
