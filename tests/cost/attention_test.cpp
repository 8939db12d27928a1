#include "sim/cost/attention.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "tests/support/operators.hpp"

using namespace tracecast;
using tracecast::test::llama70b_attention;

namespace {

constexpr GpuPeak kGpu{1000e12, 4e12, 100};

AttentionModel half_of_peak() {
  return {
      .head_dim = 128, .forward_efficiency = 0.5, .forward_s0 = 1000, .backward_efficiency = 0.4, .backward_s0 = 2000};
}

}  // namespace

TEST_CASE("attention: FLOPs of Llama-3 70B at tp 8", "[oracle][cost]") {
  // Llama-3 70B on 8 tensor ranks: full 2.748779e11, causal half of it, backward 2.5 times.
  CHECK(attention_flops(llama70b_attention(false), false) == Approx(2.748779e11).epsilon(1e-6));
  CHECK(attention_flops(llama70b_attention(true), false) == Approx(1.374390e11).epsilon(1e-6));
  CHECK(attention_flops(llama70b_attention(false), true) == Approx(6.871948e11).epsilon(1e-6));
}

TEST_CASE("attention: eff(s) = e s / (s + s0) by direction", "[oracle][cost]") {
  const AttentionModel model = half_of_peak();
  const double forward = 2.748779069e11 / (1000e12 * 0.5 * 8192 / 9192);
  const double backward = 2.5 * 2.748779069e11 / (1000e12 * 0.4 * 8192 / 10192);
  CHECK(attention_seconds(model, kGpu, llama70b_attention(false), false) == Approx(forward).epsilon(1e-6));
  CHECK(attention_seconds(model, kGpu, llama70b_attention(false), true) == Approx(backward).epsilon(1e-6));
}

TEST_CASE("attention: long kernels lose clock to the power limit above the knee only", "[oracle][cost]") {
  AttentionModel model = half_of_peak();
  const double forward = attention_seconds(model, kGpu, llama70b_attention(false), false);
  const double backward = attention_seconds(model, kGpu, llama70b_attention(false), true);
  // The backward pass has 2.5 times the FLOPs of the forward one, which is the knee.
  model.power_knee = attention_flops(llama70b_attention(false), false);
  model.power_exponent = 0.1;
  CHECK(attention_seconds(model, kGpu, llama70b_attention(false), false) == forward);
  CHECK(attention_seconds(model, kGpu, llama70b_attention(false), true) ==
        Approx(backward * std::pow(2.5, 0.1)).epsilon(1e-9));
}

TEST_CASE("attention: with few heads the longest thread block decides", "[oracle][cost]") {
  // One head of 512 keys: 4 thread blocks for 100 SMs. The last one multiplies 128 queries by 512 keys on one SM.
  AttentionModel model = half_of_peak();
  model.forward_s0 = 0;
  const AttentionShape shape{.batch = 1,
                             .q_len = 512,
                             .kv_len = 512,
                             .heads = 1,
                             .kv_heads = 1,
                             .qk_dim = 128,
                             .v_dim = 128,
                             .causal = true,
                             .window = 0};
  const double longest = 2.0 * 128 * 512 * 256 / (10e12 * 0.5);
  CHECK(attention_seconds(model, kGpu, shape, false) == Approx(longest));
  // 25 heads fill the GPU with work for half that time: still the longest block. 100 heads do not.
  AttentionShape heads = shape;
  heads.heads = heads.kv_heads = 25;
  CHECK(attention_seconds(model, kGpu, heads, false) == Approx(longest));
  heads.heads = heads.kv_heads = 100;
  CHECK(attention_seconds(model, kGpu, heads, false) > 1.9 * longest);
}

TEST_CASE("attention: a window bounds the keys of a query", "[cost]") {
  AttentionShape shape = llama70b_attention(true);
  const double whole = attention_flops(shape, false);
  shape.window = 1024;  // 1024 keys per query, fewer of the first 1024, instead of 4096 on average
  CHECK(attention_flops(shape, false) == Approx(whole * (1024 - 64) / 4096));
  shape.window = 4096;
  CHECK(attention_flops(shape, false) == Approx(whole * 3 / 4));
  shape.window = 1 << 20;
  CHECK(attention_flops(shape, false) == whole);
}

TEST_CASE("attention: the model of the nearest head size, mask and kernel is taken", "[cost]") {
  std::vector<AttentionModel> models(4, half_of_peak());
  models[0].kernel = models[1].kernel = models[2].kernel = "cudnn";
  models[3].kernel = "fa2";
  models[1].head_dim = 64;
  models[2].causal = false;
  AttentionShape shape = llama70b_attention(true);
  CHECK(nearest_attention_model(models, "cudnn", shape) == &models[0]);
  CHECK(nearest_attention_model(models, "fa2", shape) == &models[3]);
  CHECK(nearest_attention_model(models, "fa3", shape) == nullptr);
  shape.qk_dim = 80;  // nearer to 64 than to 128 in powers of two
  CHECK(nearest_attention_model(models, "cudnn", shape) == &models[1]);
  shape.causal = false;  // the mask comes before the head size
  CHECK(nearest_attention_model(models, "cudnn", shape) == &models[2]);
}

TEST_CASE("attention: in 8 bits the model of that precision is taken, in 16 bit never", "[cost]") {
  Profile profile;
  profile.attention.assign(4, half_of_peak());
  for (AttentionModel& model : profile.attention) model.kernel = "cudnn";
  profile.attention[3].kernel = "fa2";
  profile.attention[1].precision = Precision::mxfp8;
  profile.attention[1].head_dim = 64;
  profile.attention[2].precision = Precision::fp8;
  const AttentionShape shape = llama70b_attention(true);
  const auto nearest = [&](const std::string& kernel, Precision precision) {
    return nearest_attention_model(profile.attention, kernel, shape, precision) - profile.attention.data();
  };
  CHECK(nearest("cudnn", Precision::bf16) == 0);
  CHECK(nearest("cudnn", Precision::mxfp8) == 1);  // the precision comes before the head size
  CHECK(nearest("cudnn", Precision::fp8) == 2);
  CHECK(nearest("fa2", Precision::fp8) == 3);  // has none: 16 bit
  CHECK(has_attention_in(profile, "", Precision::fp8));
  CHECK(has_attention_in(profile, "cudnn", Precision::mxfp8));
  CHECK_FALSE(has_attention_in(profile, "fa2", Precision::fp8));
}

TEST_CASE("attention: a window saves work, but not backward in 8 bits", "[cost]") {
  AttentionModel model = half_of_peak();
  AttentionShape shape = llama70b_attention(true);
  shape.window = 128;
  CHECK(worked_shape(model, shape, true).window == 128);
  model.precision = Precision::mxfp8;
  CHECK(worked_shape(model, shape, false).window == 128);
  CHECK(worked_shape(model, shape, true).window == 0);
}
