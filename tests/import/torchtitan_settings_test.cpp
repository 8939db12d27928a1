// Settings of torchtitan that once were lost, taken for others or refused.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

std::string titan(const std::string& settings, const std::string& model = "", const std::string& name = "llama3",
                  const std::string& flavour = "8B") {
  return "[model]\nname = \"" + name + "\"\nflavor = \"" + flavour + "\"\n" + model + settings;
}

ImportedRun torchtitan(const std::string& toml, int gpus = 8) {
  return imported("torchtitan", toml, "t.toml",
                  {.model = "", .topology = "dgx-h100", .gpus = gpus, .overrides = {"training.seq_length=8192"}});
}

std::string torchtitan_refusal(const std::string& toml, int gpus = 8) {
  return refusal("torchtitan", toml, "t.toml",
                 {.model = "", .topology = "dgx-h100", .gpus = gpus, .overrides = {"training.seq_length=8192"}});
}

const std::string kLocal = "[training]\nlocal_batch_size = 1\n";

}  // namespace
TEST_CASE("launchers: torchtitan divides parameters over the ranks of context parallelism", "[io][launch]") {
  const auto layout = [](int shard, int cp, int copies = 1) {
    return torchtitan(titan(kLocal + fmt::format("[parallelism]\ndata_parallel_shard_degree = {}\n"
                                                 "context_parallel_degree = {}\ndata_parallel_replicate_degree = {}\n",
                                                 shard, cp, copies)))
        .scenario.parallel;
  };
  CHECK(layout(1, 8).zero_stage == 3);
  CHECK(layout(1, 1, 8).zero_stage == 0);
  CHECK(layout(1, 4, 2).zero_stage == 3);
  CHECK(layout(1, 4, 2).shard_group == 4);
  // Nothing divided over context-parallel ranks cannot be said.
  const Scenario whole = shipped_scenario("torchtitan-llama3-8b-128gpu", {"parallel.zero_stage=0", "parallel.cp=2"});
  CHECK_THAT(emit_run("torchtitan", whole).unmapped, Catch::VectorContains(std::string("parallel.zero_stage=0")));
}

TEST_CASE("launchers: torchtitan's names of early 2025", "[io][launch]") {
  const ImportedRun run =
      torchtitan(titan("[training]\nbatch_size = 3\ntensor_parallel_degree = 2\ndata_parallel_shard_degree = 1\n"
                       "data_parallel_replicate_degree = 2\ncompile = true\n"
                       "[experimental]\ncontext_parallel_degree = 2\nenable_async_tensor_parallel = true\n"
                       "pipeline_parallel_degree = 1\ncustom_import = \"\"\n[float8]\nenable_float8_linear = true\n"));
  CHECK(run.scenario.training.micro_batch_size == 3);
  CHECK(run.scenario.parallel.tp == 2);
  CHECK(run.scenario.parallel.cp == 2);
  CHECK(run.scenario.parallel.tp_comm_overlap);
  CHECK(run.scenario.parallel.shard_group == 2);
  CHECK(run.scenario.training.compiled);
  CHECK(run.scenario.training.dtype == Precision::fp8);
  CHECK(run.unmapped.empty());
  CHECK(torchtitan_refusal(titan(kLocal + "[experimental]\npipeline_parallel_degree = 4\n"))
            .find("experimental.pipeline_parallel_degree = 4: is of early 2025") != std::string::npos);
}

TEST_CASE("launchers: torchtitan compiles the model, the loss, or both", "[io][launch]") {
  const auto compiled = [](const std::string& components) {
    const Training t = torchtitan(titan(kLocal + "[compile]\nenable = true\n" + components)).scenario.training;
    return std::tuple(t.compiled, t.unfused_elementwise, t.cross_entropy);
  };
  CHECK(compiled("") == std::tuple(true, false, CrossEntropy::automatic));
  CHECK(compiled("components = [\"model\", \"loss\"]\n") == std::tuple(true, false, CrossEntropy::automatic));
  CHECK(compiled("components = [\"model\"]\n") == std::tuple(true, false, CrossEntropy::pytorch));
  CHECK(compiled("components = [\"loss\"]\n") == std::tuple(false, true, CrossEntropy::compiled));
  const auto emitted = [](const std::vector<std::string>& training) {
    return emit_run("torchtitan", shipped_scenario("torchtitan-llama3-8b-128gpu", training)).text;
  };
  CHECK(emitted({"training.compiled=true", "training.cross_entropy=pytorch"})
            .find("[compile]\nenable = true\ncomponents = [\"model\"]\n") != std::string::npos);
  CHECK(emitted({"training.compiled=false", "training.cross_entropy=compiled"})
            .find("[compile]\nenable = true\ncomponents = [\"loss\"]\n") != std::string::npos);
}

TEST_CASE("launchers: torchtitan's converters are for linear layers or for experts", "[io][launch]") {
  const auto converted = [](const std::string& converters, const std::string& more, bool experts) {
    const std::string toml =
        experts ? titan(kLocal + more, converters, "qwen3", "30B-A3B") : titan(kLocal + more, converters);
    return torchtitan(toml).scenario.training;
  };
  const std::string linear = "converters = [\"quantize.linear.float8\"]\n";
  const std::string grouped = "converters = [\"quantize.grouped_mm.float8\"]\n";
  CHECK(converted(grouped, "", false).dtype == Precision::bf16);  // a dense model
  CHECK(converted(linear, "", false).bf16_modules.empty());
  CHECK(converted(linear, "", true).bf16_modules == Texts{"experts"});
  CHECK(converted(grouped, "", true).dtype == Precision::fp8);
  CHECK(converted(grouped, "", true).bf16_modules == Texts{"attention", "mlp"});
  CHECK(
      converted("converters = [\"quantize.linear.mx\", \"quantize.grouped_mm.mx\"]\n", "", true).bf16_modules.empty());
  CHECK(torchtitan_refusal(titan(kLocal, "converters = [\"float\"]\n"))
            .find("is not supported (allowed: quantize.linear.float8 float8 quantize.linear.mx mx "
                  "quantize.grouped_mm.float8 quantize.grouped_mm.mx)") != std::string::npos);
  // What a filter keeps: float8 converts the output layer unless it is named, mx does not.
  const auto filtered = [&](const std::string& words) {
    return converted(linear, "[quantize.linear.float8]\nfilter_fqns = [" + words + "]\n", false);
  };
  CHECK(converted(linear, "", false).fp8_output_layer);
  CHECK_FALSE(converted("converters = [\"mx\"]\n", "", false).fp8_output_layer);
  CHECK_FALSE(filtered("\"output\"").fp8_output_layer);
  CHECK(filtered("\"attention\"").bf16_modules == Texts{"attention"});
  CHECK(filtered("\"w1\", \"w2\", \"w3\"").bf16_modules == Texts{"mlp"});
  CHECK(assumes(torchtitan(titan(kLocal + "[quantize.linear.float8]\nfilter_fqns = [\"attention.wk\"]\n", linear)),
                "quantize.linear.float8.filter_fqns: attention.wk multiply in fp8 here"));
  // Emitted with experts and filters, and read again.
  const Scenario before = shipped_scenario(
      "deepseek-v3-2048", {"training.dtype=fp8", "training.bf16_modules=[\"attention\"]", "training.row_scales=true"});
  const std::string text = emit_run("torchtitan", before).text;
  CHECK(text.find("converters = [\"quantize.linear.float8\", \"quantize.grouped_mm.float8\"]\n") != std::string::npos);
  CHECK(text.find("filter_fqns = [\"output\", \"attention\"]\nrecipe_name = \"rowwise\"\n") != std::string::npos);
}

TEST_CASE("launchers: torchtitan's lists may be one text", "[io][launch]") {
  const auto run = [](const std::string& converters, const std::string& components, const std::string& filter) {
    return torchtitan(titan(kLocal + "[compile]\nenable = true\ncomponents = " + components +
                                "\n[quantize.linear.float8]\nfilter_fqns = " + filter + "\n",
                            "converters = " + converters + "\n"))
        .scenario.training;
  };
  CHECK(run("\"float8\"", "\"model, loss\"", "\"output,w1,w2,w3\"") ==
        run("[\"float8\"]", "[\"model\", \"loss\"]", "[\"output\", \"w1\", \"w2\", \"w3\"]"));
  CHECK(run("\"float8\"", "\"model\"", "\"output\"").dtype == Precision::fp8);
  CHECK(run("\"float8\"", "\"model\"", "\"output\"").cross_entropy == CrossEntropy::pytorch);
  CHECK_FALSE(run("\"float8\"", "\"model\"", "\"output\"").fp8_output_layer);
}

TEST_CASE("launchers: torchtitan's degrees make the job", "[io][launch][error]") {
  const auto degrees = [](int replicate, int shard) {
    return titan(kLocal +
                 fmt::format("[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
                             "tensor_parallel_degree = 2\n",
                             replicate, shard));
  };
  CHECK(torchtitan(degrees(2, -1)).scenario.parallel.shard_group == 2);
  CHECK(torchtitan(degrees(2, 2)).scenario.parallel.shard_group == 2);
  CHECK(torchtitan_refusal(degrees(1, 8)) ==
        "t.toml:8: parallelism.data_parallel_shard_degree = 8: makes 16 GPUs (8 data-parallel ranks x cp 1 x tp 2 x pp "
        "1), "
        "and the job has 8");
  CHECK(torchtitan_refusal(degrees(1, 1)).find("makes 2 GPUs") != std::string::npos);
}

TEST_CASE("launchers: torchtitan runs its pipeline once for each local batch", "[io][launch]") {
  const auto batches = [](int local, int global, int micro) {
    return titan(
        fmt::format("[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\n[parallelism]\n"
                    "pipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = {}\n"
                    "[activation_checkpoint]\nmode = \"none\"\n",
                    local, global, micro));
  };
  // 8 GPUs are 2 data-parallel ranks: a global batch is a multiple of 16.
  const std::string once = "fills and drains the pipeline for each local batch of 8";
  CHECK_FALSE(assumes(torchtitan(batches(8, 16, 1)), once));
  CHECK(assumes(torchtitan(batches(8, 64, 1)), once));
  CHECK(
      torchtitan_refusal(batches(8, 20, 1)) ==
      "t.toml:6: training.global_batch_size = 20: is not a multiple of training.local_batch_size = 8 x 2 data-parallel "
      "ranks");
  CHECK(torchtitan_refusal(batches(8, 64, 3))
            .find("training.local_batch_size = 8: is not a multiple of "
                  "parallelism.pipeline_parallel_microbatch_size = 3") != std::string::npos);
}

TEST_CASE("launchers: torchtitan may stop a recomputation early", "[io][launch]") {
  const auto stops = [](const std::string& early) {
    return torchtitan(titan(kLocal + "[activation_checkpoint]\nmode = \"full\"\n" + early))
        .scenario.training.recompute_early_stop;
  };
  CHECK(stops("early_stop = true\n"));
  CHECK_FALSE(stops("early_stop = false\n"));
  CHECK_FALSE(stops(""));  // its default; before it had one, and in another mode, the stack's
  const std::string full = "[activation_checkpoint]\nmode = \"full\"\n";
  CHECK(assumes(torchtitan(titan(kLocal + full)),
                "activation_checkpoint.early_stop = false, torchtitan's default since 0.2"));
  const ImportedRun set = imported("torchtitan", titan(kLocal + full), "t.toml",
                                   {.model = "",
                                    .topology = "dgx-h100",
                                    .gpus = 8,
                                    .overrides = {"training.seq_length=8192", "training.recompute_early_stop=true"}});
  CHECK(set.scenario.training.recompute_early_stop);
  CHECK_FALSE(assumes(set, "early_stop"));
  CHECK(torchtitan(titan("[training]\nbatch_size = 3\n" + full)).scenario.training.recompute_early_stop);
  CHECK(
      torchtitan(titan(kLocal + "[activation_checkpoint]\nmode = \"none\"\n")).scenario.training.recompute_early_stop);
  const Scenario s = shipped_scenario("torchtitan-llama3-8b-128gpu", {"training.recompute_early_stop=false"});
  CHECK(emit_run("torchtitan", s).text.find("early_stop = false\n") != std::string::npos);
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
  const auto parallel = [](const std::string& policy, int pp) {
    const std::string job =
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 8192\nlocal_batch_size = 8\n"
        "[parallelism]\npipeline_parallel_degree = " +
        std::to_string(pp) + "\nfsdp_reshard_after_forward = \"" + policy + "\"\n";
    const RunGivens given{.model = "", .topology = "dgx-h100", .gpus = 16, .overrides = {}};
    return imported("torchtitan", job, "a.toml", given).scenario.parallel;
  };
  CHECK(parallel("default", 1).reshard_after_forward);
  CHECK_FALSE(parallel("default", 2).reshard_after_forward);
  CHECK(parallel("always", 2).reshard_after_forward);
  CHECK_FALSE(parallel("never", 1).reshard_after_forward);
  // A pipeline of PyTorch gathers and reduces once in a step, but for what "always" gathers again behind a forward.
  CHECK(parallel("default", 2).torch_pipelining);
  CHECK_FALSE(parallel("always", 2).torch_pipelining);
  CHECK_FALSE(parallel("always", 2).reshard_after_backward);
  CHECK(parallel("always", 2).defer_grad_sync);
  Scenario always = shipped_scenario("torchtitan-llama3-8b-128gpu", {"stack=torchtitan"});
  always.parallel.pp = 2;
  always.parallel.dp = 0;
  always.parallel.torch_pipelining = always.parallel.reshard_after_backward = false;
  always.parallel.defer_grad_sync = true;
  const EmittedRun emitted = emit_run("torchtitan", always);
  CHECK(emitted.text.find("fsdp_reshard_after_forward = \"always\"") != std::string::npos);
  for (const std::string& each : emitted.unmapped) CHECK(each.find("parallel.") == std::string::npos);
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
  // Without the option every second layer (ActivationCheckpoint of 0.2.2, docs/references.md#format-torchtitan).
  const std::string plain =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 8192\nlocal_batch_size = 8\n";
  for (const char* mode : {"", "[activation_checkpoint]\nmode = \"selective\"\n"}) {
    const ImportedRun by_default = imported("torchtitan", plain + mode, "a.toml", given);
    CHECK(by_default.scenario.training.recompute_num_layers == 16);
    CHECK(assumes(by_default, "activation_checkpoint.selective_ac_option = 2, torchtitan's default to 0.2.2"));
  }
  CHECK(refusal("torchtitan", job("\"few\""), "a.toml", given)
            .find("selective_ac_option = \"few\": is not supported (allowed: op, or every how many layers)") !=
        std::string::npos);
  given.overrides = {"training.recompute_num_layers=4"};
  CHECK(training("\"2\"", "pipeline_parallel_degree = 4\n").recompute_num_layers == 4);
}

// models/deepseek_v3/infra/parallelize.py: other kernels need experts over ranks that are not divided.
TEST_CASE("launchers: torchtitan's exchange of tokens", "[io][launch]") {
  const auto run = [](const std::string& more, const std::string& training = "") {
    return imported("torchtitan",
                    "[training]\nseq_len = 4096\nlocal_batch_size = 1\n" + training + "[parallelism]\n" + more,
                    "t.toml", {.model = "qwen3-30b-a3b", .topology = "dgx-h100", .gpus = 64, .overrides = {}});
  };
  const std::string experts = "expert_parallel_degree = 8\nexpert_parallel_comm_backend = ";
  for (const auto& [name, dispatcher] : {std::pair{"standard", MoeDispatcher::alltoall},
                                         {"deepep", MoeDispatcher::deepep},
                                         {"hybridep", MoeDispatcher::hybridep}}) {
    const ImportedRun each = run(experts + fmt::format("\"{}\"\n", name));
    CHECK(each.scenario.parallel.moe_dispatcher == dispatcher);
    CHECK(each.unmapped.empty());
    const EmittedRun emitted = emit_run("torchtitan", in_plain_terms(each.scenario));
    CHECK((emitted.text.find(fmt::format("expert_parallel_comm_backend = \"{}\"", name)) != std::string::npos) ==
          (dispatcher != MoeDispatcher::alltoall));
  }
  CHECK(run("expert_parallel_comm_backend = \"deepep\"\n").scenario.parallel.moe_dispatcher == MoeDispatcher::alltoall);
  Scenario divided = run(experts + "\"deepep\"\ntensor_parallel_degree = 2\n").scenario;
  divided.parallel.etp = 2;
  const EmittedRun emitted = emit_run("torchtitan", in_plain_terms(divided));
  CHECK(emitted.text.find("comm_backend") == std::string::npos);
  CHECK(std::ranges::any_of(emitted.unmapped,
                            [](const std::string& each) { return each.starts_with("parallel.moe_dispatcher="); }));

  // training.dtype is that of parameters and states, without a copy in fp32; mixed_precision_param that of a multiplication.
  const ImportedRun narrow = run("", "dtype = \"bfloat16\"\n");
  CHECK_FALSE(narrow.scenario.training.master_weights);
  CHECK(narrow.scenario.training.optimizer_state_dtype == Precision::bf16);
  CHECK(narrow.unmapped.empty());
  CHECK(emit_run("torchtitan", in_plain_terms(narrow.scenario)).text.find("\ndtype = \"bfloat16\"\n") !=
        std::string::npos);
  CHECK(run("", "dtype = \"float32\"\n").scenario.training.master_weights);
}
