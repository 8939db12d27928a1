#include <filesystem>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"
#include "sim/model/model.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

const fs::path kModels = source_dir() / "scenarios/models";

std::int64_t parameters(const char* name) {
  const Model model = value_of(read_model(kModels / (std::string(name) + ".json")));
  return parameter_count(model).total();
}

std::string complaint(std::string text) {
  const JsonDocument document = parse_json(std::move(text), "m.json").value();
  std::vector<Diagnostic> errors;
  return read_model(document.root, document.file, "", errors) ? "accepted"
                                                              : to_string(in_file_order(std::move(errors)));
}

}  // namespace

TEST_CASE("models: the shipped files have the published parameter counts", "[io][model][oracle]") {
  CHECK(parameters("llama-2-7b") == 6'738'415'616);
  CHECK(parameters("llama-2-13b") == 13'015'864'320);
  CHECK(parameters("llama-2-70b") == 68'976'648'192);
  CHECK(parameters("llama-3.1-8b") == 8'030'261'248);
  CHECK(parameters("llama-3.1-70b") == 70'553'706'496);
  CHECK(parameters("llama-3.1-405b") == 405'853'388'800);
  CHECK(parameters("gpt3-175b") == 174'604'259'328);
  CHECK(parameters("gpt2-1.5b") == 1'557'611'200);
  CHECK(parameters("gpt2-small") == 124'439'808);
  CHECK(parameters("llm-jp-13b") == 12'854'988'800);
  CHECK(parameters("bloom-176b") == 176'247'271'424);
  CHECK(parameters("llama-3-8b") == 8'030'261'248);
  CHECK(parameters("llama-3-70b") == 70'553'706'496);
  CHECK(parameters("gpt2-medium") == 354'823'168);
  CHECK(parameters("gpt2-large") == 774'030'080);
  CHECK(parameters("gpt-neox-20b") == 20'554'567'680);
  CHECK(parameters("bloom-7b1") == 7'069'016'064);
  CHECK(parameters("mixtral-8x7b") == 46'702'792'704);
  CHECK(parameters("qwen3-8b") == 8'190'735'360);
  CHECK(parameters("qwen3-30b-a3b") == 30'532'122'624);
  CHECK(parameters("qwen3-235b-a22b") == 235'093'634'560);
  CHECK(parameters("gpt-oss-20b") == 20'914'757'184);
  CHECK(parameters("deepseek-v3") == 671'026'419'200);
  // 2 V h + L (4h^2 + 3hf + 2h) + h, V = 125,696: 7.51 and 13.90 billion as published.
  CHECK(parameters("baichuan-2-7b") ==
        2 * 125696LL * 4096 + 32 * (4 * 4096LL * 4096 + 3 * 4096LL * 11008 + 8192) + 4096);
  CHECK(parameters("baichuan-2-13b") ==
        2 * 125696LL * 5120 + 40 * (4 * 5120LL * 5120 + 3 * 5120LL * 13696 + 10240) + 5120);
  // Billions with two decimals, as the paper's table 1 prints them.
  const auto hundredths = [](const char* name) { return (parameters(name) + 5'000'000) / 10'000'000; };
  CHECK(hundredths("gpt-1.7b") == 165);
  CHECK(hundredths("gpt-3.6b") == 356);
  CHECK(hundredths("gpt-7.5b") == 747);
  CHECK(hundredths("gpt-18b") == 1845);
  CHECK(hundredths("gpt-39b") == 3910);
  CHECK(hundredths("gpt-76b") == 7605);
  CHECK(hundredths("gpt-145b") == 14562);
  CHECK(hundredths("gpt-310b") == 31013);
  CHECK(hundredths("gpt-530b") == 52960);
  CHECK(hundredths("gpt-1t") == 100804);
}

TEST_CASE("models: written and read again, every shipped model is the same", "[io][model][property]") {
  const TemporaryFolder folder;
  std::size_t models = 0;
  for (const auto& entry : fs::directory_iterator(kModels)) {
    INFO(entry.path().string());
    const Result<Model> model = read_model(entry.path());
    REQUIRE(model);
    CHECK(model->name == entry.path().stem().string());
    REQUIRE(write_file(folder.path() / "again.json", to_json(*model)));
    CHECK(read_model(folder.path() / "again.json").value() == *model);
    ++models;
  }
  CHECK(models >= 38);
}

TEST_CASE("models: experts and latent attention are read and written", "[io][model]") {
  const TemporaryFolder folder;
  Model model{.name = "mixed",
              .num_layers = 4,
              .hidden_size = 1024,
              .num_attention_heads = 8,
              .ffn_hidden_size = 4096,
              .vocab_size = 1000,
              .latent_attention = LatentAttention{512, 128, 64, 32, 64}};
  model.moe = MixtureOfExperts{.experts = 16,
                               .topk = 4,
                               .ffn_hidden = 512,
                               .shared_ffn_hidden = 512,
                               .leading_dense_layers = 1,
                               .router_bias = true,
                               .routing_groups = 4,
                               .routing_group_limit = 2};
  const Model expected = validated(model).value();
  REQUIRE(write_file(folder.path() / "mixed.json", to_json(expected)));
  CHECK(read_model(folder.path() / "mixed.json").value() == expected);
}

TEST_CASE("models: errors, word for word", "[io][model][error]") {
  CHECK(complaint("{\n\"num_layer\": 2}") ==
        "m.json:1: num_layers: is missing\n"
        "m.json:1: hidden_size: is missing\n"
        "m.json:1: num_attention_heads: is missing\n"
        "m.json:1: vocab_size: is missing\n"
        "m.json:2: num_layer: unknown key (did you mean 'num_layers'?)");
  const std::string sizes = "\"num_layers\": 2,\n\"hidden_size\": 64,\n\"vocab_size\": 100";
  CHECK(complaint("{" + sizes + ",\n\"num_attention_heads\": 4}") == "m.json:1: ffn_hidden_size: is missing");
  CHECK(complaint("{" + sizes + ",\n\"num_attention_heads\": 5,\n\"ffn_hidden_size\": 64}") ==
        "m.json:4: num_attention_heads = 5: does not divide model.hidden_size = 64, and model.head_dim is not given");
  CHECK(complaint("{" + sizes + ",\n\"num_attention_heads\": 4,\n\"num_query_groups\": 3,\n\"ffn_hidden_size\": 64}") ==
        "m.json:5: num_query_groups = 3: does not divide model.num_attention_heads = 4");
  CHECK(complaint("{" + sizes + ",\n\"num_attention_heads\": 4,\n\"ffn_hidden_size\": 64, \"activation\": \"silu\"}") ==
        "m.json:5: activation = \"silu\": is unknown (allowed: gelu relu swiglu geglu)");
  CHECK(complaint("{" + sizes +
                  ",\n\"num_attention_heads\": 4,\n\"moe\": {\"experts\": 8,\n\"topk\": 9,\n\"ffn_hidden\": 8}}") ==
        "m.json:6: moe.topk = 9: must be between 1 and 8");
}
