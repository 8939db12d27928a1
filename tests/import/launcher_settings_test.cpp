// Settings of DeepSpeed, Accelerate, AutoModel and Hugging Face that once were lost, taken for others or refused.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/setting_rows.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

using Texts = std::vector<std::string>;

Texts unmapped(const ImportedRun& run) {
  Texts keys;
  for (const UnmappedSetting& each : run.unmapped) keys.push_back(each.key);
  return keys;
}

ImportedRun deepspeed(const std::string& settings) {
  return imported("deepspeed", "{\"train_micro_batch_size_per_gpu\": 1" + settings + "}", "ds.json",
                  givens("llama-3.1-8b", 8));
}

ImportedRun accelerate(const std::string& settings) {
  return imported("accelerate", "num_processes: 8\nmixed_precision: bf16\n" + settings, "a.yaml",
                  givens("llama-3.1-8b", 8));
}

}  // namespace
TEST_CASE("launchers: 16 bits that DeepSpeed's file leaves to the script", "[io][launch]") {
  const ImportedRun both =
      deepspeed(R"(, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 1})");
  CHECK(both.scenario.training.dtype == Precision::bf16);
  CHECK(both.scenario.training.grad_reduce_dtype == Precision::bf16);
  CHECK(assumes(both, "training.dtype = bf16: bf16.enabled is \"auto\", which the training script fills in"));
  CHECK(deepspeed(R"(, "fp16": {"enabled": "auto"})").scenario.training.dtype == Precision::fp16);
  CHECK(deepspeed(R"(, "bf16": {"enabled": "auto"}, "fp16": {"enabled": true})").scenario.training.dtype ==
        Precision::fp16);
  const ImportedRun none = deepspeed("");
  CHECK(none.scenario.training.dtype == Precision::fp32);
  CHECK(assumes(none, "training.dtype = fp32: the file has no bf16, fp16 or torch_autocast"));
  CHECK_FALSE(assumes(deepspeed(R"(, "bf16": {"enabled": false})"), "training.dtype"));
}

// docs/references.md#deepspeed-buffers
TEST_CASE("launchers: of which releases DeepSpeed's stage 1 overlaps", "[io][launch]") {
  const auto says = [](const std::string& zero) {
    return assumes(deepspeed(R"(, "zero_optimization": {)" + zero + "}"),
                   "zero_optimization.overlap_comm with stage 1: ");
  };
  CHECK(says(R"("stage": 1, "overlap_comm": true)"));
  CHECK_FALSE(says(R"("stage": 1, "overlap_comm": false)"));
  CHECK_FALSE(says(R"("stage": 1)"));
  CHECK_FALSE(says(R"("stage": 2, "overlap_comm": true)"));
}

// runtime/torch_autocast.py: linear layers are computed, gathered and reduced in its type.
TEST_CASE("launchers: DeepSpeed's torch_autocast multiplies in 16 bits", "[io][launch]") {
  const auto autocast = [](const std::string& dtype) {
    return deepspeed(R"(, "torch_autocast": {"enabled": true, "lower_precision_safe_modules": ["torch.nn.Linear"])" +
                     dtype + "}");
  };
  const ImportedRun run = autocast(R"(, "dtype": "float16")");
  CHECK(run.scenario.training.dtype == Precision::fp16);
  CHECK(run.scenario.training.grad_reduce_dtype == Precision::fp16);
  CHECK(assumes(run, "torch_autocast: parameters are in 16 bits here beside an fp32 copy"));
  CHECK(run.unmapped.empty());
  CHECK(autocast("").scenario.training.dtype == Precision::bf16);
  CHECK(autocast(R"(, "dtype": "torch.bfloat16")").scenario.training.dtype == Precision::bf16);
  const ImportedRun off = deepspeed(R"(, "torch_autocast": {"enabled": false, "dtype": "bfloat16"})");
  CHECK(off.scenario.training.dtype == Precision::fp32);
  CHECK(refusal("deepspeed", R"({"torch_autocast": {"enabled": true, "dtype": "int8"}})", "ds.json",
                givens("llama-3.1-8b", 8))
            .find("torch_autocast.dtype = \"int8\": is not supported") != std::string::npos);
}

TEST_CASE("launchers: DeepSpeed's master weights and states of 16 bits", "[io][launch][error]") {
  const auto settings = [](const std::string& bf16, int stage) {
    return fmt::format(R"("train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true{}}}, )"
                       R"("zero_optimization": {{"stage": {}}})",
                       bf16, stage);
  };
  const std::string masters = R"(, "bf16_master_weights_and_grads": true)",
                    states = R"(, "bf16_optimizer_states": true)";
  const RunGivens given = givens("llama-3.1-8b", 8);
  const auto run = [&](const std::string& bf16) {
    return imported("deepspeed", "{" + settings(bf16, 2) + "}", "ds.json", given);
  };
  const ImportedRun both = run(masters + states);
  CHECK_FALSE(both.scenario.training.master_weights);
  CHECK(both.scenario.training.optimizer_state_dtype == Precision::bf16);
  CHECK(both.unmapped.empty());
  CHECK(assumes(run(masters), "the optimizer's states have 16 bits here, as its parameters"));
  CHECK(run("").scenario.training.master_weights);
  CHECK(refusal("deepspeed", "{" + settings(states, 2) + "}", "ds.json", given) ==
        "ds.json:1: bf16.bf16_optimizer_states = true: needs bf16.bf16_master_weights_and_grads: true");
  CHECK(refusal("deepspeed", "{" + settings(masters, 0) + "}", "ds.json", given).find("needs ZeRO") !=
        std::string::npos);
  const std::string emitted = emit_run("deepspeed", both.scenario).text;
  CHECK(imported("deepspeed", emitted, "ds.json", given).scenario.training == both.scenario.training);
}

TEST_CASE("launchers: Accelerate compiles the model with INDUCTOR", "[io][launch]") {
  const auto compiled = [](const std::string& dynamo) { return accelerate("distributed_type: FSDP\n" + dynamo); };
  const std::string section = "dynamo_config:\n  dynamo_mode: default\n  dynamo_use_dynamic: false\n  dynamo_backend: ";
  const ImportedRun run = compiled(section + "INDUCTOR\n");
  CHECK(run.scenario.training.compiled);
  CHECK(run.unmapped.empty());
  for (const char* off : {"'NO'", "NO"}) {
    const ImportedRun eager = compiled(section + off + "\n");
    CHECK_FALSE(eager.scenario.training.compiled);
    CHECK(eager.unmapped.empty());
  }
  CHECK(assumes(compiled(section + "AOT_EAGER\n"), "dynamo_config.dynamo_backend = aot_eager: not modelled"));
  const std::string emitted = emit_run("accelerate", in_plain_terms(run.scenario)).text;
  CHECK(imported("accelerate", emitted, "a.yaml", givens("llama-3.1-8b", 8)).scenario.training.compiled);
}

TEST_CASE("launchers: DeepSpeed has one narrow type, and devices of its own", "[io][launch][error]") {
  CHECK(deepspeed(R"(, "bfloat16": {"enabled": true})").scenario.training.dtype == Precision::bf16);
  const auto refused = [](const std::string& settings) {
    return refusal("deepspeed", "{" + settings + "}", "ds.json", givens("llama-3.1-8b", 8));
  };
  CHECK(refused(R"("bf16": {"enabled": true}, "fp16": {"enabled": true})") ==
        "ds.json:1: fp16.enabled = true: excludes bf16.enabled");
  CHECK(refused(R"("zero_optimization": {"stage": 3, "offload_optimizer": {"device": "CPU"}})") ==
        "ds.json:1: zero_optimization.offload_optimizer.device = \"CPU\": is not supported (allowed: none cpu nvme)");
  CHECK(refusal("accelerate", "distributed_type: DEEPSPEED\ndeepspeed_config:\n  offload_param_device: cup\n", "a.yaml",
                givens("llama-3.1-8b", 8)) ==
        "a.yaml:3: deepspeed_config.offload_param_device = \"cup\": is not supported (allowed: none cpu nvme)");
  CHECK(assumes(accelerate("distributed_type: DEEPSPEED\ndeepspeed_config:\n  offload_optimizer_device: auto\n"),
                "deepspeed_config.offload_optimizer_device is \"auto\", which the launcher fills in: taken as none"));
}

TEST_CASE("launchers: DeepSpeed's optimizers by their names, and settings that have an effect", "[io][launch]") {
  CHECK(deepspeed(R"(, "optimizer": {"type": "MuAdamW"})").scenario.training.optimizer == OptimizerKind::adam);
  CHECK(refusal("deepspeed", R"({"optimizer": {"type": "OneBitAdam"}})", "ds.json", givens("llama-3.1-8b", 8)) ==
        "ds.json:1: optimizer.type = \"OneBitAdam\": is not supported (allowed: Adam AdamW MuAdam MuAdamW Lamb SGD "
        "MuSGD)");
  const ImportedRun run = deepspeed(
      R"(, "fp16": {"enabled": true, "loss_scale": 0, "fp16_master_weights_and_grads": true},
      "bf16": {"enabled": false, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true},
      "zero_optimization": {"stage": 1, "reduce_scatter": false, "offload_optimizer": {"device": "cpu", "ratio": 0.3}})");
  CHECK(unmapped(run) == Texts{"bf16.bf16_master_weights_and_grads", "bf16.bf16_optimizer_states",
                               "zero_optimization.reduce_scatter", "zero_optimization.offload_optimizer.ratio"});
  CHECK_FALSE(run.scenario.training.master_weights);  // those of fp16
  CHECK(deepspeed(R"(, "zero_optimization": {"reduce_scatter": true, "offload_optimizer": {"ratio": 1.0}})")
            .unmapped.empty());
}

// runtime/zero/config.py, and integrations/deepspeed.py of transformers.
TEST_CASE("launchers: DeepSpeed's ZeRO as a switch, and its sizes by all their names", "[io][launch]") {
  const auto zero = [](const std::string& settings) { return deepspeed(", \"zero_optimization\": " + settings); };
  CHECK(zero("true").scenario.parallel.zero_stage == 1);
  CHECK(zero("false").scenario.parallel.zero_stage == 0);
  CHECK(zero("true").unmapped.empty());
  const Parallel plain = zero(R"({"stage": 3, "prefetch_bucket_size": 7, "param_persistence_threshold": 8,
      "gather_16bit_weights_on_model_save": true})")
                             .scenario.parallel;
  CHECK(plain.prefetch_bucket_size == 7);
  CHECK(plain.param_persistence_threshold == 8);
  const std::string open = R"("reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
      "stage3_param_persistence_threshold": "auto")";
  const ImportedRun filled = zero("{\"stage\": 3, " + open + "}");
  CHECK(filled.scenario.parallel.reduce_bucket_size == 4096 * 4096);
  CHECK(filled.scenario.parallel.prefetch_bucket_size == 4096 * 4096 * 9 / 10);
  CHECK(filled.scenario.parallel.param_persistence_threshold == 40960);
  CHECK(assumes(filled, "parallel.reduce_bucket_size = 16777216: zero_optimization.reduce_bucket_size is \"auto\""));
  const Parallel second = zero("{\"stage\": 2, " + open + "}").scenario.parallel;
  CHECK(second.reduce_bucket_size == 4096 * 4096);
  CHECK(second.param_persistence_threshold == Parallel{}.param_persistence_threshold);
  CHECK(unmapped(zero(R"({"stage": 3, "stage3_max_live_parameters": 1e8, "max_reuse_distance": 1e8})")) ==
        Texts{"zero_optimization.stage3_max_live_parameters", "zero_optimization.max_reuse_distance"});
  CHECK(zero(R"({"stage": 3, "stage3_max_live_parameters": 1e9, "max_reuse_distance": 1000000000})").unmapped.empty());
}

TEST_CASE("launchers: DeepSpeed's global batch alone is one micro-batch of every rank", "[io][launch]") {
  const auto batch = [](const std::string& more) {
    return imported("deepspeed", R"({"train_batch_size": 64, "bf16": {"enabled": true})" + more + "}", "ds.json",
                    givens("llama-3.1-8b", 8));
  };
  CHECK(batch("").scenario.training.micro_batch_size == 8);
  CHECK(assumes(batch(""), "training.micro_batch_size = 8, which follows from the global batch"));
  CHECK(batch(R"(, "train_micro_batch_size_per_gpu": "auto")").scenario.training.micro_batch_size == 1);
  CHECK(
      refusal("deepspeed", R"({"train_batch_size": 12})", "ds.json", givens("llama-3.1-8b", 8)) ==
      "ds.json:1: train_batch_size = 12: is not a multiple of gradient_accumulation_steps = 1 x 8 data-parallel ranks");
}

TEST_CASE("launchers: DeepSpeed's file does not say whose model it trains", "[io][launch]") {
  const std::string fused =
      "the model's operators are fused: of a model of Hugging Face they are not (--set "
      "stack=deepspeed)";
  CHECK(assumes(deepspeed(""), fused));
  RunGivens eager = givens("llama-3.1-8b", 8);
  eager.overrides.emplace_back("stack=deepspeed");
  const ImportedRun run = imported("deepspeed", R"({"train_micro_batch_size_per_gpu": 1})", "ds.json", eager);
  CHECK_FALSE(assumes(run, fused));
  CHECK(run.scenario.training.unfused_elementwise);
}

TEST_CASE("launchers: Accelerate starts DeepSpeed as its own file does", "[io][launch]") {
  const std::string section =
      "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n  offload_optimizer_device: nvme\n"
      "  offload_param_device: none\n";
  const ImportedRun run = accelerate(section);
  CHECK(run.scenario.training.offload_optimizer);
  CHECK(assumes(run, "deepspeed_config.offload_optimizer_device = nvme: taken as cpu"));
  CHECK(run.scenario.training.grad_reduce_dtype == Precision::bf16);
  CHECK(run.scenario.training.unfused_elementwise);  // Transformers' models
  CHECK_FALSE(run.scenario.parallel.overlap_grad_reduce);
  CHECK_FALSE(run.scenario.parallel.overlap_param_gather);
  CHECK(run.unmapped.empty());
  const ImportedRun plain = accelerate("distributed_type: DEEPSPEED\n");
  CHECK(plain.scenario.parallel.zero_stage == 2);
  CHECK(assumes(plain, "deepspeed_config.zero_stage = 2, Accelerate's default"));
}

// MegatronLMPlugin.set_mixed_precision, and validate_args of Megatron-LM.
TEST_CASE("launchers: Accelerate starts Megatron-LM with its own defaults", "[io][launch]") {
  const RunGivens given = givens("llama-3.1-8b", 8);
  for (const std::string& type : {"bf16", "fp16"}) {
    const Scenario theirs =
        imported("accelerate",
                 "distributed_type: MEGATRON_LM\nmixed_precision: " + type +
                     "\nmegatron_lm_config:\n  megatron_lm_num_micro_batches: 2\n  megatron_lm_pp_degree: 2\n"
                     "  megatron_lm_tp_degree: 2\n  megatron_lm_use_distributed_optimizer: true\n"
                     "  megatron_lm_recompute_activations: true\n",
                 "a.yaml", given)
            .scenario;
    const Scenario ours = imported("megatron",
                                   "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size "
                                   "1 --global-batch-size 4 --use-distributed-optimizer --recompute-activations --" +
                                       type,
                                   "a.sh", given)
                              .scenario;
    CHECK(RunSettings(theirs).left() == RunSettings(ours).left());
    CHECK_FALSE(theirs.parallel.overlap_grad_reduce);
    CHECK(theirs.training.grad_reduce_dtype == (type == "bf16" ? Precision::fp32 : Precision::fp16));
  }
}

// commands/launch.py: without mixed_precision it is "no".
TEST_CASE("launchers: Accelerate's precision is fp32 unless the file says another", "[io][launch]") {
  const std::string assumed = "training.dtype = fp32: the file has no mixed_precision";
  const auto run = [](const std::string& file, const std::vector<std::string>& settings) {
    RunGivens given = givens("llama-3.1-8b", 8);
    given.overrides.insert(given.overrides.end(), settings.begin(), settings.end());
    return imported("accelerate", file, "a.yaml", given);
  };
  for (const std::string& type : {"FSDP", "DEEPSPEED", "MEGATRON_LM", "MULTI_GPU"}) {
    const std::string file = "distributed_type: " + type + "\n";
    CHECK(run(file, {}).scenario.training.dtype == Precision::fp32);
    CHECK(run(file, {}).scenario.training.grad_reduce_dtype == Precision::fp32);
    CHECK(assumes(run(file, {}), assumed));
    CHECK_FALSE(assumes(run(file + "mixed_precision: 'no'\n", {}), assumed));
  }
  const ImportedRun chosen = run("distributed_type: FSDP\n", {"training.dtype=bf16"});
  CHECK(chosen.scenario.training.grad_reduce_dtype == Precision::bf16);
  CHECK_FALSE(assumes(chosen, assumed));
  // A stack that --set gives does not shard what MULTI_GPU copies.
  const Scenario copies = run("distributed_type: MULTI_GPU\n", {"stack=torchtitan"}).scenario;
  CHECK(copies.parallel.zero_stage == 0);
  CHECK(copies.stack == "torchtitan");
  CHECK(run("distributed_type: MULTI_GPU\n", {}).scenario.stack == "hugging-face");
}

TEST_CASE("launchers: Accelerate's strategy of FSDP by either of its names", "[io][launch]") {
  const auto fsdp = [](const std::string& config) {
    return accelerate("distributed_type: FSDP\nfsdp_config:\n" + config).scenario.parallel;
  };
  CHECK(fsdp("  fsdp_version: 1\n  fsdp_reshard_after_forward: FULL_SHARD\n").reshard_after_forward);
  CHECK_FALSE(fsdp("  fsdp_reshard_after_forward: SHARD_GRAD_OP\n").reshard_after_forward);
  CHECK_FALSE(fsdp("  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n").reshard_after_forward);
  CHECK(fsdp("  fsdp_version: 2\n  fsdp_reshard_after_forward: 1\n").reshard_after_forward);
  CHECK(fsdp("  fsdp_reshard_after_forward: NO_SHARD\n").zero_stage == 0);
}

TEST_CASE("launchers: Accelerate wraps layers and gathers ahead, or says that it does not", "[io][launch]") {
  const auto left = [](const std::string& config) {
    return unmapped(accelerate("distributed_type: FSDP\nfsdp_config:\n" + config));
  };
  CHECK(left("  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_backward_prefetch: BACKWARD_PRE\n"
             "  fsdp_forward_prefetch: false\n")
            .empty());
  const std::string none =
      "  fsdp_auto_wrap_policy: NO_WRAP\n  fsdp_backward_prefetch: NO_PREFETCH\n  fsdp_forward_prefetch: ON\n";
  const std::string wrap = "fsdp_config.fsdp_auto_wrap_policy";
  CHECK(left(none) == Texts{wrap, "fsdp_config.fsdp_backward_prefetch", "fsdp_config.fsdp_forward_prefetch"});
  CHECK(left("  fsdp_version: 2\n" + none) == Texts{wrap});  // which has no such settings
}

TEST_CASE("launchers: Accelerate's sizes make the job", "[io][launch][error]") {
  const auto mesh = [](int shard) {
    return fmt::format(
        "num_processes: 8\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nparallelism_config:\n"
        "  parallelism_config_dp_shard_size: {}\n  parallelism_config_tp_size: 2\n",
        shard);
  };
  CHECK(imported("accelerate", mesh(4), "a.yaml", givens("llama-3.1-8b", 0)).scenario.parallel.tp == 2);
  CHECK(accelerate("distributed_type: FSDP\nparallelism_config:\n  parallelism_config_dp_shard_size: 1\n")
            .unmapped.empty());
  CHECK(refusal("accelerate", mesh(8), "a.yaml", givens("llama-3.1-8b", 0)) ==
        "a.yaml:6: parallelism_config.parallelism_config_dp_shard_size = 8: makes 16 GPUs (8 data-parallel ranks x cp "
        "1 x tp "
        "2 x pp 1), and the job has 8");
}

TEST_CASE("launchers: AutoModel's DDP, and its batches before global_batch_size", "[io][launch]") {
  const auto automodel = [](const std::string& settings) {
    return imported("automodel",
                    "model: {pretrained_model_name_or_path: meta-llama/Llama-3.1-8B}\ndataset: {seq_length: 4096}\n" +
                        settings,
                    "a.yaml", {.model = "", .topology = "dgx-h100", .gpus = 8, .overrides = {}})
        .scenario;
  };
  const Scenario ddp = automodel("distributed: {strategy: ddp}\nstep_scheduler: {local_batch_size: 1}\n");
  CHECK(ddp.parallel.zero_stage == 0);
  CHECK(ddp.parallel.data_parallel == DataParallelKind::ddp);
  const std::string old = "step_scheduler: {grad_acc_steps: 4}\ndataloader: {batch_size: 2}\n";
  const Scenario plain = automodel("distributed: {tp_size: 2}\n" + old);
  CHECK(plain.training.micro_batch_size == 2);
  CHECK(plain.training.global_batch_size == 2 * 4 * 4);
  const Scenario piped = automodel("distributed: {pp_size: 2, pipeline: {pp_microbatch_size: 1}}\n" + old);
  CHECK(piped.training.micro_batch_size == 1);
  CHECK(piped.training.global_batch_size == 2 * 4 * 4);
}

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

TEST_CASE("launchers: DeepSpeed moves the optimizer from stage 1 on, and parameters at stage 3", "[io][launch]") {
  const auto offloaded = [](int stage, const std::string& what) {
    return deepspeed(fmt::format(R"(, "zero_optimization": {{"stage": {}, {}}})", stage, what));
  };
  const std::string optimizer = R"("offload_optimizer": {"device": "cpu"})";
  const std::string parameters = R"("offload_param": {"device": "cpu", "pin_memory": true})";
  const ImportedRun both = offloaded(3, optimizer + ", " + parameters);
  CHECK(both.scenario.training.offload_optimizer);
  CHECK(both.scenario.training.offload_parameters);
  CHECK(both.unmapped.empty());
  for (const int stage : {1, 2}) {
    const ImportedRun run = offloaded(stage, optimizer + ", " + parameters);
    CHECK(run.scenario.training.offload_optimizer);
    CHECK_FALSE(run.scenario.training.offload_parameters);
    CHECK(assumes(run, fmt::format("zero_optimization.offload_param.device: no effect at stage {}", stage)));
  }
  const ImportedRun alone = offloaded(3, parameters);
  CHECK_FALSE(alone.scenario.training.offload_parameters);
  CHECK(assumes(alone,
                "zero_optimization.offload_param.device: not modelled without "
                "zero_optimization.offload_optimizer.device; parameters stay on the GPU"));
  CHECK(refusal("deepspeed", R"({"zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}})",
                "ds.json", givens("llama-3.1-8b", 8)) ==
        "ds.json:1: zero_optimization.offload_optimizer.device = \"cpu\": needs ZeRO: DeepSpeed offloads the optimizer "
        "at stages 1, 2 and 3 only");
  CHECK(refusal("deepspeed", R"({"zero_optimization": {"cpu_offload": true}})", "ds.json", givens("llama-3.1-8b", 8))
            .find("zero_optimization.cpu_offload = true: needs ZeRO") != std::string::npos);
  CHECK(accelerate("distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: cpu\n"
                   "  offload_param_device: cpu\n")
            .scenario.training.offload_parameters);
}

TEST_CASE("launchers: FSDP moves parameters and optimizer to the host together", "[io][launch]") {
  const auto both = [](const ImportedRun& run) {
    CHECK(run.unmapped.empty());
    return run.scenario.training.offload_optimizer && run.scenario.training.offload_parameters;
  };
  CHECK(both(accelerate("distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_offload_params: true\n")));
  CHECK_FALSE(both(accelerate("distributed_type: FSDP\nfsdp_config:\n  fsdp_offload_params: false\n")));
  const std::string toml =
      "[training]\nseq_len = 4096\nlocal_batch_size = 1\nenable_cpu_offload = true\n[parallelism]\n";
  CHECK(both(imported("torchtitan", toml, "a.toml", givens("llama-3.1-8b", 8))));
  const ImportedRun ddp =
      imported("torchtitan", toml + "data_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 8\n", "a.toml",
               givens("llama-3.1-8b", 8));
  CHECK_FALSE(ddp.scenario.training.offload_optimizer);
  CHECK(unmapped(ddp) == Texts{"training.enable_cpu_offload"});
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
  const std::string stack = "stack=hugging-face";  // whose FSDP is version 1, Accelerate's default
  CHECK((ddp == numbers(by_hand({stack, "parallel.zero_stage=0", "parallel.data_parallel=ddp",
                                 "training.grad_reduce_dtype=fp32"}))));
  const auto fsdp2 = numbers(training("FSDP", "bf16", "fsdp_config:\n  fsdp_version: 2\n"));
  CHECK((fsdp == numbers(by_hand({stack}))));
  CHECK((fsdp2 == numbers(by_hand({stack, "parallel.data_parallel=automatic"}))));
  CHECK(fsdp2.first != fsdp.first);
  CHECK(fsdp.first < ddp.first);
  const std::string mesh = "parallelism_config:\n  parallelism_config_cp_size: 2\n";
  CHECK(training("FSDP", "bf16", mesh).parallel.cp_comm_type == ContextExchange::all_gather);
  CHECK(training("FSDP", "bf16", mesh + "  parallelism_config_cp_comm_strategy: alltoall\n").parallel.cp_comm_type ==
        ContextExchange::p2p);
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

TEST_CASE("launchers: AutoModel's compiled models, dispatchers, states and losses", "[io][launch]") {
  const auto automodel = [](const std::string& model, const std::string& more, int experts = 1) {
    return imported(
        "automodel",
        fmt::format("step_scheduler: {{global_batch_size: 64, local_batch_size: 1}}\nmodel:\n"
                    "  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config\n{}"
                    "distributed:\n  strategy: fsdp2\n  ep_size: {}\ndataset:\n  seq_length: 4096\n{}",
                    model, experts, more),
        "a.yaml",
        {.model = experts > 1 ? "qwen3-30b-a3b" : "llama-3.1-8b", .topology = "dgx-h100", .gpus = 16, .overrides = {}});
  };
  for (const int experts : {1, 8}) {  // each has a stack of its own
    const Training t = automodel("", "compile: {enabled: true}\n", experts).scenario.training;
    CHECK(t.compiled);
    CHECK_FALSE(t.unfused_elementwise);
    CHECK_FALSE(t.fused_norms);
    CHECK(automodel("", "", experts).scenario.training.fused_norms);
  }

  const auto dispatcher = [&](const std::string& backend, int experts) {
    return automodel("  backend:\n    " + backend + "\n", "", experts);
  };
  CHECK(automodel("", "", 8).scenario.parallel.moe_dispatcher == MoeDispatcher::deepep);
  CHECK(dispatcher("dispatcher: hybridep", 8).scenario.parallel.moe_dispatcher == MoeDispatcher::hybridep);
  const ImportedRun gathers = dispatcher("dispatcher: torch", 8);
  CHECK(gathers.scenario.parallel.moe_dispatcher == MoeDispatcher::alltoall);
  CHECK(assumes(gathers, "model.backend.dispatcher: tokens are sent to their experts here"));
  CHECK(dispatcher("enable_deepep: false", 8).scenario.parallel.moe_dispatcher == MoeDispatcher::alltoall);

  const ImportedRun states =
      automodel("",
                "optimizer:\n  _target_: transformer_engine.pytorch.optimizers.fused_adam.FusedAdam\n  lr: 1.0e-4\n"
                "  master_weights: false\n  exp_avg_dtype: torch.bfloat16\n  exp_avg_sq_dtype: torch.bfloat16\n"
                "  store_param_remainders: true\n");
  CHECK_FALSE(states.scenario.training.master_weights);
  CHECK(states.scenario.training.optimizer_state_dtype == Precision::bf16);
  CHECK(unmapped(states) == Texts{"optimizer.store_param_remainders"});
  const ImportedRun wide = automodel(
      "", "optimizer: {master_weights: true, exp_avg_dtype: torch.float32, exp_avg_sq_dtype: torch.float32}\n", 8);
  CHECK(wide.scenario.training.master_weights);
  CHECK(wide.scenario.training.optimizer_state_dtype == Precision::fp32);

  const auto loss = [&](const std::string& name) {
    return automodel("", "loss_fn:\n  _target_: nemo_automodel.components.loss." + name + "\n");
  };
  const ImportedRun linear = loss("linear_ce.FusedLinearCrossEntropy");
  CHECK(linear.scenario.training.cross_entropy == CrossEntropy::fused);
  CHECK(assumes(linear, "loss_fn._target_: counted as one kernel behind the output layer"));
  CHECK(loss("te_parallel_ce.TEParallelCrossEntropy").scenario.training.cross_entropy == CrossEntropy::fused);
  CHECK_FALSE(assumes(loss("masked_ce.MaskedCrossEntropy"), "loss_fn"));
  CHECK(assumes(loss("chunked_ce.ChunkedCrossEntropy"), "taken as the loss of the stack"));
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

// DeepSpeedEngine._do_optimizer_sanity_check (docs/references.md#format-deepspeed).
TEST_CASE("launchers: DeepSpeed's optimizer of bf16 divides its states without ZeRO, too", "[io][launch]") {
  const ImportedRun run = deepspeed(R"(, "bf16": {"enabled": true}, "zero_optimization": {"stage": 0})");
  CHECK(run.scenario.parallel.zero_stage == 1);
  CHECK(run.scenario.training.grad_reduce_dtype == Precision::fp32);
  CHECK(run.scenario.training.keep_16bit_gradients);
  CHECK(assumes(run, "at stage 0 DeepSpeed's BF16_Optimizer divides the optimizer's states"));
  CHECK(deepspeed(R"(, "bf16": {"enabled": true})").scenario.parallel.zero_stage == 1);
  CHECK(deepspeed(R"(, "fp16": {"enabled": true})").scenario.parallel.zero_stage == 0);
  CHECK(accelerate("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 0}\n").scenario.parallel.zero_stage ==
        1);

  const auto typed = [](int stage, const std::string& type) {
    return fmt::format(R"(, "bf16": {{"enabled": true}}, "zero_optimization": {{"stage": {}}}, )"
                       R"("data_types": {{"grad_accum_dtype": "{}"}})",
                       stage, type);
  };
  CHECK(deepspeed(typed(1, "fp32")).scenario.training.keep_16bit_gradients);
  CHECK_FALSE(deepspeed(typed(1, "bf16")).scenario.training.keep_16bit_gradients);
  CHECK(assumes(deepspeed(typed(2, "fp32")), "data_types.grad_accum_dtype = fp32: not modelled at stage 2"));
  CHECK(refusal("deepspeed", "{\"train_micro_batch_size_per_gpu\": 1" + typed(0, "bf16") + "}", "ds.json",
                givens("llama-3.1-8b", 8)) ==
        "ds.json:1: data_types.grad_accum_dtype = \"bf16\": needs ZeRO: at stage 0 DeepSpeed adds gradients of bf16 up "
        "in "
        "fp32");
  // A run whose states are whole cannot be said so.
  Scenario whole = run.scenario;
  whole.parallel.zero_stage = 0;
  const Texts left = emit_run("deepspeed", whole).unmapped;
  CHECK(std::ranges::find(left, "parallel.zero_stage=0") != left.end());
}

// components/moe/config.py (MoEParallelizerConfig), components/models/common/utils.py (TEFp8Config).
TEST_CASE("launchers: AutoModel's mixtures of experts have a section of their own, and types of their backend",
          "[io][launch]") {
  const auto automodel = [](const std::string& more, const std::string& backend = "") {
    return imported("automodel",
                    "step_scheduler: {global_batch_size: 64, local_batch_size: 1}\nmodel:\n"
                    "  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config\n  backend:\n    attn: te\n" +
                        backend + "distributed:\n  ep_size: 8\n" + more + "dataset:\n  seq_length: 4096\n",
                    "a.yaml", {.model = "qwen3-30b-a3b", .topology = "dgx-h100", .gpus = 16, .overrides = {}});
  };
  const ImportedRun plain = automodel("");
  CHECK_FALSE(plain.scenario.parallel.reshard_after_forward);
  CHECK_FALSE(assumes(plain, "reshard_after_forward"));
  for (const std::string& section :
       {std::string("  moe:\n    reshard_after_forward: true\n"), std::string("parallelizer:\n  _target_: a.b\n"
                                                                              "  reshard_after_forward: true\n")})
    CHECK(automodel(section).scenario.parallel.reshard_after_forward);
  const ImportedRun full =
      automodel("parallelizer:\n  activation_checkpointing: true\n  ignore_router_for_ac: false\n");
  CHECK(full.scenario.training.recompute == Recompute::full);
  CHECK(unmapped(full) == Texts{"model.backend.attn"});
  const auto type = [&](const std::string& fp8) {
    return automodel("", "    te_fp8:\n" + fp8).scenario.training.dtype;
  };
  CHECK(type("      _target_: a.TEFp8Config\n      recipe: current\n") == Precision::fp8);
  CHECK(type("      _target_: a.TEFp8Config\n") == Precision::fp8);
  CHECK(type("      recipe: block\n") == Precision::fp8_block);
  CHECK(automodel("", "    te_fp8:\n      recipe: current\n").scenario.training.fp8_scaling == Fp8Scaling::current);
}

// components/distributed/pipelining/functional.py: calculate_virtual_stages; the first stages have the layers that are left over.
TEST_CASE("launchers: AutoModel rounds its virtual stages", "[io][launch]") {
  const auto text = [](const std::string& rounding) {
    return "model:\n  _target_: nemo_automodel.X\nstep_scheduler: {global_batch_size: 64, local_batch_size: 8}\n"
           "distributed: {pp_size: 4, pipeline: {pp_schedule: interleaved1f1b, layers_per_stage: 3" +
           rounding + "}}\ndataset: {seq_length: 4096}\n";  // 32 layers: 11 stages
  };
  const RunGivens given{.model = "llama-3.1-8b", .topology = "dgx-h100", .gpus = 8, .overrides = {}};
  const auto layout = [&](const std::string& rounding) {
    const Parallel p =
        imported("automodel", text(", round_virtual_stages_to_pp_multiple: " + rounding), "a.yaml", given)
            .scenario.parallel;
    return std::pair(p.vpp, p.pp_layout);
  };
  CHECK(layout("down") == std::pair(2, std::vector{4, 4, 4, 4, 4, 4, 4, 4}));
  CHECK(layout("up") == std::pair(3, std::vector{3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2}));
  CHECK(refusal("automodel", text(""), "a.yaml", given).find("makes 11 stages, no multiple of 4 pipeline ranks") !=
        std::string::npos);
}
