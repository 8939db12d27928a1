// Settings of DeepSpeed, Accelerate, AutoModel and Hugging Face that once were lost, taken for others or refused.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "tests/import/launched.hpp"
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
  const ImportedRun both = deepspeed(R"(, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"})");
  CHECK(both.scenario.training.dtype == Precision::bf16);
  CHECK(both.scenario.training.grad_reduce_dtype == Precision::bf16);
  CHECK(assumes(both, "training.dtype = bf16: bf16.enabled is \"auto\", which the training script fills in"));
  CHECK(deepspeed(R"(, "fp16": {"enabled": "auto"})").scenario.training.dtype == Precision::fp16);
  CHECK(deepspeed(R"(, "bf16": {"enabled": "auto"}, "fp16": {"enabled": true})").scenario.training.dtype ==
        Precision::fp16);
  CHECK(deepspeed("").scenario.training.dtype == Precision::fp32);
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
  CHECK(unmapped(run) == Texts{"fp16.fp16_master_weights_and_grads", "bf16.bf16_master_weights_and_grads",
                               "bf16.bf16_optimizer_states", "zero_optimization.reduce_scatter",
                               "zero_optimization.offload_optimizer.ratio"});
  CHECK(deepspeed(R"(, "zero_optimization": {"reduce_scatter": true, "offload_optimizer": {"ratio": 1.0}})")
            .unmapped.empty());
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
