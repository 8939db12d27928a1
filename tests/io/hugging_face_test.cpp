#include "sim/io/hugging_face.hpp"

#include <filesystem>
#include <map>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "tests/support/models.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

const fs::path kSamples = measurements_of_others() / "formats/hf-config";

std::optional<Model> read(const std::string& text, std::string* complaint = nullptr) {
  const JsonDocument document = parse_json(text, "config.json").value();
  std::vector<Diagnostic> errors;
  auto model = read_model(document.root, document.file, "", errors);
  if (complaint != nullptr) *complaint = model ? "accepted" : to_string(in_file_order(std::move(errors)));
  return model;
}

std::string complaint(const std::string& text) {
  std::string message;
  read(text, &message);
  return message;
}

const std::string kSizes =
    R"("hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100, "intermediate_size": 256)";

std::string config(const std::string& model_type, const std::string& more = "") {
  return "{\"model_type\": \"" + model_type + "\", " + kSizes + (more.empty() ? "" : ",\n" + more) + "}";
}

}  // namespace

// Sizes of the published config.json; counts as the model cards and safetensors indices give them, or worked out beside them.
TEST_CASE("hugging face: families of 2024 to 2026 have their exact parameter counts", "[io][model][oracle]") {
  const auto count = [](const std::string& text) {
    std::string message;
    const auto model = read(text, &message);
    INFO(message);
    REQUIRE(model);
    return parameter_count(*model).total();
  };
  // Phi-3-mini-4k-instruct
  CHECK(count(R"({"model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 32, "intermediate_size": 8192, "vocab_size": 32064, "hidden_act": "silu", "sliding_window": 2047,
    "tie_word_embeddings": false})") == 3'821'079'552);
  // Phi-4
  CHECK(count(R"({"model_type": "phi3", "hidden_size": 5120, "num_attention_heads": 40, "num_hidden_layers": 40,
    "num_key_value_heads": 10, "intermediate_size": 17920, "vocab_size": 100352, "hidden_act": "silu", "sliding_window": null,
    "tie_word_embeddings": false})") == 14'659'507'200);
  // Gemma 7B
  CHECK(count(R"({"model_type": "gemma", "hidden_size": 3072, "num_attention_heads": 16, "num_hidden_layers": 28,
    "num_key_value_heads": 16, "head_dim": 256, "intermediate_size": 24576, "vocab_size": 256000, "hidden_act": "gelu"})") ==
        8'537'680'896);
  // Llama 4 Scout, its language model: 48 layers of 16 experts and a shared one.
  // 2 x 202048 x 5120 + 48 (2 x 5120^2 + 2 x 5120 x 1024 + 5120 x 16 + 17 x 3 x 5120 x 8192 + 2 x 5120) + 5120
  CHECK(count(R"({"model_type": "llama4_text", "hidden_size": 5120, "num_attention_heads": 40, "num_hidden_layers": 48,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
    "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "attention_chunk_size": 8192,
    "no_rope_layer_interval": 4, "vocab_size": 202048, "hidden_act": "silu"})") == 107'769'861'120);
  // GLM-4.5-Air without its prediction layer: 46 layers, the first dense, 128 experts and a shared one; biases of q, k and v.
  // 2 x 151552 x 4096 + 46 (4096 (12288 + 2048) + 12288 + 2048 + 12288 x 4096 + 2 x 4096) + 3 x 4096 x 10944
  //   + 45 (4096 x 128 + 128 + 129 x 3 x 4096 x 1408) + 4096
  CHECK(count(R"({"model_type": "glm4_moe", "hidden_size": 4096, "num_attention_heads": 96, "num_hidden_layers": 46,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 10944, "moe_intermediate_size": 1408,
    "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1, "n_group": 1,
    "topk_group": 1, "attention_bias": true, "use_qk_norm": false, "vocab_size": 151552, "hidden_act": "silu"})") ==
        2LL * 151552 * 4096 + 46LL * (4096LL * 14336 + 14336 + 12288LL * 4096 + 8192) + 3LL * 4096 * 10944 +
            45LL * (4096 * 128 + 128 + 129LL * 3 * 4096 * 1408) + 4096);
  // Nemotron-4 15B: LayerNorm with bias, two matrices of the MLP.
  // 2 x 256000 x 6144 + 32 (6144 (6144 + 2048) + 6144^2 + 2 x 6144 x 24576 + 4 x 6144) + 2 x 6144
  CHECK(count(R"({"model_type": "nemotron", "hidden_size": 6144, "num_attention_heads": 48, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 24576, "vocab_size": 256000, "hidden_act": "relu2"})") ==
        2LL * 256000 * 6144 + 32LL * (6144LL * 8192 + 6144LL * 6144 + 2LL * 6144 * 24576 + 4 * 6144) + 2 * 6144);
}

TEST_CASE("hugging face: hybrid models", "[io][model][hybrid][oracle]") {
  const auto same = [](const std::string& text, const std::string& name) {
    std::string message;
    std::optional<Model> model = read(text, &message);
    INFO(message);
    REQUIRE(model);
    Model shipped = shipped_model(name);
    CHECK(parameter_count(*model).total() == parameter_count(shipped).total());
    CHECK(model->linear_attention == shipped.linear_attention);
    for (int layer = 0; layer < shipped.num_layers; ++layer) CHECK(model->letter(layer) == shipped.letter(layer));
    CHECK(model_flops_per_token(*model, 4096, FlopsConvention::model_causal) ==
          model_flops_per_token(shipped, 4096, FlopsConvention::model_causal));
  };
  const std::string qwen =
      R"({"model_type": "qwen3_next", "decoder_sparse_step": 1, "head_dim": 256, "hidden_act": "silu",
    "hidden_size": 2048, "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128, "mlp_only_layers": [],
    "moe_intermediate_size": 512, "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10,
    "num_hidden_layers": 48, "num_key_value_heads": 2, "shared_expert_intermediate_size": 512, "tie_word_embeddings": false,
    "vocab_size": 151936, )";
  same(qwen + R"("full_attention_interval": 4})", "qwen3-next-80b-a3b");
  // Every 48th of 48 layers is the last one; every 49th is none, and no layer would have attention.
  const Model one = *read(qwen + R"("full_attention_interval": 48})");
  CHECK(one.letter(46) == 'G');
  CHECK(one.letter(47) == '*');
  CHECK(complaint(qwen + "\n\"full_attention_interval\": 49}").find("is out of range") != std::string::npos);
  CHECK(complaint(qwen + "\n\"full_attention_interval\": 99}") ==
        "config.json:7: full_attention_interval = 99: is out of range (allowed: 2 to num_hidden_layers)");
  const std::string deepseek = R"({"model_type": "deepseek_v32", "hidden_size": 7168, "num_attention_heads": 128,
    "num_key_value_heads": 128, "num_hidden_layers": 61, "vocab_size": 129280, "intermediate_size": 18432, "hidden_act": "silu",
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1,
    "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4, "topk_method": "noaux_tc", "index_topk": 2048,
    "index_n_heads": 64)";
  same(deepseek + ", \"index_head_dim\": 128}", "deepseek-v3.2");
  CHECK(complaint(deepseek + "}") == "config.json:1: index_head_dim: is missing");
  // Qwen3.5-27B: 27,781,427,952 parameters with its prediction layer (424,699,392) and 460,730,096 of the vision tower.
  const std::string dense =
      R"({"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text", "hidden_size": 5120,
    "num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "hidden_act": "silu",
    "intermediate_size": 17408, "vocab_size": 248320, "linear_num_value_heads": 48, "linear_num_key_heads": 16,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "full_attention_interval": 4}})";
  Model qwen27 = read(dense).value();
  CHECK(parameter_count(qwen27).total() == 26'895'998'464);
  qwen27.mtp_layers = 1;
  CHECK(parameter_count(qwen27).total() == 27'781'427'952 - 460'730'096);
  const std::string nano = R"({"model_type": "nemotron_h", "hidden_size": 2688, "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "num_hidden_layers": 52, "vocab_size": 131072, "intermediate_size": 1856,
    "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "chunk_size": 128,
    "use_bias": false, "use_conv_bias": true, "attention_bias": false, "mlp_bias": false, "mlp_hidden_act": "relu2",
    "n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712, "n_group": 1, "topk_group": 1, )";
  same(nano + R"("moe_latent_size": null,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"})",
       "nemotron-3-nano-30b-a3b");
  CHECK(complaint(nano + "\n\"moe_latent_size\": 1024, \"hybrid_override_pattern\": \"ME\"}") ==
        "config.json:7: hybrid_override_pattern = \"ME\": has 2 layers, the model 52\n"
        "config.json:7: moe_latent_size = 1024: is not supported: experts on latent vectors are not modelled (allowed: "
        "null)");
  CHECK(complaint(nano + "\n\"layers_block_type\": [\"mamba\", \"attention\", \"rwkv\"]}")
            .starts_with("config.json:7: layers_block_type"));
  const std::string kimi = R"({"model_type": "kimi_linear", "hidden_size": 2304, "num_attention_heads": 32,
    "num_key_value_heads": 32, "num_hidden_layers": 27, "vocab_size": 163840, "intermediate_size": 9216, "hidden_act": "silu",
    "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "mla_use_nope": true, "num_experts": 256, "num_experts_per_token": 8, "moe_intermediate_size": 1024,
    "num_shared_experts": 1, "first_k_dense_replace": 1, "moe_layer_freq": 1, "linear_attn_config": {"num_heads": 32,
    "head_dim": 128, "short_conv_kernel_size": 4, "full_attn_layers": [4, 8, 12, 16, 20, 24, 27]})";
  same(kimi + "}", "kimi-linear-48b-a3b");
  CHECK(complaint(kimi + ",\n\"mla_use_output_gate\": true}") ==
        "config.json:7: mla_use_output_gate = true: is not modelled (allowed: false)");
  const auto kimi_with = [&](const std::string& key, const std::string& value) {
    const std::size_t at = kimi.find("\"" + key + "\": ") + key.size() + 4;
    return complaint(kimi.substr(0, at) + value + kimi.substr(kimi.find_first_of(",]", at)) + "}");
  };
  CHECK(kimi_with("full_attn_layers", "[28").find("allowed: 1 to num_hidden_layers") != std::string::npos);
  CHECK(kimi_with("num_shared_experts", "1025") ==
        "config.json:5: num_shared_experts = 1025: is out of range (allowed: 0 to 1024)");
  // A pattern of so many layers is not made.
  std::string many = kimi + "}";
  many.replace(many.find("27]"), 2, "4000000").replace(many.find(" 27,"), 3, " 4000000");
  CHECK(complaint(many).ends_with("config.json:2: num_hidden_layers = 4000000: must be between 1 and 4096"));
  CHECK(complaint(qwen + "\n\"layer_types\": [\"linear_attention\", \"sliding_attention\"]}") ==
        "config.json:7: layer_types = [2 items]: has other layers (allowed: full_attention linear_attention)");
}

TEST_CASE("hugging face: layers by lists of words, flags and numbers", "[io][model]") {
  const auto with = [](const std::string& family, const std::string& more) {
    return read(
        config(family, R"("num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 512, )" + more));
  };
  // Transformers' default of gpt_oss: every second layer attends to everything.
  CHECK(with("gpt_oss", R"("sliding_window": 16)")->global_layer_interval == 2);
  CHECK(with("gpt_oss", R"("sliding_window": 16, "layer_types": ["full_attention", "full_attention"])")
            ->global_layer_interval == 1);
  const std::string llama4 = R"("attention_chunk_size": 16, "interleave_moe_layer_step": 1)";
  CHECK(with("llama4_text", llama4)->global_layer_interval == 4);
  CHECK(with("llama4_text", llama4 + R"(, "no_rope_layers": [])")->global_layer_interval == 4);
  CHECK(with("llama4_text", llama4 + R"(, "no_rope_layers": [1, 0])")->global_layer_interval == 2);
  CHECK(with("llama4_text", llama4 + R"(, "layer_types": ["chunked_attention", "chunked_attention"])")
            ->global_layer_interval == 0);
  CHECK(with("llama4_text", llama4)->chunked_attention);
  CHECK_FALSE(with("gpt_oss", R"("sliding_window": 16)")->chunked_attention);
  CHECK(with("llama4_text", llama4)->moe->layer_interval == 1);
  CHECK(with("llama4_text", llama4 + R"(, "moe_layers": [1])")->moe->layer_interval == 2);
  CHECK(
      complaint(config("llama4_text", R"("num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 512,
      "moe_layers": [0])")) ==
      "config.json:3: moe_layers = [1 item]: is not supported (allowed: experts in every n-th layer)");
}

TEST_CASE("hugging face: what is not modelled of a known family is named", "[io][model][error]") {
  for (const auto& [family, part] :
       {std::pair("gemma3_text", "norms after attention and MLP besides those before"),
        std::pair("glm_moe_dsa", "indexers that choose the keys of each query"),
        std::pair("minimax", "layers of linear attention"), std::pair("bamba", "layers of Mamba"),
        std::pair("olmo2", "norms over all heads of query and key together")})
    CHECK(complaint(config(family))
              .starts_with("config.json:1: model_type = \"" + std::string(family) + "\": has " + part +
                           ", which are not modelled (allowed: baichuan "));
}

TEST_CASE("hugging face: the published configs have their exact parameter counts", "[io][model][oracle]") {
  if (!fs::exists(kSamples)) {
    WARN("skipped: " << kSamples << " is absent");
    return;
  }
  // Parameters of the published checkpoints.
  const std::map<std::string, std::int64_t> expected{{"DeepSeek-V3", 671'026'419'200},
                                                     {"Llama-2-13b-hf", 13'015'864'320},
                                                     {"Llama-2-70b-hf", 68'976'648'192},
                                                     {"Llama-2-7b-hf", 6'738'415'616},
                                                     {"Meta-Llama-3.1-405B", 405'853'388'800},
                                                     {"Meta-Llama-3.1-70B", 70'553'706'496},
                                                     {"Meta-Llama-3.1-8B", 8'030'261'248},
                                                     {"Mixtral-8x7B-v0.1", 46'702'792'704},
                                                     {"Qwen3-30B-A3B", 30'532'122'624},
                                                     {"Qwen3-8B", 8'190'735'360},
                                                     {"Qwen3-VL-8B-Instruct", 8'190'735'360},
                                                     {"bloom-7b1-alt-keys", 7'069'016'064},
                                                     {"bloom", 176'247'271'424},
                                                     {"gpt-neox-20b", 20'554'567'680},
                                                     {"gpt-oss-20b", 20'914'757'184},
                                                     {"gpt2-large", 774'030'080},
                                                     {"gpt2-medium", 354'823'168},
                                                     {"gpt2-xl", 1'557'611'200},
                                                     {"gpt2", 124'439'808}};
  // Every file of the folder, so that a new one is not left out.
  std::size_t samples = 0;
  for (const auto& entry : fs::directory_iterator(kSamples)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem();
    INFO(name);
    const Model model = value_of(read_model(entry.path()));
    REQUIRE(expected.contains(name));
    CHECK(parameter_count(model).total() == expected.at(name));
    CHECK(model.name == name);
    ++samples;
  }
  CHECK(samples == expected.size());
  Model deepseek = read_model(kSamples / "DeepSeek-V3.json").value();
  Model by_hand = test::deepseek_v3();
  by_hand.name = deepseek.name;
  by_hand.max_position_embeddings = 163840;
  CHECK(deepseek == by_hand);
  Model gpt_oss = read_model(kSamples / "gpt-oss-20b.json").value();
  CHECK(gpt_oss.sliding_window == 128);
  CHECK(gpt_oss.global_layer_interval == 2);
}

TEST_CASE("hugging face: what a family fixes and what the file says", "[io][model]") {
  const Model llama =
      read(config("llama", R"("sliding_window": null, "num_key_value_heads": 2, "mlp_bias": true)")).value();
  CHECK(llama.num_query_groups == 2);
  CHECK(llama.head_dim == 16);
  CHECK(llama.mlp_bias);
  CHECK_FALSE(llama.tied_embeddings);
  CHECK(read(config("llama", R"("tie_word_embeddings": true)"))->tied_embeddings);
  CHECK(read(config("smollm3"))->tied_embeddings);  // SmolLM3Config
  CHECK_FALSE(read(config("smollm3", R"("tie_word_embeddings": false)"))->tied_embeddings);
  CHECK(read(config("llama", R"("hidden_act": "gelu_new")"))->activation == Activation::geglu);
  const std::string four = R"("num_key_value_heads": 4)";
  CHECK(read(config("mistral", four + R"(, "sliding_window": 512)"))->sliding_window == 512);
  CHECK(read(config("mistral", four + R"(, "sliding_window": null)"))->sliding_window == 0);
  const Model qwen2 = read(config("qwen2", R"("use_sliding_window": false, "sliding_window": 4096)")).value();
  CHECK(qwen2.qkv_bias);
  CHECK_FALSE(qwen2.attention_output_bias);
  CHECK(qwen2.sliding_window == 0);
  CHECK(read(config("baichuan", R"("max_position_embeddings": 4096)"))->position == Position::rope);
  CHECK(read(config("baichuan"))->position == Position::alibi);
  const Model qwen2_moe = read(config("qwen2_moe", R"("num_experts": 8, "num_experts_per_tok": 2,
      "moe_intermediate_size": 32, "shared_expert_intermediate_size": 128, "decoder_sparse_step": 2)"))
                              .value();
  CHECK(qwen2_moe.moe->shared_expert_gate);
  CHECK(qwen2_moe.moe->layer_interval == 2);
  CHECK_FALSE(qwen2_moe.is_moe_layer(0));
  const Model neox = read(config("gpt_neox", R"("hidden_dropout": 0.25)")).value();
  CHECK(neox.parallel_residual);
  CHECK(neox.dropout == 0.25);
  CHECK(read(R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 100, "n_ctx": 32,
                 "n_inner": 100})")
            ->ffn_hidden_size == 100);
  // The language model of a family has its name.
  CHECK(read("{\"model_type\": \"qwen3_vl\", \"text_config\": {" + kSizes + "}}") == read(config("qwen3_vl_text")));
  // The tie of a multimodal file may stand outside its language model.
  CHECK(read("{\"text_config\": " + config("qwen3_vl_text") + ", \"tie_word_embeddings\": true}")->tied_embeddings);
}

// MistralConfig, MixtralConfig, Ministral3Config, Qwen3Config, Qwen3MoeConfig of transformers (docs/references.md#hugging-face-configs).
TEST_CASE("hugging face: defaults of families that differ from Llama's", "[io][model]") {
  const auto model = [](const std::string& type, const std::string& more = "") {
    return read("{\"model_type\": \"" + type +
                R"(", "hidden_size": 256, "num_attention_heads": 16, "num_hidden_layers": 2,
        "vocab_size": 100, "intermediate_size": 256, "num_local_experts": 8, "num_experts_per_tok": 2, "num_experts": 8,
        "moe_intermediate_size": 32)" +
                more + "}")
        .value();
  };
  const std::string none = R"(, "num_key_value_heads": null)";
  for (const char* type : {"mistral", "mixtral", "ministral3"}) {
    CHECK(model(type).num_query_groups == 8);
    CHECK(model(type, none).num_query_groups == 16);
    CHECK(model(type, R"(, "num_key_value_heads": 4)").num_query_groups == 4);
  }
  for (const char* type : {"llama", "phi3", "qwen3"}) CHECK(model(type).num_query_groups == 16);
  CHECK(model("mistral").sliding_window == 4096);
  CHECK(model("mixtral").sliding_window == 0);
  for (const char* type : {"qwen3", "qwen3_vl_text", "ministral3"}) CHECK(model(type).head_dim == 128);
  for (const char* type : {"mistral", "qwen3_moe"}) CHECK(model(type).head_dim == 16);
}

TEST_CASE("hugging face: what cannot be read is an error, word for word", "[io][model][error]") {
  const std::string allowed =
      "(allowed: baichuan bloom deepseek_v2 deepseek_v3 deepseek_v32 gemma glm4_moe gpt2 gpt_neox gpt_oss kimi_k2 "
      "kimi_linear llama llama4_text ministral3 mistral mixtral nemotron nemotron_h phi3 qwen2 qwen2_5_vl_text "
      "qwen2_moe "
      "qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_vl_moe_text qwen3_vl_text smollm3)";
  CHECK(complaint(config("mamba")) == "config.json:1: model_type = \"mamba\": is unknown " + allowed);
  CHECK(complaint(R"({"architectures": ["LlamaForCausalLM"]})") == "config.json:1: model_type: is missing");
  CHECK(complaint(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100})") ==
        "config.json:1: num_hidden_layers: is missing\nconfig.json:1: intermediate_size: is missing");
  CHECK(complaint(config("llama", R"("hidden_act": "relu")")) ==
        "config.json:2: hidden_act = \"relu\": is not supported (allowed: silu gelu)");
  CHECK(complaint(config("llama", R"("num_key_value_heads": 3)")) ==
        "config.json:2: num_key_value_heads = 3: does not divide model.num_attention_heads = 4");
  CHECK(complaint(config("llama", R"("head_dim": "wide")")) == "config.json:2: head_dim = \"wide\": is not an integer");
  CHECK(complaint(config("qwen3", R"("use_sliding_window": true)")) ==
        "config.json:2: use_sliding_window = true: is not supported (allowed: false)");
  const std::string experts = R"("num_experts": 8, "num_experts_per_tok": 9, "moe_intermediate_size": 32)";
  CHECK(complaint(config("qwen3_moe", experts)) == "config.json:2: num_experts_per_tok = 9: must be between 1 and 8");
  CHECK(complaint(config("qwen3_moe", experts + ", \"mlp_only_layers\": [0]")) ==
        "config.json:2: mlp_only_layers = [1 item]: is not supported (allowed: [])");
  const std::string latent = R"("kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32)";
  CHECK(complaint(config("deepseek_v3", latent)) == "accepted");
  const auto shared = [&](int number) {
    return complaint(config("deepseek_v3", latent + ",\n\"n_shared_experts\": " + std::to_string(number)));
  };
  CHECK(shared(0) == "accepted");
  CHECK(shared(1024) == "accepted");
  for (const int number : {-1, 1025})
    CHECK(shared(number) ==
          "config.json:4: n_shared_experts = " + std::to_string(number) + ": is out of range (allowed: 0 to 1024)");
  CHECK(complaint(config("deepseek_v3", latent + ",\n\"moe_layer_freq\": 2")) ==
        "config.json:4: moe_layer_freq = 2: is not supported (allowed: 1)");
  CHECK(complaint(config("gpt_oss", R"("num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16,
      "layer_types": ["full_attention", "sliding_attention"])")) ==
        "config.json:3: layer_types = [2 items]: is not supported (allowed: full_attention in every n-th layer)");
  const auto gpt_oss = [&](const std::string& types) {
    return complaint(config("gpt_oss", R"("num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16,
      "layer_types": )" + types));
  };
  CHECK(gpt_oss("[\"full_attention\"]") == "config.json:3: layer_types = [1 item]: has 1 layers, the model 2");
  CHECK(gpt_oss("[\"full_attention\", \"chunky\"]") ==
        "config.json:3: layer_types = [2 items]: has other layers (allowed: full_attention sliding_attention)");
  CHECK(complaint("{\"model_type\": \"mamba\", \"text_config\":\n{" + kSizes + "}}") ==
        "config.json:1: text_config.model_type = \"mamba_text\": is unknown " + allowed);
  CHECK(complaint("{\"text_config\":\n" + config("mamba") + "}") ==
        "config.json:2: text_config.model_type = \"mamba\": is unknown " + allowed);
}
