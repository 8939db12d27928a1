// Megatron-LM's arguments: launch scripts, layouts of pipelines and experts.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/import/launchers/megatron_words.hpp"
#include "sim/plan/activations.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

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
      "--global-batch-size 8192 --recompute-granularity selective --recompute-modules mla_up_proj moe_act mlp "
      "core_attn2\n"
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
  CHECK(repeats(run.scenario.training, RecomputeModule::mlp));
  CHECK(assumed("recompute-modules: core_attn2 are kept"));
  CHECK(run.scenario.parallel.pp_schedule == "combined-1f1b");
  CHECK(assumed("delay-wgrad-compute: not modelled"));
  CHECK(run.scenario.training.optimizer == OptimizerKind::muon);
  CHECK(run.scenario.training.muon_steps == 6);
  CHECK(run.scenario.parallel.zero_stage == 1);  // dealt out by whole matrices
  CHECK(run.scenario.parallel.zero1_allreduce);
  const ImportedRun scattered =
      imported("megatron", arguments + "--use-layer-wise-param-layout\n", "run.sh", givens("deepseek-v3-mtp", 256));
  CHECK(scattered.scenario.parallel.zero_stage == 1);
  CHECK_FALSE(scattered.scenario.parallel.zero1_allreduce);
  CHECK(scattered.unmapped.empty());
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

TEST_CASE("launchers: Megatron's sliding windows", "[io][launch]") {
  const std::string run =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --ffn-hidden-size 256 --vocab-size 512 --swiglu "
      "--max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 4 --seq-length 64 --bf16 ";
  const RunGivens givens{.model = "", .topology = "dgx-h100", .gpus = 1, .overrides = {}};
  const auto windows = [&](const std::string& more) {
    const Model model = imported("megatron", run + more, "a.sh", givens).scenario.model;
    return fmt::format("{} {}", model.sliding_window, model.global_layer_interval);
  };
  CHECK(windows("--window-size 15,0 --window-attn-skip-freq 2") == "16 2");
  CHECK(windows("--window-size '(15,0)'") == "16 0");
  CHECK(windows("--window-size -1,0") == "0 0");
  CHECK(refusal("megatron", run + "--window-size 15", "a.sh", givens)
            .find("window-size = 15: is not a causal window (allowed: 127,0)") != std::string::npos);
}

TEST_CASE("launchers: Megatron's pipeline layouts", "[io][launch]") {
  CHECK(parse_pipeline_layout("Et*2|(tt|)*5t|tmL") == Layers{2, 2, 2, 2, 2, 2, 1, 1});  // of its own tests: 14 layers
  CHECK(parse_pipeline_layout("E|t,t|L") == Layers{0, 2, 0});
  CHECK(parse_pipeline_layout(R"(Et*3\\|\\(tt\\|\\)*6mL)") ==
        Layers{3, 2, 2, 2, 2, 2, 2, 0});  // of its tests, for a shell
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
