// Runs as launchers describe them: what is asked for, what is refused, and what they have in common.
#include <filesystem>
#include <iterator>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "sim/import/launchers/argument_document.hpp"
#include "sim/import/launchers/toml_document.hpp"
#include "sim/import/launchers/yaml_document.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {}  // namespace

TEST_CASE("launchers: a switch may be a word in quotes, and no other word than yes and no", "[io][launch][error]") {
  const auto file = [](const std::string& word) {
    return "distributed_type: FSDP\nfsdp_config:\n  fsdp_activation_checkpointing: '" + word + "'\n";
  };
  const RunGivens given = givens("llama-3.1-8b", 16);
  const auto recomputes = [&](const std::string& word) {
    return imported("accelerate", file(word), "a.yaml", given).scenario.training.recompute == Recompute::full;
  };
  CHECK(recomputes("true"));
  for (const char* word : {"false", "No", "0"}) CHECK_FALSE(recomputes(word));
  CHECK(refusal("accelerate", file("maybe"), "a.yaml", given) ==
        "a.yaml:3: fsdp_config.fsdp_activation_checkpointing = \"maybe\": is neither true nor false");
}

TEST_CASE("launchers: every character of two or three bytes may stand where TOML has a key", "[io][launch][error]") {
  const auto byte = [](unsigned bits) { return static_cast<char>(bits); };
  for (unsigned c = 0x80; c <= 0xFFFF; c += 0x1D) {
    const std::string key =
        c < 0x800 ? std::string{byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))}
                  : std::string{byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
    CHECK_FALSE(refusal("torchtitan", "[model]\n" + key + " = 1 " + key + "\n", "t.toml", {}).empty());
  }
}

TEST_CASE("launchers: errors name the launcher's key and line", "[io][launch][error]") {
  CHECK(refusal("megatron", "--micro-batch-size 1\n--tensor-model-parallel-size 3", "a.sh", givens("llama-3.1-8b", 24))
            .starts_with("a.sh:2: tensor-model-parallel-size (parallel.tp) = 3: does not divide "
                         "model.num_attention_heads = 32 (allowed: 1 2 4 8 16 32)\n"));
  CHECK(refusal("megatron", "--tensor-model-parallel-size $TP", "a.sh", givens("llama-3.1-8b", 8)) ==
        "a.sh:1: tensor-model-parallel-size = \"$TP\": is a variable that the file does not set (write the number, "
        "or give --set parallel.tp=N)");
  CHECK(refusal("megatron", "echo hello", "a.sh", {}) == "a.sh: has no argument (they begin with --)");
  CHECK(refusal("megatron", "--name 'x", "a.sh", {}) == "a.sh:1: has a quote that is not closed");
  CHECK(refusal("deepspeed", R"({"train_batch_size": 4, "train_micro_batch_size_per_gpu": 1,
 "gradient_accumulation_steps": 2})",
                "ds.json", givens("gpt2-small", 4)) ==
        "ds.json:1: train_batch_size = 4: is not micro-batch 1 x gradient_accumulation_steps 2 x 4 data-parallel ranks "
        "(allowed: 8)");
  CHECK(refusal("deepspeed", R"({"train_batch_size": "many"})", "ds.json", givens("gpt2-small", 4)) ==
        "ds.json:1: train_batch_size = \"many\": is not a number");
  CHECK(
      refusal("deepspeed", R"({"steps_per_print": 1, "steps_per_print": 2})", "ds.json", {}).find("steps_per_print") !=
      std::string::npos);
  CHECK(refusal("accelerate", "num_processes: 2", "a.yaml", givens("gpt2-small", 2)) ==
        "a.yaml: distributed_type: is missing (allowed: FSDP DEEPSPEED MEGATRON_LM MULTI_GPU NO)");
  CHECK(refusal("accelerate", "a: [1\nb: 2", "a.yaml", {}).starts_with("a.yaml:2: is not YAML: "));
  CHECK(refusal("accelerate", "a: 1\na: 2", "a.yaml", {}) == "a.yaml:2: a: is given twice");
  CHECK(refusal("torchtitan", "[model\n", "t.toml", {}).starts_with("t.toml:1: is not TOML: "));
  CHECK(refusal("torchtitan", "[model]\nname = \"llama4\"\nflavor = \"17b\"\n", "t.toml", givens("", 8)) ==
        "t.toml:3: model.flavor = \"17b\": of llama4 is not a shipped model: give --model");
  CHECK(refusal("hugging-face", "{\"a\": 1}", "c.json", givens("", 8)).starts_with("c.json: model_type: is missing"));
}

TEST_CASE("launchers: what is missing is asked for", "[io][launch][error]") {
  CHECK(refusal("deepspeed", "{\"steps_per_print\": 1}", "ds.json", {}) ==
        "ds.json: does not say the model, the machine, the number of GPUs, the length of a sequence: give --set "
        "model=NAME "
        "--set cluster.topology=NAME --set cluster.world_size=N --set training.seq_length=4096 (NAME: shipped, or a "
        "file)");
  RunGivens machine;
  machine.topology = "dgx-h100";
  machine.model = "gpt2-small";
  machine.gpus = 8;
  CHECK(refusal("deepspeed", "{\"steps_per_print\": 1}", "ds.json", machine) ==
        "ds.json: does not say the length of a sequence: give --set training.seq_length=4096");
}

TEST_CASE("launchers: of an unknown family the error says so, and --model replaces it", "[io][launch][error]") {
  const std::string config = R"({"model_type": "weird", "hidden_size": 64})";
  RunGivens all = givens("", 8);
  const std::string unknown = refusal("hugging-face", config, "w.json", all);
  CHECK(unknown.starts_with("w.json:1: model_type = \"weird\": is unknown (allowed: "));
  CHECK(unknown.find("--model") == std::string::npos);
  all.model = "llama-3.1-8b";
  CHECK(import_run("hugging-face", config, "w.json", all, shipped_data()).has_value());
}

TEST_CASE("launchers: a model whose weights are stored quantised says so", "[io][launch]") {
  const std::string config =
      R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 256, "quantization_config": {"quant_method": "gptq", "bits": 4}})";
  const ImportedRun run = imported("hugging-face", config, "config.json", givens("", 8));
  REQUIRE(!run.assumptions.empty());
  CHECK(run.assumptions[0] ==
        "quantization_config (\"gptq\") is of the stored weights: training.dtype is the precision of training");
}

TEST_CASE("launchers: one run described four times is one scenario", "[io][launch]") {
  // Llama 3.1 8B, FSDP over 8 ranks, four sequences each in two micro-batches.
  const RunGivens given = givens("llama-3.1-8b", 8);
  const std::string megatron =
      "--micro-batch-size 2 --global-batch-size 32 --seq-length 4096 --bf16 "
      "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params";
  const std::string deepspeed = R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
                                    "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})";
  const std::string torchtitan =
      "[training]\nlocal_batch_size = 2\nglobal_batch_size = 32\nseq_len = 4096\n"
      "[activation_checkpoint]\nmode = \"none\"\n";
  const std::string accelerate =
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"
      "gradient_accumulation_steps: 2\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n";
  RunGivens with_micro = given;
  with_micro.overrides.emplace_back("training.micro_batch_size=2");
  for (const Scenario& s : {imported("megatron", megatron, "a.sh", given).scenario,
                            imported("deepspeed", deepspeed, "ds.json", given).scenario,
                            imported("torchtitan", torchtitan, "t.toml", given).scenario,
                            imported("accelerate", accelerate, "a.yaml", with_micro).scenario}) {
    CHECK(s.parallel.zero_stage == 3);
    CHECK(s.parallel.reshard_after_forward);
    CHECK(s.training.micro_batch_size == 2);
    CHECK(s.training.global_batch_size == 32);
    CHECK(s.training.seq_length == 4096);
    CHECK(s.training.dtype == Precision::bf16);
    CHECK(s.training.recompute == Recompute::none);
    CHECK(s.cluster.world_size == 8);
    CHECK(parameter_count(s.model).total() == 8'030'261'248);
  }
}

TEST_CASE("launchers: every sample is read, or refused with the right sentence", "[io][launch]") {
  const fs::path samples = measurements_of_others() / "formats";
  if (!fs::exists(samples)) {
    WARN("skipped: no samples here");
    return;
  }
  struct Folder {
    const char* name;
    const char* format;
  };
  const std::map<std::string, std::string> refused{
      {"deepspeed.yaml", "deepspeed_config_file"},  // the settings are in another file
      {"llama4_17bx16e.toml", "model.flavor"},      // not shipped
  };
  int read = 0;
  for (const Folder& folder : {Folder{"megatron-args", "megatron"}, Folder{"megatron-bridge", "megatron-bridge"},
                               Folder{"deepspeed-config", "deepspeed"}, Folder{"torchtitan-toml", "torchtitan"},
                               Folder{"accelerate-config", "accelerate"}, Folder{"hf-config", "hugging-face"}}) {
    for (const auto& entry : fs::directory_iterator(samples / folder.name)) {
      const std::string file = entry.path().filename().string();
      if (file.ends_with(".md") || file.ends_with(".csv")) continue;
      const std::string format = folder.format;
      RunGivens given{.model = "", .topology = "dgx-h100", .gpus = 128, .overrides = {}};
      if (format == "deepspeed") given.gpus = 4;
      if (format == "accelerate") given.gpus = 0;  // the file says it
      if (format == "accelerate" || format == "deepspeed") given.model = "gpt2-medium";
      if (format == "accelerate") given.overrides.emplace_back("model.vocab_size=50304");
      if (format == "megatron-bridge") given.gpus = 8;
      const bool nemo = file.starts_with("llama3-nemo");
      if (nemo || format == "megatron-bridge") given.model = "llama-3.1-8b";
      if (nemo) given.gpus = 0;
      if (format == "megatron" && !nemo) given.overrides.emplace_back("model.vocab_size=256000");
      if (format != "megatron" && format != "torchtitan") given.overrides.emplace_back("training.seq_length=1024");
      const Result<ImportedRun> run =
          import_run(format, content_of(entry.path()), entry.path().string(), given, shipped_data());
      INFO(file << ": " << (error_text(run)));
      if (const auto expected = refused.find(file); expected != refused.end()) {
        REQUIRE_FALSE(run.has_value());
        CHECK(to_string(run.error()).find(expected->second) != std::string::npos);
        continue;
      }
      REQUIRE(run.has_value());
      ++read;
      CHECK(run->scenario.cluster.world_size > 0);
    }
  }
  CHECK(read == 4 + 2 + 4 + 3 + 2 + 19);
}

TEST_CASE("launchers: a planted secret of the environment is in no output", "[io][launch]") {
  const std::string yaml = "ENV_VARS:\n  WANDB_API_KEY: hunter2\nMODEL_ARGS:\n  --micro-batch-size: 1\n";
  const ImportedRun run = imported("megatron", yaml, "a.yaml", givens("llama-3.1-8b", 8));
  CHECK(to_json(run.scenario).find("hunter2") == std::string::npos);
  CHECK(run.unmapped.empty());
}

TEST_CASE("launchers: inputs that fuzzing found are one error message", "[io][launchers][error]") {
  CHECK(to_string(parse_toml("a = 1\n\xEF\xBB\xB7 = 2\n", "t.toml").error()) ==
        "t.toml:2: is not TOML: Error while parsing root table: expected keys, tables, whitespace or comments, saw "
        "'\xEF\xBB\xB7'");
  CHECK(parse_toml("\xEF\xBB\xBF"
                   "a = \"\xEF\xBF\xBD\"\n",
                   "t.toml")
            .has_value());
}
