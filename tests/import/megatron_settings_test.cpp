// Settings of Megatron-LM and Megatron-Bridge that once were lost, taken for others or refused.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

const std::string kModel =
    "pretrain_gpt.py --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 --max-position-embeddings 4096 "
    "--seq-length 4096 --micro-batch-size 1 --bf16 ";

ImportedRun megatron(const std::string& arguments) {
  const bool layers = arguments.find("--num-layers ") != std::string::npos;
  return imported("megatron", kModel + (layers ? "" : "--num-layers 32 ") + arguments + "\n", "run.sh", job("", 8));
}

std::string megatron_refusal(const std::string& arguments) {
  return refusal("megatron", kModel + arguments + "\n", "run.sh", job("", 8));
}

ImportedRun bridge(const std::string& settings) {
  return imported("megatron-bridge", "train:\n  micro_batch_size: 1\n" + settings, "r.yaml", job("llama-3.1-8b", 8));
}

Training precision(const std::string& recipe) {
  return bridge("model: {}\nmixed_precision: " + recipe + "\n").scenario.training;
}

/// As ConfigContainer.to_yaml writes it: every setting, the model's own ones beside those that replace them.
std::string configuration(const std::string& precision, const std::string& model, const std::string& more = "") {
  return "_target_: megatron.bridge.training.config.ConfigContainer\n"
         "comm_overlap:\n  overlap_grad_reduce: null\n  tp_comm_overlap: false\n"
         "dataset:\n  sequence_length: 4096\n"
         "ddp:\n  grad_reduce_in_fp32: true\n  overlap_grad_reduce: false\n  overlap_param_gather: true\n"
         "  use_distributed_optimizer: true\n"
         "mixed_precision:\n  bf16: true\n  grad_reduce_in_fp32: false\n" +
         precision +
         "model:\n  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider\n  bf16: false\n  fp8_recipe: "
         "delayed\n"
         "  num_layers: 32\n  hidden_size: 4096\n  ffn_hidden_size: 14336\n  num_attention_heads: 32\n"
         "  num_query_groups: 8\n  vocab_size: 128256\n  should_pad_vocab: false\n  position_embedding_type: rope\n  "
         "tp_comm_overlap: true\n"
         "  tensor_model_parallel_size: 2\n  sequence_parallel: true\n" +
         model +
         "optimizer:\n  bf16: false\n  overlap_param_gather: false\n"
         "tokenizer:\n  vocab_size: 32000\n"
         "train:\n  global_batch_size: 64\n  micro_batch_size: 1\n" +
         more;
}

ImportedRun whole(const std::string& precision, const std::string& model) {
  return imported("megatron-bridge", configuration(precision, model), "run_config.yaml", job("", 8));
}

}  // namespace

TEST_CASE("launchers: false, none and null are no format of numbers", "[io][launch]") {
  const auto nemo = [](const std::string& fp8) {
    return imported("megatron",
                    "trainer:\n  num_nodes: 1\n  devices: 8\nmodel:\n  micro_batch_size: 1\n  fp8_hybrid: true\n"
                    "  fp8_e4m3: false\n  fp8: " +
                        fp8 + "\n",
                    "nemo.yaml", job("llama-3.1-8b", 0));
  };
  for (const char* off : {"False", "false", "none", "null"})
    CHECK(nemo(off).scenario.training.dtype == Precision::bf16);
  CHECK(nemo("True").scenario.training.dtype == Precision::fp8);
  CHECK(nemo("True").unmapped.empty());
  CHECK(nemo("e4m3").scenario.training.dtype == Precision::fp8);
  CHECK(megatron("--fp4-format none").scenario.training.dtype == Precision::bf16);
  CHECK(megatron("--fp4-format e2m1").scenario.training.dtype == Precision::nvfp4);
  CHECK(megatron_refusal("--num-layers 32 --fp8-format int8") ==
        "run.sh:1: fp8-format = \"int8\": is not supported (allowed: hybrid e4m3 e5m2 true)");
}

// arguments.py of v2.5 (--activations-checkpoint-method), of v0.4 of Megatron-Core (--fp8-hybrid).
TEST_CASE("launchers: Megatron-LM's older switches for recomputation and 8 bits", "[io][launch]") {
  const auto recomputed = [](const std::string& arguments) {
    const Training t = megatron(arguments).scenario.training;
    return std::pair(t.recompute, t.recompute_num_layers);
  };
  CHECK(recomputed("--activations-checkpoint-method uniform") == std::pair(Recompute::full, 0));
  CHECK(recomputed("--activations-checkpoint-method block") == std::pair(Recompute::full, 1));
  CHECK(recomputed("--activations-checkpoint-method block --activations-checkpoint-num-layers 3") ==
        std::pair(Recompute::full, 3));
  CHECK(recomputed("--checkpoint-activations") == std::pair(Recompute::full, 0));
  CHECK(assumes(megatron("--activations-checkpoint-method uniform --activations-checkpoint-num-layers 2"),
                "activations-checkpoint-num-layers = 2: every layer keeps its input, not every 2th"));
  CHECK(bridge("model:\n  activations_checkpoint_method: block\n").scenario.training.recompute == Recompute::none);
  for (const char* format : {"--fp8-hybrid", "--fp8-e4m3"})
    CHECK(megatron(format).scenario.training.dtype == Precision::fp8);
}

// megatron/bridge/training/mixed_precision.py (docs/references.md#format-megatron).
TEST_CASE("launchers: recipes of Megatron-Bridge for numbers", "[io][launch]") {
  struct Expected {
    const char* recipe;
    Precision dtype;
    int start = 0;
    int end = 0;
    bool gather = false;
    Precision gradients = Precision::fp32;
  };
  for (const Expected& each :
       {Expected{"bf16_mixed", Precision::bf16}, Expected{"fp16_mixed", Precision::fp16, 0, 0, false, Precision::fp16},
        Expected{"bf16_with_mxfp8_mixed", Precision::mxfp8, 0, 0, true},
        Expected{"bf16-with-mxfp8-mixed", Precision::mxfp8, 0, 0, true},
        Expected{"bf16_with_fp8_delayed_scaling_mixed", Precision::fp8, 0, 0, true},
        Expected{"bf16_with_fp8_current_scaling_mixed", Precision::fp8, 1, 1, true},
        Expected{"nemotron_h_bf16_with_fp8_current_scaling_mixed", Precision::fp8, 2, 2, true},
        Expected{"nanov2_bf16_with_fp8_current_scaling_mixed", Precision::fp8_block, 2, 2, true},
        Expected{"bf16_with_fp8_subchannel_scaling_mixed", Precision::fp8_block},
        Expected{"bf16_with_nvfp4_mixed", Precision::nvfp4},
        Expected{"nemotron_3_super_bf16_with_nvfp4_mixed", Precision::nvfp4, 0, 14},
        Expected{"bf16_with_mxfp8_bf16_params_bf16_grad_reduce", Precision::mxfp8, 0, 0, false, Precision::bf16}}) {
    CAPTURE(each.recipe);
    const Training training = precision(each.recipe);
    CHECK(training.dtype == each.dtype);
    CHECK(training.bf16_layers_start == each.start);
    CHECK(training.bf16_layers_end == each.end);
    CHECK(training.fp8_param_gather == each.gather);
    CHECK(training.grad_reduce_dtype == each.gradients);
  }
  for (const char* wrong : {"bf16_with_mxfp9_mixed", "bf16_mixed_bf16_params"})
    CHECK(refusal("megatron-bridge", fmt::format("model: {{}}\ntrain: {{}}\nmixed_precision: {}\n", wrong), "r.yaml",
                  job("llama-3.1-8b", 8))
              .starts_with(fmt::format("r.yaml:3: mixed_precision = \"{}\": is not supported (allowed: bf16_mixed "
                                       "fp16_mixed bf16_with_fp8_mixed",
                                       wrong)));
}

TEST_CASE("launchers: layers stay in bf16 with their flag, one at each end by default", "[io][launch]") {
  const auto wide = [](const ImportedRun& run) {
    return std::pair(run.scenario.training.bf16_layers_start, run.scenario.training.bf16_layers_end);
  };
  const std::string fp8 = "--fp8-format hybrid --fp8-recipe tensorwise ";
  CHECK(wide(megatron(fp8 + "--first-last-layers-bf16")) == std::pair(1, 1));
  CHECK(
      wide(megatron(fp8 + "--first-last-layers-bf16 --num-layers-at-start-in-bf16 0 --num-layers-at-end-in-bf16 3")) ==
      std::pair(0, 3));
  const ImportedRun without = megatron(fp8 + "--num-layers-at-start-in-bf16 3");
  CHECK(wide(without) == std::pair(0, 0));
  CHECK(assumes(without, "num-layers-at-start-in-bf16: without first-last-layers-bf16 no layer stays in bf16"));
  CHECK(wide(bridge("model:\n  fp8: hybrid\n  num_layers_at_end_in_bf16: 2\n")) == std::pair(0, 2));
  CHECK(wide(bridge("model:\n  fp8: hybrid\n  first_last_layers_bf16: false\n  num_layers_at_end_in_bf16: 2\n")) ==
        std::pair(0, 0));
  const EmittedRun emitted =
      emit_run("megatron", shipped_scenario("p5-llama3-70b-64", {"training.dtype=fp8", "training.bf16_layers_end=2"}));
  CHECK(emitted.text.find("--first-last-layers-bf16\n  --num-layers-at-start-in-bf16 0\n  --num-layers-at-end-in-bf16 "
                          "2\n") != std::string::npos);
}

TEST_CASE("launchers: a whole configuration of Megatron-Bridge says settings twice, and one of them wins",
          "[io][launch]") {
  const ImportedRun run = whole("  fp8: hybrid\n  fp8_recipe: blockwise\n", "  fp8: null\n");
  const Training& t = run.scenario.training;
  CHECK(t.dtype == Precision::fp8_block);  // mixed_precision, not the model
  CHECK(t.grad_reduce_dtype == Precision::bf16);
  CHECK(run.scenario.model.vocab_size == 128256);          // not the tokenizer's
  CHECK(run.scenario.parallel.overlap_param_gather);       // that of ddp
  CHECK_FALSE(run.scenario.parallel.tp_comm_overlap);      // comm_overlap
  CHECK_FALSE(run.scenario.parallel.overlap_grad_reduce);  // null there leaves it to ddp
  CHECK(run.unmapped.empty());
  // null is no format, and it wins, too.
  CHECK(whole("  fp8: null\n", "  fp8: hybrid\n").scenario.training.dtype == Precision::bf16);
}

TEST_CASE("launchers: what overrides of Megatron-Bridge leave to their recipe is assumed aloud", "[io][launch]") {
  const auto open = [](const ImportedRun& run, const std::string& what) {
    return assumes(run, what + ": the file leaves this to its recipe, which may set more");
  };
  const std::string gradients = "training.grad_reduce_dtype is the stack's";
  const ImportedRun least = bridge("model:\n  seq_length: 4096\n");
  CHECK(open(least, "parallel.tp, parallel.pp, parallel.cp = 1"));
  CHECK(assumes(least, gradients));
  CHECK(open(bridge("model:\n  tensor_model_parallel_size: 2\n  pipeline_model_parallel_size: 2\n"),
             "parallel.vpp, parallel.cp = 1"));
  const std::string all =
      "model:\n  tensor_model_parallel_size: 2\n  pipeline_model_parallel_size: 1\n  context_parallel_size: 1\n";
  CHECK_FALSE(open(bridge(all), "= 1"));
  CHECK_FALSE(assumes(bridge(all + "ddp:\n  grad_reduce_in_fp32: true\n"), gradients));
  CHECK(open(imported("megatron-bridge", "train:\n  micro_batch_size: 1\n" + all, "r.yaml", job("mixtral-8x7b", 8)),
             "parallel.ep = 1"));
  RunGivens given = job("llama-3.1-8b", 8);
  for (const char* degree : {"parallel.tp=2", "parallel.pp=1", "parallel.cp=1", "training.grad_reduce_dtype=fp32"})
    given.overrides.emplace_back(degree);
  const ImportedRun set =
      imported("megatron-bridge", "model:\n  seq_length: 4096\ntrain:\n  micro_batch_size: 1\n", "r.yaml", given);
  CHECK_FALSE(open(set, "= 1"));
  CHECK_FALSE(assumes(set, gradients));
  CHECK_FALSE(open(whole("", ""), "= 1"));
}

// yaml_arguments.py of Megatron-LM.
TEST_CASE("launchers: Megatron-LM's --yaml-cfg", "[io][launch]") {
  const auto yaml = [](const std::string& model, const std::string& parallel) {
    return imported("megatron",
                    "language_model:\n  num_layers: 24\n  hidden_size: 1024\n  num_attention_heads: 16\n"
                    "  max_position_embeddings: 4096\n" +
                        model + "model_parallel:\n  bf16: True\n  pipeline_model_parallel_size: 2\n" + parallel +
                        "micro_batch_size: 1\nvocab_size: 32000\n",
                    "cfg.yaml", job("", 8));
  };
  const ImportedRun run = yaml("  add_bias_linear: False\n  activation_func: swiglu\n", "  overlap_p2p_comm: False\n");
  CHECK_FALSE(run.scenario.model.mlp_bias);
  CHECK(run.scenario.model.activation == Activation::swiglu);
  CHECK_FALSE(run.scenario.parallel.overlap_p2p);
  CHECK(run.unmapped.empty());
  const ImportedRun plain = yaml("  add_bias_linear: True\n", "  virtual_pipeline_model_parallel_size: 2\n");
  CHECK(plain.scenario.model.mlp_bias);
  CHECK(plain.scenario.parallel.overlap_p2p);
}

TEST_CASE("launchers: models of Megatron-LM that are not GPTs are refused", "[io][launch][error]") {
  const std::string sizes =
      " --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 "
      "--max-position-embeddings 4096 --micro-batch-size 1 --bf16 ";
  const std::string said = "names a model that is not a GPT, and only a GPT's arguments are read: give --model";
  for (const char* program : {"pretrain_bert.py", "examples/t5/pretrain_t5.py", "pretrain_mamba.py"})
    CHECK(refusal("megatron", "ARGS=1\ntorchrun " + std::string(program) + sizes, "run.sh", job("", 8)) ==
          "run.sh:2: script program = \"" + std::string(program).substr(std::string(program).rfind('/') + 1) +
              "\": " + said);
  for (const char* more : {"--hybrid-override-pattern M-M*", "--hybrid-attention-ratio 0.08",
                           "--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec"})
    CHECK(refusal("megatron", "torchrun pretrain.py" + sizes + more, "run.sh", job("", 8)).find(said) !=
          std::string::npos);
  const ImportedRun given =
      imported("megatron", "torchrun pretrain_mamba.py" + sizes, "run.sh", job("llama-3.1-8b", 8));
  CHECK(given.scenario.model.name == "llama-3.1-8b");
  CHECK(assumes(given, "model: script program names one that is not a GPT: --model is used"));
}

TEST_CASE("launchers: torchrun without a number of nodes has one", "[io][launch]") {
  const ImportedRun run =
      imported("megatron", "torchrun --nproc_per_node 8 " + kModel + "--num-layers 32\n", "run.sh", job("", 0));
  CHECK(run.scenario.cluster.world_size == 8);
  CHECK(assumes(run, "cluster.world_size = 8: one node, as nproc-per-node without a number of nodes says"));
  CHECK(refusal("megatron", "torchrun --nproc_per_node gpu " + kModel + "--num-layers 32\n", "run.sh", job("", 0)) ==
        "run.sh: does not say the number of GPUs: give --set cluster.world_size=N");
  CHECK(imported("megatron", "torchrun --nproc_per_node 8 " + kModel + "--num-layers 32\n", "run.sh", job("", 16))
            .scenario.cluster.world_size == 16);
}

TEST_CASE("launchers: lists of Megatron-Bridge say layers of experts and stages", "[io][launch]") {
  std::string frequency = "  num_moe_experts: 8\n  moe_ffn_hidden_size: 1024\n  moe_layer_freq:\n";
  for (int layer = 0; layer < 32; ++layer) frequency += layer < 3 ? "  - 0\n" : "  - 1\n";
  const Model model = whole("", frequency).scenario.model;
  CHECK(model.moe.value().leading_dense_layers == 3);
  const auto stages = [](const std::string& last) {
    return "  pipeline_model_parallel_size: 2\n  pipeline_model_parallel_layout:\n  - [embedding, " +
           fmt::format("{}", fmt::join(Texts(17, "decoder"), ", ")) + "]\n  - [" +
           fmt::format("{}", fmt::join(Texts(15, "decoder"), ", ")) + ", " + last + "]\n";
  };
  CHECK(whole("", stages("loss")).scenario.parallel.pp_layout == std::vector<int>{17, 15});
  CHECK(refusal("megatron-bridge", configuration("", stages("head")), "r.yaml", job("", 8))
            .find("is not a pipeline layout") != std::string::npos);
}

TEST_CASE("launchers: Megatron's layers of a virtual stage count embedding and loss as asked", "[io][launch]") {
  const std::string split =
      "--pipeline-model-parallel-size 4 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
      "--num-layers-per-virtual-pipeline-stage ";
  CHECK(megatron("--num-layers 30 " + split + "4").scenario.parallel.vpp == 2);  // (30 + 2) / 4 / 4
  CHECK(megatron_refusal("--num-layers 30 " + split + "3") ==
        "run.sh:1: num-layers-per-virtual-pipeline-stage = 3: does not divide the 8 layers of a pipeline rank");
  CHECK(megatron_refusal("--num-layers 32 " + split + "4") ==
        "run.sh:1: num-layers-per-virtual-pipeline-stage = 4: cuts 34 layers (with embedding and loss as asked), which "
        "do not divide over 4 pipeline ranks");
  CHECK(megatron_refusal("--num-layers 30 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1")
            .find("cuts 30 layers, which do not divide over 4 pipeline ranks") != std::string::npos);
}

TEST_CASE("launchers: Megatron's groups of key-value heads need their flag", "[io][launch]") {
  const ImportedRun without = megatron("--num-query-groups 8");
  CHECK(without.scenario.model.num_query_groups == 32);
  CHECK(assumes(without, "num-query-groups has no effect without --group-query-attention"));
  CHECK(megatron("--num-query-groups 8 --group-query-attention").scenario.model.num_query_groups == 8);
  CHECK(megatron("--group-query-attention").scenario.model.num_query_groups == 1);
}

// TransformerConfig.moe_token_dispatcher_type, moe_grouped_gemm (docs/references.md#format-megatron).
TEST_CASE("launchers: Megatron's dispatcher and kernels of experts that are not modelled", "[io][launch]") {
  const auto experts = [](const std::string& more) {
    return megatron("--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 4 " + more);
  };
  const std::string taken = ": not modelled; taken as alltoall, which sends 2 copies of a token in place of 4";
  CHECK(assumes(experts(""), "moe-token-dispatcher-type = allgather, Megatron-LM's default" + taken));
  CHECK(assumes(experts("--moe-token-dispatcher-type allgather"), "moe-token-dispatcher-type = allgather" + taken));
  CHECK_FALSE(assumes(experts("--moe-token-dispatcher-type alltoall"), taken));
  CHECK_FALSE(assumes(experts("--expert-model-parallel-size 1"), "moe-token-dispatcher-type"));  // nothing is sent
  const Training padded =
      experts("--moe-expert-capacity-factor 1.25 --moe-pad-expert-input-to-capacity").scenario.training;
  CHECK(padded.expert_capacity_factor == 1.25);
  CHECK(padded.expert_capacity_padding);
  CHECK_FALSE(experts("--moe-expert-capacity-factor 1.25").scenario.training.expert_capacity_padding);
  const std::string apart =
      "moe-grouped-gemm is off: not modelled; the 2 experts of a rank are multiplied in one kernel here";
  CHECK(assumes(experts(""), apart));
  CHECK_FALSE(assumes(experts("--moe-grouped-gemm"), "moe-grouped-gemm"));
  CHECK_FALSE(assumes(experts("--expert-model-parallel-size 8"), "moe-grouped-gemm"));  // one of them
  CHECK(assumes(whole("", "  num_moe_experts: 8\n  moe_ffn_hidden_size: 1024\n  moe_grouped_gemm: false\n"),
                "moe-grouped-gemm is off"));
}

TEST_CASE("launchers: types of Megatron's optimizer, and fusions that are off", "[io][launch]") {
  const auto keys = [](const ImportedRun& run) {
    Texts found;
    for (const UnmappedSetting& each : run.unmapped) found.push_back(each.key);
    return found;
  };
  const std::string narrow = "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 ";
  const ImportedRun states = megatron("--use-precision-aware-optimizer " + narrow + "--main-params-dtype fp32");
  CHECK(states.scenario.training.optimizer_state_dtype == Precision::bf16);
  CHECK(states.unmapped.empty());
  const ImportedRun texts = bridge(
      "model: {}\noptimizer:\n  use_precision_aware_optimizer: true\n  exp_avg_dtype: torch.bfloat16\n"
      "  exp_avg_sq_dtype: torch.bfloat16\n  main_params_dtype: torch.float32\n");
  CHECK(texts.scenario.training.optimizer_state_dtype == Precision::bf16);
  CHECK(texts.unmapped.empty());
  CHECK(keys(megatron(narrow)) == Texts{"exp-avg-dtype", "exp-avg-sq-dtype"});
  CHECK(keys(megatron("--use-precision-aware-optimizer --exp-avg-dtype fp8 --main-grads-dtype bf16")) ==
        Texts{"exp-avg-dtype"});
  CHECK(keys(megatron("--no-rope-fusion --no-gradient-accumulation-fusion --moe-permute-fusion")) ==
        Texts{"no-rope-fusion", "no-gradient-accumulation-fusion"});
  const ImportedRun run =
      whole("",
            "  apply_rope_fusion: false\n  bias_activation_fusion: false\n  masked_softmax_fusion: true\n"
            "  gradient_accumulation_fusion: false\n  use_kitchen: false\n");
  CHECK(keys(run) == Texts{"apply-rope-fusion", "bias-activation-fusion", "gradient-accumulation-fusion"});
  const auto dtype = [](const std::string& key, const std::string& type) {
    return "  " + key + ":\n    _call_: false\n    _target_: torch." + type + "\n";
  };
  const ImportedRun bridged =
      imported("megatron-bridge",
               configuration("", "") + "optimizer_types:\n  use_precision_aware_optimizer: true\n" +
                   dtype("exp_avg_dtype", "bfloat16") + dtype("exp_avg_sq_dtype", "bfloat16") +
                   dtype("main_params_dtype", "float32") + dtype("main_grads_dtype", "bfloat16"),
               "run_config.yaml", job("", 8));
  CHECK(bridged.scenario.training.optimizer_state_dtype == Precision::bf16);
  CHECK(keys(bridged) == Texts{"main-grads-dtype"});
}

TEST_CASE("launchers: a script that DeepSpeed starts is not NeMo's", "[io][launch]") {
  const ImportedRun run = imported("megatron", "deepspeed --num_nodes 2 --num_gpus 8 " + kModel + "--num-layers 32\n",
                                   "run.sh", job("", 0));
  CHECK(run.scenario.cluster.world_size == 16);
  CHECK(run.scenario.parallel.zero_stage == 0);
}

TEST_CASE("launchers: the last batch of Megatron's schedule is a whole number", "[io][launch][error]") {
  const auto refused = [](const std::string& schedule) {
    return refusal("megatron", kModel + "--num-layers 32 --step-batch-size-schedule \"" + schedule + "\"\n", "run.sh",
                   givens("", 8));
  };
  CHECK(refused("0:1234567890").find("step-batch-size-schedule") != std::string::npos);
  for (const char* wrong : {"0:", "0:12x", "0:99999999999999999999", "384", "0:-3"})
    CHECK(refused(wrong).find("is not a schedule (allowed: \"0:384 200B:768\")") != std::string::npos);
}

TEST_CASE("launchers: Megatron moves its optimizer, and activations of some layers, to the host", "[io][launch]") {
  const ImportedRun run = megatron(
      "--use-distributed-optimizer --optimizer-cpu-offload --optimizer-offload-fraction 1.0 "
      "--use-precision-aware-optimizer --cpu-offloading-num-layers 8");
  CHECK(run.scenario.training.offload_optimizer);
  CHECK(run.scenario.training.offload_activations);
  CHECK(run.scenario.training.offload_layers == 8);
  CHECK(run.unmapped.empty());
  const ImportedRun half = megatron("--optimizer-cpu-offload --optimizer-offload-fraction 0.5");
  CHECK(half.scenario.training.offload_optimizer);
  REQUIRE(half.unmapped.size() == 1);
  CHECK(half.unmapped.front().key == "optimizer-offload-fraction");
}

TEST_CASE("launchers: adapters of Megatron-Bridge", "[io][launch]") {
  const auto peft = [](const std::string& settings) {
    return bridge("model: {}\npeft:\n  _target_: megatron.bridge.peft.lora.LoRA\n  alpha: 32\n" + settings);
  };
  const ImportedRun run = peft("  dim: 8\n  target_modules: [linear_qkv, linear_fc1, linear_kv_up_proj]\n");
  CHECK(run.scenario.training.lora_rank == 8);
  CHECK(run.scenario.training.lora_targets == Texts{"qkv", "fc1"});
  CHECK(assumes(run, "target-modules: linear_kv_up_proj has no adapter here"));
  CHECK(run.unmapped.empty());
  CHECK(peft("  dim: 8\n").scenario.training.lora_targets.empty());
  // CanonicalLoRA's parts of fused layers.
  const ImportedRun parts = peft("  dim: 8\n  target_modules: [linear_q, linear_v, linear_fc1_up]\n");
  CHECK(parts.scenario.training.lora_targets == Texts{"qkv", "fc1"});
  CHECK(assumes(parts, "target-modules: linear_q is counted as linear_qkv"));
  CHECK(refusal("megatron-bridge", "model: {}\ntrain: {}\npeft:\n  dim: 8\n  target_modules: [linear_kv_up_proj]\n",
                "r.yaml", job("llama-3.1-8b", 8)) ==
        "r.yaml:5: target-modules = [1 item]: has no layer that is known (allowed: linear_qkv linear_proj linear_fc1 "
        "linear_fc2)");
  CHECK_FALSE(assumes(run, "DoRA"));
  CHECK(assumes(bridge("model: {}\npeft:\n  _target_: megatron.bridge.peft.dora.DoRA\n  dim: 8\n"),
                "peft is DoRA: taken as LoRA, without the norms of its weights"));
}

TEST_CASE("launchers: gradients of 16 bits that are reduced in 32", "[io][launch]") {
  const Training training =
      bridge("model: {}\nmixed_precision:\n  bf16: false\n  fp16: true\n  grad_reduce_in_fp32: true\n")
          .scenario.training;
  CHECK(training.dtype == Precision::fp16);
  CHECK(training.grad_reduce_dtype == Precision::fp32);
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
  CHECK(imported("megatron-bridge", text, "r.yaml", given).scenario.parallel.moe_dispatcher == MoeDispatcher::alltoall);

  // The recipe itself is Python.
  CHECK(refusal("megatron-bridge", "from megatron.bridge.recipes.llama import llama32_1b_pretrain_config\n",
                "recipe.py", given) ==
        "recipe.py: is a recipe of Megatron-Bridge in Python: give what it makes, which its "
        "ConfigContainer.to_yaml(\"run_config.yaml\") writes (checkpoints have it too)");
}

// arguments.py: accumulate_allreduce_grads_in_fp32 is set where main_grads_dtype is fp32.
TEST_CASE("launchers: the precision-aware optimizer's gradients of 16 bits are reduced so", "[io][launch]") {
  const auto reduced = [](const std::string& arguments) {
    return megatron("--use-distributed-optimizer " + arguments).scenario.training.grad_reduce_dtype;
  };
  const std::string narrow = "--use-precision-aware-optimizer --main-grads-dtype bf16 ";
  CHECK(reduced(narrow) == Precision::bf16);
  CHECK(reduced(narrow + "--accumulate-allreduce-grads-in-fp32") == Precision::fp32);
  CHECK(reduced("--use-precision-aware-optimizer --main-grads-dtype fp32") == Precision::fp32);
  CHECK(megatron("--use-distributed-optimizer " + narrow).unmapped.empty());
}

// Primus has ${NAME:default}, OmegaConf ${oc.env:NAME,default}.
TEST_CASE("launchers: variables of the environment in YAML have their defaults, or are asked for", "[io][launch]") {
  const ImportedRun run = bridge(
      "model:\n  tensor_model_parallel_size: ${TP:2}\n  sequence_parallel: ${SP:-false}\n"
      "  tp_comm_overlap: ${oc.decode:${oc.env:overlap,true}}\n");
  CHECK(run.scenario.parallel.tp == 2);
  CHECK_FALSE(run.scenario.parallel.sequence_parallel);
  CHECK(run.scenario.parallel.tp_comm_overlap);
  CHECK(assumes(run, "TP is not set outside the file: tensor-model-parallel-size = 2"));
  CHECK(assumes(run, "SP is not set outside the file: sequence-parallel = false"));
  const std::string open = "train:\n  micro_batch_size: 1\nddp:\n  overlap_grad_reduce: ${OVERLAP}\n";
  RunGivens given = job("llama-3.1-8b", 8);
  CHECK(
      refusal("megatron-bridge", open, "r.yaml", given) ==
      "r.yaml:4: overlap-grad-reduce = \"${OVERLAP}\": is a variable that the file does not set (write true or false, "
      "or give --set parallel.overlap_grad_reduce=true)");
  given.overrides.emplace_back("parallel.overlap_grad_reduce=false");
  CHECK_FALSE(imported("megatron-bridge", open, "r.yaml", given).scenario.parallel.overlap_grad_reduce);
}

TEST_CASE("launchers: merge keys of YAML, of which own keys win", "[io][launch]") {
  const ImportedRun run = bridge(
      "common: &common\n  tensor_model_parallel_size: 4\n  sequence_parallel: true\nmodel:\n  <<: *common\n"
      "  tensor_model_parallel_size: 2\n  pipeline_model_parallel_size: 2\n");
  CHECK(run.scenario.parallel.tp == 2);
  CHECK(run.scenario.parallel.sequence_parallel);
  CHECK(run.unmapped.empty());
  const ImportedRun list = bridge(
      "x-a: &a {tensor_model_parallel_size: 4}\nx-b: &b {tensor_model_parallel_size: 8, pipeline_model_parallel_size: "
      "2}\nmodel:\n  <<: [*a, *b]\n");
  CHECK(list.scenario.parallel.tp == 4);
  CHECK(list.scenario.parallel.pp == 2);
  CHECK(refusal("megatron-bridge", "train: {micro_batch_size: 1}\nmodel:\n  <<: 3\n", "r.yaml",
                job("llama-3.1-8b", 8)) == "r.yaml:3: model.<<: is not a map to merge");
}

TEST_CASE("launchers: Megatron's attention backend is a kernel of the GPU", "[io][launch]") {
  const auto run = [](const std::string& backend, const std::string& machine = "dgx-h100") {
    RunGivens given = job("", 8);
    given.topology = machine;
    return imported("megatron", kModel + "--num-layers 32" + backend + "\n", "run.sh", given);
  };
  CHECK(run("").scenario.training.attention_kernel.empty());
  CHECK(run(" --attention-backend auto").scenario.training.attention_kernel.empty());
  CHECK(run(" --attention-backend fused").scenario.training.attention_kernel == "cudnn");
  const ImportedRun flash = run(" --attention-backend flash");
  CHECK(flash.scenario.training.attention_kernel == "fa2");
  CHECK(assumes(
      flash, "attention-backend = flash: attention_kernel = fa2, FlashAttention 2; fa3 if flash-attn 3 is installed"));
  CHECK(flash.scenario.source.find("FlashAttention 2") != std::string::npos);
  const ImportedRun narrow = run(" --attention-backend flash --fp8-format hybrid --fp8-dot-product-attention");
  CHECK(narrow.scenario.training.attention_kernel.empty());
  CHECK(narrow.scenario.training.fp8_attention);
  CHECK(assumes(narrow, "asks for FlashAttention 3, of which h100 has no times in fp8"));
  const ImportedRun ampere = run(" --attention-backend fused", "dgx-a100");
  CHECK(ampere.scenario.training.attention_kernel.empty());
  CHECK(assumes(ampere, "asks for cudnn, of which a100 has no times"));
  CHECK(emit_run("megatron", flash.scenario).text.find("--attention-backend flash\n") != std::string::npos);
  CHECK(emit_run("megatron", run(" --attention-backend fused").scenario).text.find("--attention-backend fused\n") !=
        std::string::npos);
  CHECK(emit_run("megatron", run("").scenario).text.find("--attention-backend") == std::string::npos);
}

// transformer_config.py and model_parallel_config.py: all of these are true where nothing is said.
TEST_CASE("launchers: what a whole configuration of Megatron-Bridge turns off is said where it has an effect",
          "[io][launch]") {
  const std::string off =
      "  fp8_wgrad: false\n  tp_comm_bulk_dgrad: false\n  deallocate_pipeline_outputs: false\n  use_ring_exchange_p2p: "
      "false\n";
  const auto said = [](const ImportedRun& run, const std::string& key) {
    return assumes(run, key + " = false: not modelled, forecast as true");
  };
  const ImportedRun plain = whole("", off);
  for (const char* key : {"fp8-wgrad", "tp-comm-bulk-dgrad", "deallocate-pipeline-outputs"})
    CHECK_FALSE(said(plain, key));
  CHECK(plain.unmapped.empty());
  CHECK(said(whole("  fp8: hybrid\n", off), "fp8-wgrad"));
  CHECK(said(whole("", off + "  pipeline_model_parallel_size: 2\n"), "deallocate-pipeline-outputs"));
  const std::string without = "comm_overlap:\n  overlap_grad_reduce: null\n  tp_comm_overlap: false\n";
  std::string overlapped = configuration("", off);
  overlapped.erase(overlapped.find(without), without.size());
  CHECK(said(imported("megatron-bridge", overlapped, "run_config.yaml", job("", 8)), "tp-comm-bulk-dgrad"));
}

// validate_args of arguments.py: "Setting args.overlap_p2p_comm to False since non-interleaved schedule does not support …"
TEST_CASE("launchers: Megatron-LM overlaps messages of interleaved stages only", "[io][launch]") {
  const std::string two = "--pipeline-model-parallel-size 2";
  CHECK_FALSE(overlaps_messages(megatron(two).scenario.parallel));
  CHECK_FALSE(overlaps_messages(megatron(two + " --transformer-impl local").scenario.parallel));
  CHECK(overlaps_messages(megatron(two + " --num-virtual-stages-per-pipeline-rank 2").scenario.parallel));
  CHECK(overlaps_messages(megatron(two + " --pipeline-model-parallel-layout 'Et*8|t*8|t*8|t*8L'").scenario.parallel));
  CHECK_FALSE(overlaps_messages(bridge("model:\n  pipeline_model_parallel_size: 2\n").scenario.parallel));
  for (const std::string format : {"megatron", "megatron-bridge"}) {
    const auto listed = [&](const char* overlap) {
      const Scenario scenario = shipped_scenario(
          "p5-llama3-70b-64", {"parallel.pp=2", "parallel.dp=4", std::string("parallel.overlap_p2p_1f1b=") + overlap});
      return std::ranges::count(emit_run(format, in_plain_terms(scenario)).unmapped, "parallel.overlap_p2p_1f1b=true");
    };
    CHECK(listed("true") == 1);
    CHECK(listed("false") == 0);
  }
}

// --data-parallel-sharding-strategy of arguments.py.
TEST_CASE("launchers: Megatron-FSDP divides nothing without a strategy", "[io][launch]") {
  const ImportedRun run = megatron("--use-megatron-fsdp --use-distributed-optimizer --ckpt-format fsdp_dtensor");
  CHECK(run.scenario.parallel.zero_stage == 0);
  CHECK(assumes(run, "parallel.zero_stage = 0: data-parallel-sharding-strategy is no_shard, Megatron-LM's default"));
  RunGivens given = job("", 8);
  given.overrides = {"parallel.zero_stage=3"};
  const ImportedRun other = imported(
      "megatron", kModel + "--num-layers 32 --use-megatron-fsdp --ckpt-format fsdp_dtensor\n", "run.sh", given);
  CHECK(other.scenario.parallel.zero_stage == 3);
  CHECK_FALSE(assumes(other, "parallel.zero_stage"));
  CHECK(megatron("--use-distributed-optimizer").scenario.parallel.zero_stage == 1);
}
