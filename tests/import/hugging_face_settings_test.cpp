// Settings of Hugging Face models that once were lost, taken for others or refused.
#include <string>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "tests/import/launched.hpp"

using namespace tracecast;

TEST_CASE("launchers: the sizes of a Hugging Face model have an effect", "[io][launch]") {
  const std::string sizes =
      R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128,
      "vocab_size": 256, "use_cache": true)";
  const auto without_effect = [](const std::string& config) {
    return imported("hugging-face", config, "config.json", givens("", 8)).passed_over;
  };
  CHECK(without_effect(R"({"model_type": "llama", )" + sizes + "}") == Texts{"use_cache"});
  CHECK(without_effect(R"({"model_type": "x", "text_config": {"model_type": "llama", )" + sizes + "}}") ==
        Texts{"model_type", "text_config.use_cache"});
}

TEST_CASE("launchers: --model in place of a Hugging Face file is said", "[io][launch]") {
  const ImportedRun run = imported("hugging-face", R"({"model_type": "llama", "hidden_size": 64})", "config.json",
                                   givens("llama-3.1-8b", 8));
  CHECK(run.scenario.model.name == "llama-3.1-8b");
  CHECK(assumes(run, "model: --model replaces the one that the file describes, of which nothing is used"));
  CHECK(run.passed_over.empty());  // sizes have an effect
}

TEST_CASE("launchers: what a Hugging Face file has beside its language model is said", "[io][launch]") {
  const std::string sizes =
      R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128,
      "vocab_size": 256, "num_key_value_heads": 4)";
  const auto config = [&](const std::string& text, const std::string& more) {
    return imported("hugging-face",
                    R"({"model_type": "x", "text_config": {"model_type": "llama", )" + sizes + text + "}" + more + "}",
                    "config.json", givens("", 8));
  };
  const ImportedRun towers = config(
      "", R"(, "vision_config": {"depth": 24, "hidden_size": 64}, "audio_config": {"a": 1}, "image_token_id": 3)");
  CHECK(assumes(towers, "only the language model is forecast: vision_config, audio_config left out"));
  CHECK(towers.passed_over == Texts{"model_type", "image_token_id"});
  CHECK_FALSE(assumes(config("", ""), "only the language model"));
  CHECK(assumes(config(R"(, "num_nextn_predict_layers": 1)", ""),
                "text_config.num_nextn_predict_layers = 1: without prediction layers, as Transformers trains it (--set "
                "model.mtp_layers=1)"));
  CHECK_FALSE(assumes(config(R"(, "num_nextn_predict_layers": 0)", ""), "prediction layers"));
  // Python's numbers.
  const ImportedRun run = config(R"(, "limits": [0.0, Infinity, -Infinity, NaN], "name": "a \" Infinity")", "");
  CHECK(run.scenario.model.num_layers == 2);
}

TEST_CASE("launchers: sections and experts that a Hugging Face family has not are said", "[io][launch]") {
  const ImportedRun run =
      imported("hugging-face",
               R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
      "intermediate_size": 128, "vocab_size": 256, "attn_config": {"sliding": 4}, "num_local_experts": 8})",
               "config.json", givens("", 8));
  CHECK(assumes(run, "attn_config: not read, since the family's model has no such part here"));
  CHECK(assumes(run, "num_local_experts = 8: not read, since models of this family have no experts here"));
  CHECK(run.passed_over.empty());
}
