#include "sim/model/model.hpp"

#include <catch2/catch.hpp>

#include "tests/support/models.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

std::int64_t parameters(const Model& model) { return parameter_count(model).total(); }

std::string message(const Model& model) { return error_text(validated(model)); }

}  // namespace

TEST_CASE("parameter counts are exact", "[oracle][model]") {
  CHECK(parameters(llama(32, 4096, 11008, 32, 32, 32000)) == 6'738'415'616);
  CHECK(parameters(llama(40, 5120, 13824, 40, 40, 32000)) == 13'015'864'320);
  CHECK(parameters(llama(80, 8192, 28672, 64, 8, 32000)) == 68'976'648'192);
  CHECK(parameters(llama3_8b()) == 8'030'261'248);
  CHECK(parameters(llama3_70b()) == 70'553'706'496);
  CHECK(parameters(llama3_405b()) == 405'853'388'800);
  CHECK(parameters(gpt(96, 12288, 96, 50257, 2048)) == 174'604'259'328);
  CHECK(parameters(gpt(48, 1600, 25, 50257, 1024)) == 1'557'611'200);
  CHECK(parameters(gpt(12, 768, 12, 50257, 1024)) == 124'439'808);
  CHECK(parameters(gpt(40, 5120, 40, 50570, 2048)) == 12'854'988'800);
  CHECK(parameters(mixtral_8x7b()) == 46'702'792'704);
  CHECK(active_parameters(mixtral_8x7b()) == 12'879'925'248);
  CHECK(active_parameters(llama3_8b()) == parameters(llama3_8b()));
}

TEST_CASE("the table of Megatron SC21, in units of 10^7 as printed", "[oracle][model]") {
  struct Row {
    std::int64_t hidden;
    int layers;
    int heads;
    std::int64_t published;
  };
  // 12 L h^2 (1 + 13/(12h) + (V+s)/(12Lh)) leaves out the final norm, 2h, which these digits do not show.
  const auto row =
      GENERATE(Row{2304, 24, 24, 165}, Row{3072, 30, 32, 356}, Row{4096, 36, 32, 747}, Row{6144, 40, 48, 1845},
               Row{8192, 48, 64, 3910}, Row{10240, 60, 80, 7605}, Row{12288, 80, 96, 14562}, Row{16384, 96, 128, 31013},
               Row{20480, 105, 128, 52960}, Row{25600, 128, 160, 100804});
  const std::int64_t count = parameters(gpt(row.layers, row.hidden, row.heads, 51200, 2048));
  CHECK((count + 5'000'000) / 10'000'000 == row.published);
}

TEST_CASE("DeepSeek-V3: latent attention, shared expert and router biases are counted", "[oracle][model]") {
  const Model model = deepseek_v3();
  CHECK(parameters(model) == 671'026'419'200);
  // Per layer h q + q + q a(n+r) + h(c+r) + c + c a(n+v) + a v h; the two inner norms (q + c) count as norms.
  const std::int64_t attention = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168;
  CHECK(parameter_count(model).attention == 61 * attention);
  CHECK(parameter_count(model).norms == 61 * (2 * 7168 + 1536 + 512) + 7168);
  CHECK(parameter_count(model).router == 58 * (7168 + 1) * 256);
  Model predicting = model;
  predicting.mtp_layers = 1;
  // One more MoE layer, 2h x h projection and three norms; the tables are shared.
  CHECK(parameters(predicting) - parameters(model) == layer_parameters(model, 60) + 2 * 7168 * 7168 + 3 * 7168);
  // 37 billion active parameters as published.
  CHECK(active_parameters(model) == parameters(model) - 58LL * 248 * 3 * 7168 * 2048);
}

TEST_CASE("GPT-OSS 20B: sinks, biases in experts and router", "[oracle][model]") {
  CHECK(parameters(gpt_oss(24, 32)) == 20'914'757'184);
}

TEST_CASE("a layer's parameters sum up to the model's", "[property][model]") {
  const Model model = GENERATE(llama3_8b(), mixtral_8x7b(), deepseek_v3(), gpt(12, 768, 12, 50257, 1024));
  const ParameterCount count = parameter_count(model);
  const std::int64_t final_norm = model.hidden_size * (model.norm_bias ? 2 : 1);
  std::int64_t sum = count.embedding + count.output + final_norm;
  for (int layer = 0; layer < model.num_layers; ++layer) sum += layer_parameters(model, layer);
  CHECK(sum == count.total());
}

TEST_CASE("an encoder-decoder has cross-attention in the decoder", "[oracle][model]") {
  // A small translation model: embedding 512, six blocks each, eight heads, expansion 1.
  Model model = llama(6, 512, 512, 8, 8, 10000);
  model.activation = Activation::relu;
  model.norm_bias = model.mlp_bias = model.qkv_bias = model.attention_output_bias = true;
  model.position = Position::none;
  model.encoder_layers = 6;
  const std::int64_t attention = 4 * (512 * 512 + 512);
  const std::int64_t mlp = 2 * (512 * 512 + 512);
  const std::int64_t norm = 2 * 512;
  const std::int64_t encoder_layer = attention + mlp + 2 * norm;
  const std::int64_t decoder_layer = 2 * attention + mlp + 3 * norm;
  CHECK(layer_parameters(model, 0) == encoder_layer);
  CHECK(layer_parameters(model, 6) == decoder_layer);
  CHECK(parameters(model) == 6 * (encoder_layer + decoder_layer) + 2 * norm + 2 * 10000 * 512);
  // Forward, per target token, s = 10: two multiplications per weight, 4 s h per attention; cross-attention is not masked.
  const double linear = 6.0 * (6 * 512 * 512 + 10 * 512 * 512) + 10000 * 512;
  const double scores = 6.0 * 3 * 4 * 10 * 512;
  CHECK(model_flops_per_token(model, 10, FlopsConvention::model_full_attn) == 3 * (2 * linear + scores));
  const double masked = 6.0 * 2.5 * 4 * 10 * 512;
  CHECK(model_flops_per_token(model, 10, FlopsConvention::model_causal) == 3 * (2 * linear + masked));
}

TEST_CASE("MoE layers start after the dense ones, every n-th", "[model]") {
  Model model = mixtral_8x7b();
  model.moe->leading_dense_layers = 2;
  model.moe->layer_interval = 2;
  CHECK_FALSE(model.is_moe_layer(1));
  CHECK_FALSE(model.is_moe_layer(2));
  CHECK(model.is_moe_layer(3));
  CHECK_FALSE(model.is_moe_layer(4));
  CHECK_FALSE(llama3_8b().is_moe_layer(5));
}

TEST_CASE("training FLOPs per token at s = 8192", "[oracle][model]") {
  const auto flops = [](const Model& model, FlopsConvention convention) {
    return model_flops_per_token(model, 8192, convention);
  };
  CHECK(flops(llama3_8b(), FlopsConvention::model_causal) == Approx(5.147040e10).epsilon(1e-6));
  CHECK(flops(llama3_8b(), FlopsConvention::model_full_attn) == Approx(5.791285e10).epsilon(1e-6));
  CHECK(flops(llama3_70b(), FlopsConvention::model_causal) == Approx(4.492225e11).epsilon(1e-6));
  CHECK(flops(llama3_70b(), FlopsConvention::model_full_attn) == Approx(4.814348e11).epsilon(1e-6));
  CHECK(flops(llama3_405b(), FlopsConvention::model_causal) == Approx(2.523956e12).epsilon(1e-6));
  CHECK(flops(llama3_405b(), FlopsConvention::model_full_attn) == Approx(2.625425e12).epsilon(1e-6));
}

TEST_CASE("MFU of Korthikanti's table 5 from the model FLOPs", "[oracle][model]") {
  struct Row {
    int layers;
    std::int64_t hidden;
    int heads;
    int gpus;
    int batch;
    double seconds;
    double mfu;
  };
  const auto row = GENERATE(Row{48, 6144, 64, 8, 4, 1.10, 41.7}, Row{96, 12288, 96, 64, 64, 13.75, 51.4},
                            Row{105, 20480, 128, 280, 280, 37.83, 56.0}, Row{128, 25600, 160, 512, 512, 71.49, 56.3});
  const Model model = gpt(row.layers, row.hidden, row.heads, 51200, 2048);
  const double step = model_flops_per_token(model, 2048, FlopsConvention::model_full_attn) * 2048 * row.batch;
  CHECK(step / (row.seconds * row.gpus * 312e12) * 100 == Approx(row.mfu).margin(0.05));
}

TEST_CASE("MoE counts active experts, router and shared expert; windows cap the attended keys", "[oracle][model]") {
  // Rows of scenarios/runs/published.csv: Megatron-Bridge GPT-OSS-120B at s = 4096, 13045 tokens/s/GPU.
  const Model model = gpt_oss(36, 128);
  CHECK(13045 * model_flops_per_token(model, 4096, FlopsConvention::model_full_attn) ==
        Approx(450.36e12).epsilon(1e-5));
  // The table counts 128 keys in a window, which the first 128 tokens do not have: the mean is 126.
  const double table = 2 * 3 * 18 * 2.0 * (2 * 64 * 64);
  CHECK(13045 * (model_flops_per_token(model, 4096, FlopsConvention::model_causal) + table) ==
        Approx(426.73e12).margin(0.005e12));

  Model shared = mixtral_8x7b();
  const double before = model_flops_per_token(shared, 4096, FlopsConvention::model_causal);
  shared.moe->shared_ffn_hidden = 1024;
  CHECK(model_flops_per_token(shared, 4096, FlopsConvention::model_causal) - before == 3.0 * 32 * 2 * 3 * 4096 * 1024);

  Model predicting = deepseek_v3();
  const double plain = model_flops_per_token(predicting, 4096, FlopsConvention::model_causal);
  predicting.mtp_layers = 1;
  const double scores = 2 * 2048.0 * 128 * (192 + 128);
  const double weights = 7168.0 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168 +
                         7168.0 * 256 + 3.0 * 7168 * 2048 * 9 + 2.0 * 7168 * 7168 + 7168.0 * 129280;
  CHECK(model_flops_per_token(predicting, 4096, FlopsConvention::model_causal) - plain ==
        Approx(3 * (2 * weights + scores)).epsilon(1e-12));
}

TEST_CASE("prediction layers are of the last layer's kind", "[model]") {
  Model model = mixtral_8x7b();
  model.num_layers = 4;
  model.moe->layer_interval = 2;  // layers 1 and 3 have experts
  CHECK(model.is_moe_layer(4));
  model.sliding_window = 128;
  model.global_layer_interval = 2;
  CHECK(model.window(4) == 0);
  model.global_layer_interval = 3;
  CHECK(model.window(5) == 128);
}

TEST_CASE("chunks of the sequence have half of a chunk to attend to, whatever its length", "[oracle][model]") {
  Model model = llama(1, 4096, 14336, 32, 8, 32000);
  const auto attention = [&](std::int64_t length) {
    return layer_forward_flops(model, 0, length, FlopsConvention::model_causal).attention;
  };
  const double in_chunk = attention(8192);
  model.sliding_window = 8192;
  CHECK(attention(32768) == Approx(in_chunk * 1.75));
  model.chunked_attention = true;
  CHECK(attention(32768) == Approx(in_chunk));
  CHECK(attention(4096) == Approx(in_chunk / 2));
}

TEST_CASE("what follows from the rest is filled in", "[model]") {
  Model model = llama3_8b();
  model.head_dim = 0;
  model.num_query_groups = 0;
  const auto result = validated(model);
  REQUIRE(result);
  CHECK(result->head_dim == 128);
  CHECK(result->num_query_groups == 32);
  CHECK(validated(deepseek_v3()).has_value());
}

TEST_CASE("impossible models are rejected, all errors together", "[error][model]") {
  Model model = llama3_8b();
  CHECK(message(model) == "");
  model.num_query_groups = 7;
  CHECK(message(model) == "model.num_query_groups = 7: does not divide model.num_attention_heads = 32");
  model = llama3_8b();
  model.num_layers = 0;
  model.hidden_size = -4;
  CHECK(message(model) ==
        "model.num_layers = 0: must be between 1 and 4096\nmodel.hidden_size = -4: must be between 1 and 262144");
  model = llama3_8b();
  model.head_dim = 0;
  model.num_attention_heads = 30;
  model.num_query_groups = 0;
  CHECK(message(model) ==
        "model.num_attention_heads = 30: does not divide model.hidden_size = 4096, and model.head_dim is not given");
  model = llama3_8b();
  model.dropout = 1.5;
  CHECK(message(model) == "model.dropout = 1.5: must be between 0 and 1");
  model = mixtral_8x7b();
  model.moe->topk = 9;
  CHECK(message(model) == "model.moe.topk = 9: must be between 1 and 8");
  model = mixtral_8x7b();
  model.ffn_hidden_size = 0;
  CHECK(message(model) == "");
  model.moe->leading_dense_layers = 1;
  CHECK(message(model) == "model.ffn_hidden_size = 0: is needed by the layers without experts");
  model = deepseek_v3();
  model.moe->routing_groups = 7;
  CHECK(message(model) == "model.moe.routing_groups = 7: does not divide model.moe.experts = 256");
  model = deepseek_v3();
  model.latent_attention->kv_rank = 0;
  CHECK(message(model) == "model.latent_attention.kv_rank = 0: must be between 1 and 262144");
  model = mixtral_8x7b();
  model.encoder_layers = 2;
  CHECK(message(model) == "model.moe: cannot be combined with model.encoder_layers");
  model = gpt(12, 768, 12, 50257, 0);
  CHECK(message(model) == "model.max_position_embeddings = 0: must be between 1 and 1073741824");
}
