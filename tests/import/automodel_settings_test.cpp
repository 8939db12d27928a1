// Settings of AutoModel that once were lost, taken for others or refused.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;

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

TEST_CASE("launchers: AutoModel's Megatron-FSDP has units of its own, and views of what it gathers", "[io][launch]") {
  const auto automodel = [](const std::string& distributed) {
    return imported("automodel",
                    "model: {pretrained_model_name_or_path: meta-llama/Llama-3.1-8B}\ndataset: {seq_length: 4096}\n"
                    "step_scheduler: {global_batch_size: 64, local_batch_size: 1}\ndistributed: {" +
                        distributed + "}\n",
                    "a.yaml", {.model = "", .topology = "dgx-h100", .gpus = 8, .overrides = {}})
        .scenario.parallel;
  };
  const Parallel fsdp2 = automodel("strategy: fsdp2");
  CHECK(fsdp2.joint_root);
  CHECK_FALSE(fsdp2.gathers_in_place);
  const Parallel megatron = automodel("strategy: megatron_fsdp");
  CHECK(megatron.zero_stage == 3);
  CHECK_FALSE(megatron.joint_root);
  CHECK(megatron.gathers_in_place);
  const Parallel states = automodel("strategy: megatron_fsdp, zero_dp_strategy: 1");
  CHECK(states.zero_stage == 1);
  CHECK_FALSE(states.joint_root);
  CHECK_FALSE(states.gathers_in_place);
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

// auto_model.py: torch_dtype="auto"; FSDP2 shards what was loaded.
TEST_CASE("launchers: AutoModel's parameters and states have the type that the model is loaded in", "[io][launch]") {
  const auto automodel = [](const std::string& type, const std::string& optimizer = "",
                            const std::vector<std::string>& overrides = {}) {
    return imported("automodel",
                    "model:\n  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B\n" + type +
                        "dataset: {seq_length: 4096}\nstep_scheduler: {global_batch_size: 64, local_batch_size: 1}\n"
                        "distributed: {strategy: fsdp2, sequence_parallel: false}\noptimizer: {lr: 1.0e-5" +
                        optimizer + "}\n",
                    "a.yaml", {.model = "", .topology = "dgx-h100", .gpus = 8, .overrides = overrides});
  };
  const auto states = [](const ImportedRun& run) {
    return std::pair(run.scenario.training.master_weights, run.scenario.training.optimizer_state_dtype);
  };
  const ImportedRun plain = automodel("");
  CHECK(states(plain) == std::pair(false, Precision::bf16));
  CHECK(assumes(plain, "training.master_weights = false: the file has no torch_dtype"));
  CHECK(assumes(plain, "training.optimizer_state_dtype = bf16: the file has no torch_dtype"));
  CHECK(plain.unmapped.empty());
  for (const char* type : {"bf16", "bfloat16", "torch.bfloat16"}) {
    const ImportedRun run = automodel(std::string("  torch_dtype: ") + type + "\n");
    CHECK(states(run) == std::pair(false, Precision::bf16));
    CHECK_FALSE(assumes(run, "master_weights"));
    CHECK(run.unmapped.empty());
  }
  for (const char* type : {"fp32", "float32", "torch.float32"})
    CHECK(states(automodel(std::string("  torch_dtype: ") + type + "\n")) == std::pair(true, Precision::fp32));
  CHECK(states(automodel("  torch_dtype: bf16\n", ", master_weights: true")) == std::pair(true, Precision::bf16));
  CHECK(assumes(automodel("  torch_dtype: float16\n"), "model.torch_dtype = float16 is taken as bf16"));
  // What the optimizer or the user says is not assumed.
  for (const ImportedRun& run :
       {automodel("", ", master_weights: true, exp_avg_dtype: float32, exp_avg_sq_dtype: float32"),
        automodel("", "", {"training.master_weights=true", "training.optimizer_state_dtype=fp32"})}) {
    CHECK(states(run) == std::pair(true, Precision::fp32));
    CHECK_FALSE(assumes(run, "training."));
  }
}
