// Runs as launchers describe them: what each setting becomes, what is asked for, what is refused; and the way back.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/argument_document.hpp"
#include "sim/import/launchers/megatron_words.hpp"
#include "sim/import/launchers/setting_rows.hpp"
#include "sim/import/launchers/toml_document.hpp"
#include "sim/import/launchers/yaml_document.hpp"
#include "sim/plan/activations.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/search/space.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

std::string content_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

using Layers = std::vector<int>;

}  // namespace

TEST_CASE("launchers: Megatron's arguments in a launch script", "[io][launch]") {
  const std::string script = R"(#!/bin/bash
# Llama 3.1 8B on two nodes
TP=4
MODEL_ARGS=(
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
  --group-query-attention --num-query-groups 8 --max-position-embeddings 8192
  --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
  --untie-embeddings-and-output-weights --vocab-size 128256 --hidden-dropout 0.0
)
PARALLEL="--tensor-model-parallel-size $TP --sequence-parallel \
  --pipeline-model-parallel-size=2 --num-layers-per-virtual-pipeline-stage 8"
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py ${MODEL_ARGS[@]} $PARALLEL \
  --micro-batch-size 1 --global_batch_size 64 --seq-length 8192 --bf16 --lr 3e-4 \
  --use-distributed-optimizer --overlap-grad-reduce --recompute-granularity full \
  --recompute-method block --recompute-num-layers 3 --brand-new-flag 7
)";
  const ImportedRun run = imported("megatron", script, "run.sh", {"", "dgx-h100", 0, {}});
  const Scenario& s = run.scenario;
  // Meta-Llama-3.1-8B to the last unit, and the vocabulary padded to 128 x tp: 256 rows of 4096, twice.
  CHECK(parameter_count(s.model).total() == 8'030'261'248 + 2 * 256 * 4096);
  CHECK(s.cluster.world_size == 16);
  CHECK(s.parallel.tp == 4);
  CHECK(s.parallel.sequence_parallel);
  CHECK(s.parallel.pp == 2);
  CHECK(s.parallel.vpp == 2);  // 32 layers / 2 ranks / 8
  CHECK(s.parallel.zero_stage == 1);
  CHECK(s.parallel.overlap_grad_reduce);
  CHECK_FALSE(s.parallel.overlap_param_gather);  // Megatron's default
  CHECK(s.parallel.overlap_p2p);
  CHECK(s.training.seq_length == 8192);
  CHECK(s.training.global_batch_size == 64);
  CHECK(s.training.recompute == Recompute::full);
  CHECK(s.training.recompute_num_layers == 3);
  CHECK(s.training.grad_reduce_dtype == Precision::fp32);
  REQUIRE(run.unmapped.size() == 1);
  CHECK(run.unmapped.front().key == "brand-new-flag");
  CHECK(run.unmapped.front().value == "7");
  CHECK(run.unmapped.front().line == 15);
}

TEST_CASE("launchers: defaults, branches and several programs of a launch script", "[io][launch]") {
  const auto script = [](const std::string& text) {
    const RunGivens given{"gpt2-small", "dgx-h100", 0, {"training.seq_length=64", "model.vocab_size=50688"}};
    return imported("megatron", text, "run.sh", given);
  };
  const auto about_script = [](const ImportedRun& run) {
    std::vector<std::string> about;
    for (const std::string& each : run.assumptions)
      if (each.find("script") != std::string::npos) about.push_back(each);
    return about;
  };
  const ImportedRun defaults = script(
      "NNODES=${NNODES:-2}\r\nTP=4\r\ntorchrun --nproc_per_node ${2:-8} --nnodes $NNODES pretrain.py \\\r\n"
      " --tensor-model-parallel-size ${TP:-2} --micro-batch-size 1 --global-batch-size 32\r\n");
  CHECK(defaults.scenario.cluster.world_size == 16);
  CHECK(defaults.scenario.parallel.tp == 4);
  CHECK(defaults.scenario.parallel.overlap_param_gather);  // no shards: nothing is gathered, and nothing is set
  CHECK(about_script(defaults).empty());

  const std::string run =
      "torchrun --nproc_per_node 8 --nnodes 1 pretrain.py --micro-batch-size 1 --global-batch-size 32 ";
  const ImportedRun branches = script(
      "if [ \"$1\" = big ]; then\n  TP=8\nelse\n  TP=2\n  UNUSED=1\nfi\nif [ \"$FP8\" = 1 ]; then\n"
      "  ARGS=\"--fp8-format hybrid\"\nfi\n" +
      run + "--tensor-model-parallel-size $TP\n");
  CHECK(branches.scenario.parallel.tp == 2);
  CHECK(branches.scenario.training.dtype == Precision::fp8);
  CHECK(about_script(branches) ==
        std::vector<std::string>{
            "if, case, loops, functions and tests of the script are not evaluated: what lines 2, 4, 8 "
            "set is taken, and the last value of a name"});

  const ImportedRun two = script(run + "--tensor-model-parallel-size 2\n" + run + "--tensor-model-parallel-size 4\n");
  CHECK(two.scenario.parallel.tp == 4);
  // A gated feed-forward of no given width has Megatron's int(4 h x 2/3 / 64) x 64, another 4 h.
  const auto width = [](const std::string& activation) {
    const RunGivens given{"", "dgx-h100", 8, {"training.seq_length=64", "model.vocab_size=50688"}};
    return imported("megatron",
                    "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 4096 --num-attention-heads 32 "
                    "--micro-batch-size 1 --global-batch-size 32 --max-position-embeddings 64 " +
                        activation + "\n",
                    "run.sh", given)
        .scenario.model.ffn_hidden_size;
  };
  CHECK(width("--swiglu") == 10880);
  CHECK(width("") == 16384);
  // An array that is appended to, its first argument without a blank.
  const ImportedRun appended =
      script("ARGS=(--sequence-parallel)\nARGS+=(--tensor-model-parallel-size 4)\n" + run + "${ARGS[@]}\n");
  CHECK(appended.scenario.parallel.tp == 4);
  CHECK(appended.scenario.parallel.sequence_parallel);
  CHECK(about_script(two) ==
        std::vector<std::string>{
            "the script starts several programs (lines 1, 2): the last value of an argument is taken"});
  CHECK(about_script(script(run + "\n" + run)).empty());
}

// Switches as megatron/core/transformer/moe/README.md and arguments.py describe them (docs/references.md#format-megatron).
TEST_CASE("launchers: Megatron's layout with a stage for the prediction layer, and its switches of 2025",
          "[io][launch]") {
  const std::string arguments =
      "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 16 --expert-model-parallel-size 16\n"
      "--pipeline-model-parallel-layout \"Et*3|(tt|)*29,m|L\" --mtp-num-layers 1 --micro-batch-size 1\n"
      "--global-batch-size 8192 --recompute-granularity selective --recompute-modules mla_up_proj moe_act mlp\n"
      "--cuda-graph-impl transformer_engine --cuda-graph-scope attn --overlap-moe-expert-parallel-comm\n"
      "--delay-wgrad-compute --optimizer dist_muon --muon-num-ns-steps 6 --bf16\n";
  const ImportedRun run = imported("megatron", arguments, "run.sh", givens("deepseek-v3-mtp", 256));
  Layers layers(32, 2);
  layers[0] = 3;
  layers[30] = layers[31] = 0;
  CHECK(run.scenario.parallel.pp_layout == layers);
  CHECK(run.scenario.parallel.vpp == 2);
  CHECK(run.scenario.training.recompute == Recompute::none);  // core_attn is not among the modules
  CHECK(repeats(run.scenario.training, RecomputeModule::mla_up));
  CHECK(repeats(run.scenario.training, RecomputeModule::activation));
  CHECK_FALSE(repeats(run.scenario.training, RecomputeModule::norm));
  CHECK_FALSE(run.scenario.training.cuda_graphs);
  CHECK(run.scenario.training.cuda_graph_modules == std::vector<std::string>{"attn"});
  CHECK(run.unmapped.empty());
  const auto assumed = [&run](const std::string& begin) {
    return std::any_of(run.assumptions.begin(), run.assumptions.end(),
                       [&](const std::string& each) { return each.starts_with(begin); });
  };
  CHECK(assumed("pipeline-model-parallel-layout: the prediction layer m is computed on the last virtual stage"));
  CHECK(assumed("recompute-modules: mlp are kept"));
  CHECK(run.scenario.parallel.pp_schedule == "combined-1f1b");
  CHECK(assumed("delay-wgrad-compute: not modelled"));
  CHECK(run.scenario.training.optimizer == OptimizerKind::muon);
  CHECK(run.scenario.training.muon_steps == 6);
  CHECK(run.scenario.parallel.zero_stage == 1);  // dealt out by whole matrices
}

// Defaults of ParallelismConfig, TorchContextParallelConfig and set_mixed_precision (docs/references.md#format-accelerate).
TEST_CASE("launchers: Accelerate's defaults are DDP, and FSDP where it is asked",
          "[row-2-10][requirements][io][launch]") {
  const auto training = [](const std::string& type, const std::string& precision, const std::string& more = "") {
    return imported("accelerate",
                    "distributed_type: " + type + "\nmixed_precision: '" + precision + "'\nnum_processes: 16\n" + more,
                    "a.yaml",
                    {.model = "llama-3.1-8b",
                     .topology = "dgx-h100",
                     .gpus = 0,
                     .overrides = {"training.seq_length=4096", "training.micro_batch_size=1"}})
        .scenario;
  };
  CHECK(training("MULTI_GPU", "bf16").parallel.data_parallel == DataParallelKind::ddp);
  CHECK(training("MULTI_GPU", "bf16").parallel.zero_stage == 0);
  CHECK(training("FSDP", "bf16").parallel.zero_stage == 3);
  CHECK(training("FSDP", "no").training.grad_reduce_dtype == Precision::fp32);
  CHECK(training("FSDP", "bf16").training.grad_reduce_dtype == Precision::bf16);
  CHECK(training("FSDP", "fp16").training.grad_reduce_dtype == Precision::fp16);
  CHECK(training("MULTI_GPU", "bf16").training.grad_reduce_dtype == Precision::fp32);
  // The same numbers as the layout written by hand.
  const auto by_hand = [](const std::vector<std::string>& layout) {
    std::vector<std::string> set = {
        "model=llama-3.1-8b",       "cluster.world_size=16",       "parallel.dp=0",
        "training.seq_length=4096", "training.micro_batch_size=1", "training.global_batch_size=16"};
    set.insert(set.end(), layout.begin(), layout.end());
    return shipped_scenario("data-parallel-gpt2", set);
  };
  const auto numbers = [](const Scenario& scenario) {
    const Forecast f = forecast(scenario).value().forecast;
    return std::pair(f.step_time_s, f.memory);
  };
  const auto ddp = numbers(training("MULTI_GPU", "bf16"));
  const auto fsdp = numbers(training("FSDP", "bf16"));
  CHECK((ddp == numbers(by_hand({"parallel.data_parallel=ddp"}))));
  const auto fsdp2 = numbers(training("FSDP", "bf16", "fsdp_config:\n  fsdp_version: 2\n"));
  const std::string stack = "stack=hugging-face";  // whose FSDP is version 1, Accelerate's default
  CHECK((fsdp == numbers(by_hand({stack}))));
  CHECK((fsdp2 == numbers(by_hand({stack, "parallel.data_parallel=automatic"}))));
  CHECK(fsdp2.first != fsdp.first);
  CHECK(fsdp.first < ddp.first);
  const std::string mesh = "parallelism_config:\n  parallelism_config_cp_size: 2\n";
  CHECK(training("FSDP", "bf16", mesh).parallel.cp_comm_type == ContextExchange::all_gather);
  CHECK(training("FSDP", "bf16", mesh + "  parallelism_config_cp_comm_strategy: alltoall\n").parallel.cp_comm_type ==
        ContextExchange::p2p);
}

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
        "a.sh:1: tensor-model-parallel-size = \"$TP\": is a variable that the file does not set (write the number)");
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

// The JSON that --debug.save_config_file writes (Trainer.Config.to_dict, docs/references.md#format-torchtitan).
TEST_CASE("launchers: torchtitan's saved configuration is the same run as its TOML", "[io][launch]") {
  const std::string toml = R"([model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
tensor_parallel_degree = 8
[activation_checkpoint]
mode = "full"
)";
  const auto json = [](const std::string& training, const std::string& policy, const std::string& parallelism = "") {
    return R"({"hf_assets_path": "./assets", "dump_folder": "./outputs", "model_spec": {"name": "llama3", "flavor": "70B",
      "model": {"dim": 8192, "layers": [{"attention": {"n_heads": 64}}]}}, "training": {)" +
           training + R"(, "steps": 10, "dtype": "float32", "mixed_precision_param": "bfloat16",
      "mixed_precision_reduce": "float32", "gc_freq": 50}, "parallelism": {"data_parallel_shard_degree": -1,
      "tensor_parallel_degree": 8, "enable_sequence_parallel": true)" +
           parallelism + R"(}, "activation_checkpoint": )" + policy + R"(, "compile": {"enable": false},
      "optimizer": {"name": "AdamW", "lr": 0.0003}})";
  };
  const RunGivens all{.model = "", .topology = "dgx-h100", .gpus = 64, .overrides = {}};
  const ImportedRun old = imported("torchtitan", toml, "a.toml", all);
  for (const std::string& saved :
       {json(R"("local_batch_size": 8, "global_batch_size": -1, "seq_len": 8192)", R"({"mode": "full"})"),
        json(R"("num_tokens_per_microbatch_per_dp_rank": 65536, "max_context_length": 8192)",
             R"({"save_regions": [], "debug": false})")}) {
    const ImportedRun run = imported("torchtitan", saved, "b.json", all);
    CHECK(run.scenario.model == old.scenario.model);
    CHECK(run.scenario.parallel == old.scenario.parallel);
    CHECK(run.scenario.training == old.scenario.training);
    REQUIRE(run.assumptions.size() > 0);
    CHECK(run.assumptions[0] == "no converter (float8, mx): the file does not say what converts the model");
  }
  const std::string sizes = R"("local_batch_size": 8, "seq_len": 8192)";
  CHECK(refusal("torchtitan", json(sizes, R"({"debug": false})"), "b.json", all)
            .find("activation_checkpoint: does not say which policy it is: give --set training.recompute=selective_op "
                  "(SelectiveAC) or full (FullAC)") != std::string::npos);
  CHECK(refusal("torchtitan",
                json(R"("num_tokens_per_microbatch_per_dp_rank": 8191, "max_context_length": 8192)", "null"), "b.json",
                all)
            .find("is not a multiple of max_context_length = 8192") != std::string::npos);
  CHECK(imported("torchtitan", json(sizes, "null"), "b.json", all).scenario.training.recompute == Recompute::none);

  // An order of its own: the nearest schedule is asked for.
  const std::string order =
      json(sizes, "null", R"(, "pipeline_parallel_degree": 4, "pipeline_parallel_schedule": "PipelineScheduleMulti",
      "pipeline_parallel_schedule_csv": "order.csv")");
  CHECK(
      refusal("torchtitan", order, "b.json", all)
          .find("parallelism.pipeline_parallel_schedule_csv = \"order.csv\": has an order of its own, which tracecast "
                "schedule --times-from b.json runs with the times of these stages (elsewhere give --set "
                "parallel.pp_schedule=NAME, the nearest by name)") != std::string::npos);
  RunGivens named = all;
  named.overrides = {"parallel.pp_schedule=zb-h1"};
  CHECK(imported("torchtitan", order, "b.json", named).scenario.parallel.pp_schedule == "zb-h1");
}

TEST_CASE("launchers: torchtitan gathers again in the backward always, never, or by default without a pipeline",
          "[io][launch]") {
  const auto reshards = [](const std::string& policy, int pp) {
    const std::string job =
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 8192\nlocal_batch_size = 8\n"
        "[parallelism]\npipeline_parallel_degree = " +
        std::to_string(pp) + "\nfsdp_reshard_after_forward = \"" + policy + "\"\n";
    const RunGivens given{.model = "", .topology = "dgx-h100", .gpus = 16, .overrides = {}};
    return imported("torchtitan", job, "a.toml", given).scenario.parallel.reshard_after_forward;
  };
  CHECK(reshards("default", 1));
  CHECK_FALSE(reshards("default", 2));
  CHECK(reshards("always", 2));
  CHECK_FALSE(reshards("never", 1));
}

TEST_CASE("launchers: torchtitan's every n-th layer is so many layers of each stage", "[io][launch]") {
  const auto job = [](const std::string& option, const std::string& parallelism = "") {
    return "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 8192\nlocal_batch_size = "
           "8\n[parallelism]\n"
           "data_parallel_shard_degree = -1\n" +
           parallelism + "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = " + option + "\n";
  };
  RunGivens given{.model = "", .topology = "dgx-h100", .gpus = 8, .overrides = {}};
  const auto training = [&](const std::string& option, const std::string& parallelism = "") {
    return imported("torchtitan", job(option, parallelism), "a.toml", given).scenario.training;
  };
  // 32 layers: every second is 16 of them, every fifth 6 (5, 10, ... 30), every 33rd none.
  CHECK(training("\"2\"").recompute == Recompute::full);
  CHECK(training("\"2\"").recompute_num_layers == 16);
  CHECK(training("\"5\"").recompute_num_layers == 6);
  CHECK(training("\"33\"").recompute == Recompute::none);
  for (const char* every : {"\"0\"", "\"1\""}) {
    CHECK(training(every).recompute == Recompute::full);
    CHECK(training(every).recompute_num_layers == 0);
  }
  CHECK(training("\"op\"").recompute == Recompute::selective_op);
  CHECK(imported("torchtitan", job("\"2\""), "a.toml", given).assumptions.at(0) ==
        "of every 2 layers of a stage one is recomputed: the first ones stand for them");
  // Four stages of 8 have 4 each; with embedding and loss counted as a layer they are 8, 9, 8 and 7 layers.
  const std::string even =
      "pipeline_parallel_degree = 4\npipeline_parallel_first_stage_less_layers = 0\n"
      "pipeline_parallel_last_stage_less_layers = 0\n";
  CHECK(training("\"2\"", even).recompute_num_layers == 4);
  CHECK(refusal("torchtitan", job("\"2\"", "pipeline_parallel_degree = 4\n"), "a.toml", given) ==
        "a.toml: activation_checkpoint.selective_ac_option = 2: recomputes 3 to 4 layers of a stage: give --set "
        "training.recompute_num_layers=4, say");
  CHECK(refusal("torchtitan", job("\"few\""), "a.toml", given)
            .find("selective_ac_option = \"few\": is not supported (allowed: op, or every how many layers)") !=
        std::string::npos);
  given.overrides = {"training.recompute_num_layers=4"};
  CHECK(training("\"2\"", "pipeline_parallel_degree = 4\n").recompute_num_layers == 4);
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

TEST_CASE("launchers: what a recipe of Megatron-Bridge makes is a whole run", "[io][launch]") {
  // As ConfigContainer.to_yaml writes it, shortened: objects of Python with their class, the longest sequence of the model beside the run's.
  const auto configuration = [](const std::string& model, const std::string& ddp) {
    return "_target_: megatron.bridge.training.config.ConfigContainer\ncheckpoint:\n  ckpt_format: torch_dist\n"
           "dataset:\n  _target_: megatron.bridge.training.config.GPTDatasetConfig\n  sequence_length: 4096\n"
           "  tokenizer:\n    _call_: true\n    _target_: megatron.bridge.tokenizer._NullTokenizer\n"
           "ddp:\n  data_parallel_sharding_strategy: no_shard\n  grad_reduce_in_fp32: true\n"
           "  overlap_grad_reduce: true\n  overlap_param_gather: true\n  use_distributed_optimizer: true\n" +
           ddp +
           "mixed_precision:\n  bf16: true\n  fp8: null\n  fp8_recipe: tensorwise\n"
           "  params_dtype:\n    _call_: false\n    _target_: torch.bfloat16\n"
           "model:\n  _target_: megatron.bridge.models.llama.llama_provider.Llama31ModelProvider\n"
           "  add_bias_linear: false\n  add_qkv_bias: false\n  bf16: true\n  ffn_hidden_size: 8192\n"
           "  generation_config:\n    _call_: true\n    config_dict:\n      num_layers: 3\n  hidden_dropout: 0.0\n"
           "  hidden_size: 2048\n  kv_channels: 64\n  make_vocab_size_divisible_by: 128\n  moe_router_topk: 2\n"
           "  moe_token_dispatcher_type: allgather\n  normalization: RMSNorm\n  num_attention_heads: 32\n"
           "  num_layers: 16\n  num_moe_experts: null\n  num_query_groups: 8\n  position_embedding_type: rope\n"
           "  recompute_granularity: null\n  seq_length: 131072\n  sequence_parallel: false\n"
           "  share_embeddings_and_output_weights: true\n  should_pad_vocab: false\n  tensor_model_parallel_size: 2\n"
           "  vocab_size: 128258\n  init_method_std: 0.02\n  use_kitchen: false\n" +
           model + "train:\n  global_batch_size: 512\n  micro_batch_size: 2\n  train_iters: 100\n";
  };
  const std::string silu = "  gated_linear_unit: true\n  activation_func:\n    _target_: torch.nn.functional.silu\n";
  RunGivens given;
  given.topology = "dgx-h100";
  given.gpus = 64;
  const ImportedRun run = imported("megatron-bridge", configuration(silu, ""), "run_config.yaml", given);
  const Model& model = run.scenario.model;
  CHECK(model.num_layers == 16);
  CHECK(model.activation == Activation::swiglu);
  CHECK(model.norm == Norm::rms_norm);
  CHECK(model.tied_embeddings);
  CHECK_FALSE(model.mlp_bias);
  CHECK(model.vocab_size == 128258);  // not padded
  CHECK(model.num_query_groups == 8);
  CHECK(run.scenario.training.seq_length == 4096);
  CHECK(run.scenario.training.global_batch_size == 512);
  CHECK(run.scenario.parallel.tp == 2);
  CHECK(run.scenario.parallel.zero_stage == 1);  // no_shard is of FSDP, which is off
  CHECK(run.scenario.training.train_tokens == 100LL * 512 * 4096);
  CHECK(run.unmapped.empty());

  const std::string gelu = "  gated_linear_unit: true\n  activation_func:\n    _target_: torch.nn.functional.gelu\n";
  CHECK(imported("megatron-bridge", configuration(gelu, ""), "r.yaml", given).scenario.model.activation ==
        Activation::geglu);
  const std::string squared = "  gated_linear_unit: false\n  activation_func:\n    _target_: m.utils.squared_relu\n";
  CHECK(imported("megatron-bridge", configuration(squared, ""), "r.yaml", given).scenario.model.activation ==
        Activation::relu);
  const std::string other = "  gated_linear_unit: true\n  activation_func:\n    _target_: m.swish_limited\n";
  CHECK(
      refusal("megatron-bridge", configuration(other, ""), "r.yaml", given)
          .find("activation-func = \"swish_limited\": is not supported with gated_linear_unit (allowed: silu gelu)") !=
      std::string::npos);
  const std::string experts = "  num_moe_experts: 8\n  moe_ffn_hidden_size: 1024\n" + silu;
  std::string text = configuration(experts, "");
  text.erase(text.find("  num_moe_experts: null\n"), std::string("  num_moe_experts: null\n").size());
  CHECK(refusal("megatron-bridge", text, "r.yaml", given).find("moe-token-dispatcher-type = \"allgather\"") !=
        std::string::npos);

  // The recipe itself is Python.
  CHECK(refusal("megatron-bridge", "from megatron.bridge.recipes.llama import llama32_1b_pretrain_config\n",
                "recipe.py", given) ==
        "recipe.py: is a recipe of Megatron-Bridge in Python: give what it makes, which its "
        "ConfigContainer.to_yaml(\"run_config.yaml\") writes (checkpoints have it too)");
}

TEST_CASE("launchers: Automodel's recipes are FSDP2 runs of Hugging Face models", "[io][launch]") {
  // As examples/llm_pretrain/llama3_70b_pretrain.yaml has it, shortened; and a run without a pipeline, by its older names.
  const RunGivens all{.model = "", .topology = "dgx-h100", .gpus = 64, .overrides = {}};
  const ImportedRun pipeline =
      imported("automodel", content_of(source_dir() / "tests/fuzz/corpus/automodel.yaml"), "a.yaml", all);
  const Parallel& p = pipeline.scenario.parallel;
  CHECK(pipeline.scenario.model.name == "llama-3.1-70b");
  CHECK(p.tp == 4);
  CHECK(p.pp == 4);
  CHECK(p.vpp == 5);  // 80 layers, 4 in each of 20 stages
  CHECK(p.zero_stage == 3);
  CHECK(p.data_parallel == DataParallelKind::automatic);  // FSDP2, not FSDP1
  CHECK_FALSE(p.reshard_after_forward);                   // Automodel's choice with a pipeline
  CHECK_FALSE(p.sequence_parallel);
  CHECK(pipeline.scenario.training.micro_batch_size == 1);
  CHECK(pipeline.scenario.training.global_batch_size == 128);
  CHECK(pipeline.scenario.training.seq_length == 4096);
  CHECK(pipeline.scenario.training.recompute == Recompute::full);
  CHECK(pipeline.scenario.training.grad_reduce_dtype == Precision::fp32);
  CHECK(pipeline.unmapped.empty());

  const std::string plain = R"(model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: Qwen/Qwen3-8B
step_scheduler: {global_batch_size: 128, local_batch_size: 2}
distributed:
  _target_: nemo_automodel.components.distributed.fsdp2.FSDP2Manager
  dp_size: none
  dp_replicate_size: 8
  tp_size: 1
  sequence_parallel: true
dataset: {seq_length: 2048}
peft: {dim: 16}
)";
  const ImportedRun run = imported("automodel", plain, "b.yaml", all);
  CHECK(run.scenario.training.micro_batch_size == 2);
  CHECK(run.scenario.parallel.reshard_after_forward);
  CHECK(run.scenario.parallel.shard_group == 8);
  CHECK_FALSE(run.scenario.parallel.sequence_parallel);  // without tensor parallelism
  CHECK(run.scenario.training.lora_rank == 16);
  CHECK(run.scenario.parallel.defer_grad_sync);
  std::string at_once = plain;
  at_once.replace(at_once.find("  dp_size: none"), 15, "  defer_fsdp_grad_sync: false");
  CHECK_FALSE(imported("automodel", at_once, "b.yaml", all).scenario.parallel.defer_grad_sync);
  // No optimizer is passed over without a word.
  const auto optimizer = [&](const std::string& name) {
    return imported("automodel", plain + "optimizer: {_target_: " + name + ", lr: 1.0e-5}\n", "b.yaml", all);
  };
  const auto says_adam = [](const ImportedRun& each) {
    return std::ranges::any_of(each.assumptions,
                               [](const std::string& one) { return one.find("taken as adam") != std::string::npos; });
  };
  CHECK_FALSE(says_adam(optimizer("torch.optim.AdamW")));
  CHECK(optimizer("torch.optim.SGD").scenario.training.optimizer == OptimizerKind::sgd);
  CHECK(says_adam(optimizer("torch.optim.Muon")));
  CHECK(refusal("automodel", "model: {pretrained_model_name_or_path: a/b}\n", "c.yaml", all)
            .find("c.yaml:1: model.pretrained_model_name_or_path = \"a/b\": is not a shipped model: give --model") !=
        std::string::npos);
}

TEST_CASE("launchers: DeepSpeed's three batch numbers give each other", "[io][launch]") {
  const ImportedRun run =
      imported("deepspeed",
               R"({"train_batch_size": 64, "gradient_accumulation_steps": 2, "bf16": {"enabled": true},
      "train_micro_batch_size_per_gpu": "auto",
      "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e7, "offload_optimizer": {"device": "cpu"}}})",
               "ds.json", givens("llama-2-7b", 8));
  CHECK(run.scenario.training.micro_batch_size == 4);  // 64 / 2 / 8
  CHECK(run.scenario.parallel.zero_stage == 3);
  CHECK(run.scenario.parallel.data_parallel == DataParallelKind::deepspeed);
  CHECK(run.scenario.parallel.reduce_bucket_size == 50'000'000);
  CHECK(run.scenario.training.offload_optimizer);
  CHECK(run.assumptions ==
        std::vector<std::string>{
            "the model's operators are fused: of a model of Hugging Face they are not (--set stack=deepspeed)",
            "training.micro_batch_size = 4, which follows from the global batch"});
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

TEST_CASE("launchers: what is emitted, with what was listed, is imported as the same run", "[io][launch]") {
  const std::string name = GENERATE(as<std::string>(), "llama3-405b-16k", "llama3-405b-1024", "llm-jp-13b-mdx",
                                    "llama2-7b-abci", "p5-llama3-70b-64", "p5-llama2-13b-hybrid-32",
                                    "torchtitan-llama3-8b-128gpu", "deepseek-v3-2048", "bloom-176b", "moonlight-muon");
  const Scenario before = in_plain_terms(shipped_scenario(name));
  for (const Importer* format : importers()) {
    const auto* launcher = std::get_if<Launcher>(&format->read);
    if (launcher == nullptr || launcher->emit == nullptr) continue;
    const EmittedRun emitted = emit_run(format->name, before);
    CAPTURE(name, format->name, emitted.text);
    const std::string file = format->name == "accelerate" ? "run.yaml" : "run.txt";
    RunGivens given{.model = before.model.name.empty() ? name : "",
                    .topology = before.topology,
                    .gpus = before.cluster.world_size,
                    .overrides = {}};
    const fs::path model = fs::temp_directory_path() / "tracecast-launchers-model.json";
    REQUIRE(write_file(model, to_json(before.model)).has_value());
    given.model = model.string();
    // What these launchers leave to the training script.
    if (format->name == "deepspeed" || format->name == "accelerate")
      given.overrides.push_back("training.seq_length=" + std::to_string(before.training.seq_length));
    if (format->name == "accelerate")
      given.overrides.push_back("training.micro_batch_size=" + std::to_string(before.training.micro_batch_size));
    given.overrides.insert(given.overrides.end(), emitted.unmapped.begin(), emitted.unmapped.end());
    const ImportedRun after = imported(std::string(format->name), emitted.text, file, given);
    fs::remove(model);
    CHECK(after.unmapped.empty());
    RunSettings old(before);
    RunSettings again(after.scenario);
    // Derived, said in other words, or not of a step.
    for (const char* key : {"parallel.dp", "parallel.pp_schedule", "training.train_tokens"}) {
      old.take(key);
      again.take(key);
    }
    const std::vector<std::string> expected = old.left();
    const std::vector<std::string> found = again.left();
    std::vector<std::string> different;
    std::set_symmetric_difference(expected.begin(), expected.end(), found.begin(), found.end(),
                                  std::back_inserter(different));
    CHECK(different == std::vector<std::string>{});
    CHECK(after.scenario.training.global_batch_size == before.training.global_batch_size);
    CHECK(after.scenario.training.micro_batch_size == before.training.micro_batch_size);
    CHECK(after.scenario.parallel.tp == before.parallel.tp);
    CHECK(after.scenario.parallel.pp == before.parallel.pp);
  }
}

TEST_CASE("launchers: schedules and optimizers are emitted by the names that torchtitan and DeepSpeed have",
          "[io][launch]") {
  Scenario s = shipped_scenario("llama3-405b-16k");
  for (const std::string theirs :
       {"GPipe", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}) {
    s.parallel.pp_schedule = find_schedule(theirs)->name;
    CHECK_THAT(emit_run("torchtitan", s).text, Catch::Contains("pipeline_parallel_schedule = \"" + theirs + "\""));
  }
  for (const auto& [optimizer, theirs] : {std::pair{OptimizerKind::sgd, "SGD"}, {OptimizerKind::lamb, "Lamb"}}) {
    s.training.optimizer = optimizer;
    CHECK_THAT(emit_run("deepspeed", s).text, Catch::Contains(std::string("\"type\": \"") + theirs + "\""));
  }
  for (const auto& [etp, degree] : {std::pair{"0", "2"}, {"1", "1"}}) {  // 0: that of the other layers
    s = shipped_scenario("deepseek-v3-2048",
                         {"parallel.tp=2", "parallel.dp=64", "parallel.ep=8", std::string("parallel.etp=") + etp});
    CHECK_THAT(emit_run("torchtitan", s).text,
               Catch::Contains(std::string("expert_tensor_parallel_degree = ") + degree));
  }
}

TEST_CASE("launchers: Megatron overlaps experts' exchanges without a pipeline, or with virtual stages",
          "[io][launch]") {
  const auto overlaps = [](int pp, int vpp) {
    const Scenario s = shipped_scenario(
        "deepseek-v3-2048", {"model=mixtral-8x7b", "cluster.world_size=64", "training.global_batch_size=128",
                             "parallel={}", "parallel.ep=8", fmt::format("parallel.pp={}", pp),
                             fmt::format("parallel.vpp={}", vpp), "parallel.pp_schedule=combined-1f1b"});
    return emit_run("megatron", s).text.find("--overlap-moe-expert-parallel-comm") != std::string::npos;
  };
  CHECK(overlaps(1, 1));
  CHECK(overlaps(2, 2));
  CHECK_FALSE(overlaps(2, 1));
}

TEST_CASE("launchers: Megatron's experts in every third layer, after dense ones", "[io][launch]") {
  const auto moe = [](const std::string& frequency) {
    const std::string run =
        "--num-layers 7 --hidden-size 64 --num-attention-heads 4 --ffn-hidden-size 256 --vocab-size 512 --swiglu "
        "--max-position-embeddings 64 "
        "--num-experts 4 --moe-layer-freq " +
        frequency + " --micro-batch-size 1 --global-batch-size 4 --seq-length 64 --bf16";
    const Model model =
        imported("megatron", run, "a.sh", {.model = "", .topology = "dgx-h100", .gpus = 1, .overrides = {}})
            .scenario.model;
    return std::pair{model.moe.value().leading_dense_layers, model.moe->layer_interval};
  };
  CHECK(moe("[0]*3+[1]+[0]*2+[1]") == std::pair{1, 3});
  CHECK(moe("[0,1]*3+[0]") == std::pair{0, 2});
  CHECK(moe("[0]*3+[1]*4") == std::pair{3, 1});
}

TEST_CASE("launchers: Megatron's pipeline layouts", "[io][launch]") {
  CHECK(parse_pipeline_layout("Et*2|(tt|)*5t|tmL") == Layers{2, 2, 2, 2, 2, 2, 1, 1});  // of its own tests: 14 layers
  CHECK(parse_pipeline_layout("E|t,t|L") == Layers{0, 2, 0});
  for (const char* wrong : {"", "Etx", "(tt", "tt)", "t*", "((((((((((((((((((((((((t*9)*9)", "(t*99999)*99999"})
    CHECK_FALSE(parse_pipeline_layout(wrong).has_value());
  for (const Layers& layers : {Layers{7, 8, 8, 7}, Layers{0, 1, 2}})
    CHECK(parse_pipeline_layout(pipeline_layout_text(layers)) == layers);
  CHECK(parse_layer_frequency("([0]*3+[1]*11)", 14)->at(3) == 1);
  CHECK(parse_layer_frequency("([0]*3+[1]*11)", 14)->at(2) == 0);
  CHECK(parse_layer_frequency("[0,1]*2", 4) == Layers{0, 1, 0, 1});
  CHECK(parse_layer_frequency("2", 4) == Layers{1, 0, 1, 0});
  for (const char* wrong : {"", "0", "[2]*4", "[1]*3", "[1", "[1]4"})
    CHECK_FALSE(parse_layer_frequency(wrong, 4).has_value());
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
      INFO(file << ": " << (run ? "" : to_string(run.error())));
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
