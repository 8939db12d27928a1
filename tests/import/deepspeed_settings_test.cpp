// Settings of DeepSpeed that once were lost, taken for others or refused.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "tests/import/launched.hpp"

using namespace tracecast;

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
