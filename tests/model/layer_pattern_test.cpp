// Models with layers of several kinds: parameters of published checkpoints, FLOPs counted a second time, faults.
#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/model/parameters.hpp"
#include "tests/support/models.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

std::string message(const Model& model) { return error_text(validated(model)); }

/// Mamba-2 alone: 2.7 billion parameters in the paper's series.
Model mamba2_2_7b() {
  Model model = llama(64, 2560, 0, 1, 1, 50288);
  model.layer_pattern = "M";
  model.linear_attention =
      LinearAttention{.heads = 80, .head_dim = 64, .key_heads = 1, .key_dim = 128, .chunk_size = 256};
  model.tied_embeddings = true;
  model.position = Position::none;
  return model;
}

}  // namespace

TEST_CASE("hybrid models have the parameters of their published checkpoints", "[model][hybrid][oracle]") {
  Model qwen = shipped_model("qwen3-next-80b-a3b");
  qwen.mtp_layers = 1;
  CHECK(parameter_count(qwen).total() == 81'324'862'720);  // of the safetensors
  CHECK(parameter_count(shipped_model("nemotron-3-nano-30b-a3b")).total() == 31'577'937'344);
  // Without a published sum to the last digit: 8.1, 56.3 and 49.1 billion by hand, of each kind of layer.
  const auto mamba = [](std::int64_t h, std::int64_t heads, std::int64_t state) {
    const std::int64_t inner = 64 * heads, convolved = inner + 2 * 8 * state;
    return h * (2 * inner + 2 * 8 * state + heads) + 5 * convolved + 3 * heads + inner + inner * h + h;
  };
  const auto attention = [](std::int64_t h, std::int64_t heads) { return h * 128 * (2 * heads + 2 * 8) + h; };
  const auto mlp = [](std::int64_t h, std::int64_t f) { return 2 * h * f + h; };
  CHECK(parameter_count(shipped_model("nemotron-h-8b")).total() ==
        2LL * 131072 * 4096 + 4096 + 24 * mamba(4096, 128, 128) + 4 * attention(4096, 32) + 24 * mlp(4096, 21504));
  CHECK(parameter_count(shipped_model("nemotron-h-56b")).total() ==
        2LL * 131072 * 8192 + 8192 + 54 * mamba(8192, 256, 256) + 10 * attention(8192, 64) + 54 * mlp(8192, 32768));
  const std::int64_t h = 2304, p = 32 * 128;
  const std::int64_t kimi_delta = 3 * h * p + 3 * p * 4 + 32 + 2 * (h * 128 + 128 * p) + p + h * 32 + 128 + p * h;
  const std::int64_t latent = h * 32 * 192 + h * (512 + 64) + 512 + 512 * 32 * 256 + 32 * 128 * h;
  const std::int64_t experts = h * 256 + 256 + 257 * 3 * h * 1024;
  CHECK(parameter_count(shipped_model("kimi-linear-48b-a3b")).total() ==
        2LL * 163840 * h + h + 20 * kimi_delta + 7 * latent + 27 * 2 * h + 26 * experts + 3 * h * 9216);
  // 3.0 billion active parameters without the embedding.
  const Model kimi = shipped_model("kimi-linear-48b-a3b");
  CHECK(static_cast<double>(active_parameters(kimi)) * 1e-9 == Approx(3.4).margin(0.1));
}

TEST_CASE("a pure Mamba-2 model has one block per layer", "[model][hybrid][oracle]") {
  const Model model = validated(mamba2_2_7b()).value();
  const std::int64_t inner = 5120, convolved = inner + 2 * 128;
  const std::int64_t layer = 2560 * (2 * inner + 2 * 128 + 80) + 5 * convolved + 3 * 80 + inner + inner * 2560 + 2560;
  CHECK(parameter_count(model).total() == 64 * layer + 50288LL * 2560 + 2560);
  CHECK(static_cast<double>(parameter_count(model).total()) * 1e-9 == Approx(2.7).epsilon(0.01));
  CHECK_FALSE(model.has_feed_forward(0));
  CHECK(layer_norms(model, 0) == 1);
}

TEST_CASE("FLOPs of a hybrid model, counted by Megatron-LM's formulas", "[model][hybrid][oracle]") {
  const double s = 8192;
  // megatron/training: Mamba, attention with half the keys, MLP or experts, output; three times the forward.
  const auto mamba = [](double h, double inner, double groups, double state, double heads) {
    return 2 * h * (2 * inner + 2 * groups * state + heads) + 7 * inner * state + 2 * inner * h;
  };
  const auto attention = [&](double h, double heads, double groups, double keys) {
    const double p = 128 * heads / h;
    return 4 * h * p * (h + h * groups / heads + keys);
  };
  const auto nano = shipped_model("nemotron-3-nano-30b-a3b");
  const double experts = 4 * 2688.0 * (6 * 1856 + 3712) + 2 * 2688.0 * 128;  // Megatron-LM leaves the router out
  const auto whole = [&](double keys) {
    return 3 *
           (23 * mamba(2688, 4096, 8, 128, 64) + 23 * experts + 6 * attention(2688, 32, 2, keys) + 2 * 2688.0 * 131072);
  };
  CHECK(model_flops_per_token(nano, 8192, FlopsConvention::model_causal) == Approx(whole(s / 2)).epsilon(1e-12));
  CHECK(model_flops_per_token(nano, 8192, FlopsConvention::model_full_attn) == Approx(whole(s)).epsilon(1e-12));
  // Gated delta net: without the convolution that Megatron-LM adds, 0.1 %.
  const auto qwen = shipped_model("qwen3-next-80b-a3b");
  const double h = 2048, keys = 16 * 128, values = 32 * 128;
  const double delta = 2 * (h * (2 * keys + 2 * values + 64) + 32 * 128.0 * 128 * 4 + h * values);
  const double gated = 2 * (h * (2 * 4096 + 2 * 512) + 4096 * h) + 4 * s / 2 * 4096;
  const double moe = 2 * (h * 512 + 11 * 3 * h * 512 + h);
  CHECK(model_flops_per_token(qwen, 8192, FlopsConvention::model_causal) ==
        Approx(3 * (36 * delta + 12 * gated + 48 * moe + 2 * h * 151936)).epsilon(1e-12));
}

TEST_CASE("layer patterns: letters say what a layer is", "[model][hybrid]") {
  const Model nano = shipped_model("nemotron-3-nano-30b-a3b");
  CHECK(nano.mixer(0) == Mixer::mamba2);
  CHECK(nano.mixer(1) == Mixer::none);
  CHECK(nano.is_moe_layer(1));
  CHECK_FALSE(nano.is_moe_layer(0));
  CHECK(nano.mixer(5) == Mixer::attention);
  CHECK_FALSE(nano.has_feed_forward(5));
  CHECK(layer_norms(nano, 5) == 1);
  const Model qwen = shipped_model("qwen3-next-80b-a3b");
  CHECK(qwen.mixer(46) == Mixer::gated_delta_net);
  CHECK(qwen.mixer(47) == Mixer::attention);
  CHECK(qwen.mixer(48) == Mixer::attention);  // a prediction layer is like the last one
  CHECK(qwen.is_moe_layer(46));
  CHECK(layer_norms(qwen, 46) == 2);
  CHECK(shipped_model("kimi-linear-48b-a3b").mixer(26) == Mixer::attention);
  const Model llama = llama3_8b();
  CHECK(llama.mixer(3) == Mixer::attention);
  CHECK(llama.has_feed_forward(3));
}

TEST_CASE("layer patterns: what cannot be is said in a sentence", "[model][hybrid][error]") {
  const auto changed = [](const std::string& name, auto change) {
    Model model = shipped_model(name);
    change(model);
    return message(model);
  };
  const auto qwen = [&](auto change) { return changed("qwen3-next-80b-a3b", change); };
  CHECK(qwen([](Model& m) { m.layer_pattern = "GGX"; }) ==
        "model.layer_pattern = GGX: has other letters than * M G K - E");
  CHECK(qwen([](Model& m) { m.layer_pattern = "GM*"; }) ==
        "model.layer_pattern = GM*: has more than one of M, G and K");
  CHECK(qwen([](Model& m) { m.linear_attention.reset(); }) ==
        "model.layer_pattern = GGG*: needs model.linear_attention");
  CHECK(qwen([](Model& m) { m.layer_pattern = ""; }) ==
        "model.linear_attention: needs layers of M, G or K in model.layer_pattern");
  CHECK(qwen([](Model& m) { m.linear_attention->key_heads = 12; }) ==
        "model.linear_attention.key_heads = 12: does not divide model.linear_attention.heads = 32");
  CHECK(qwen([](Model& m) {
          m.linear_attention->heads = 0;
          m.linear_attention->key_heads = 1;
        }) == "model.linear_attention.heads = 0: must be between 1 and 16384");
  CHECK(qwen([](Model& m) { m.num_layers = 3; }) ==
        "model.layer_pattern = GGG*: has 4 letters for model.num_layers = 3");
  CHECK(qwen([](Model& m) { m.parallel_residual = true; }) ==
        "model.layer_pattern = GGG*: cannot be combined with model.parallel_residual");
  CHECK(qwen([](Model& m) {
          m.layer_pattern = "G*E";
          m.moe.reset();
        }) == "model.layer_pattern = G*E: needs model.moe");
  CHECK(qwen([](Model& m) {
          m.layer_pattern = "G*-";
          m.ffn_hidden_size = 0;
        }) == "model.layer_pattern = G*-: needs model.ffn_hidden_size");
  CHECK(qwen([](Model& m) {
          m.layer_pattern = "G*E";
          m.mtp_layers = 1;
        }) == "model.layer_pattern = G*E: has single blocks, without prediction layers (mtp_layers: 0)");
  CHECK(qwen([](Model& m) {
          m.layer_pattern = "G*E";
          m.moe->layer_interval = 2;
        }) == "model.layer_pattern = G*E: names the layers with experts itself (allowed: no other rule in model.moe)");
  CHECK(changed("deepseek-v3.2", [](Model& m) { m.latent_attention->q_rank = 0; }) ==
        "model.sparse_attention: needs model.latent_attention with a q_rank, which the indexer reads");
  CHECK(changed("deepseek-v3.2", [](Model& m) { m.sparse_attention->topk = 0; }) ==
        "model.sparse_attention.topk = 0: must be between 1 and 1073741824");
  CHECK(changed("kimi-linear-48b-a3b", [](Model& m) { m.attention_output_gate = true; }) ==
        "model.attention_output_gate = true: is not for latent attention and encoder-decoder models");
}
