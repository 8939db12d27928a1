// Settings of Accelerate that once were lost, taken for others or refused.
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/setting_rows.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

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

// commands/config/config_args.py: from_yaml_file refuses keys that are not fields of ClusterConfig or its base.
TEST_CASE("launchers: Accelerate knows every key of what is emitted", "[io][launch]") {
  const Texts fields{"compute_environment", "distributed_type",   "mixed_precision", "num_processes",
                     "num_machines",        "deepspeed_config",   "fsdp_config",     "fp8_config",
                     "dynamo_config",       "megatron_lm_config", "use_cpu",         "parallelism_config"};
  for (const Texts& settings : {Texts{}, Texts{"training.compiled=true"}, Texts{"parallel.zero_stage=0"}}) {
    const EmittedRun run = emit_run("accelerate", in_plain_terms(shipped_scenario("llama3-70b-fsdp-8", settings)));
    for (std::size_t begin = 0; begin < run.text.size(); begin = run.text.find('\n', begin) + 1) {
      if (run.text[begin] == ' ') continue;
      CHECK_THAT(fields, Catch::VectorContains(run.text.substr(begin, run.text.find(':', begin) - begin)));
    }
  }
  const auto emitted = [](const std::string& gpus, const std::string& batch) {
    return emit_run("accelerate", in_plain_terms(shipped_scenario("llama3-70b-fsdp-8",
                                                                  {"cluster.world_size=" + gpus, "parallel.dp=" + gpus,
                                                                   "training.global_batch_size=" + batch})));
  };
  CHECK(emitted("8", "8").text.find("num_machines: 1\n") != std::string::npos);
  CHECK(emitted("64", "64").text.find("num_machines: 8\n") != std::string::npos);
  const std::string accumulated = "training.global_batch_size=16";
  CHECK_THAT(emitted("8", "16").unmapped, Catch::VectorContains(accumulated));
  CHECK(std::ranges::count(emitted("8", "8").unmapped, "training.global_batch_size=8") == 0);
  CHECK(accelerate("distributed_type: FSDP\ngradient_accumulation_steps: 4\n").scenario.training.global_batch_size ==
        32);
}
