// Files that launchers refuse: every rule is broken by a file, and layouts of the planner are emitted as they are.
#include "sim/import/launchers/launcher_rules.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/plan/plan.hpp"
#include "sim/search/planner.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

/// A file that breaks one rule, for a job of 64 GPUs with sequences of 8,192.
struct Broken {
  std::string format;
  std::string rule;  ///< its beginning
  std::string text;
  std::string scenario = "llama3-405b-1024";  ///< 126 layers, 128 heads, 8 key-value heads
  std::vector<std::string> set = {};
};

const std::string kExport = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
const std::string kMoe = "deepseek-v3-2048";

/// A torchtitan file of these settings for 1,024 GPUs.
std::string titan(const std::string& parallelism, const std::string& training = "local_batch_size = 1") {
  return "[parallelism]\n" + parallelism + "\n[training]\nseq_len = 8192\n" + training + "\n";
}

const std::vector<Broken> kBroken{
    {"megatron", "--use-megatron-fsdp needs",
     "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"},
    {"megatron", "--ckpt-format fsdp_dtensor needs", "--ckpt-format fsdp_dtensor --bf16"},
    {"megatron", "--use-megatron-fsdp forbids", kExport + "A=(--use-megatron-fsdp --ckpt-format fsdp_dtensor)"},
    {"megatron", "before Blackwell", "--tensor-model-parallel-size 8 --sequence-parallel"},
    {"megatron", "virtual stages are given in one way",
     "--num-virtual-stages-per-pipeline-rank 2 --num-layers-per-virtual-pipeline-stage 3"},
    {"megatron", "virtual stages are given in one way",
     "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 1 --pipeline-model-parallel-layout "
     "'Et*63|t*63L'"},
    {"megatron", "a pipeline layout has a multiple",
     "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*60|t*60|t*6L'"},
    {"megatron", "a pipeline layout excludes",
     "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*63|t*63L' "
     "--account-for-loss-in-pipeline-split"},
    {"megatron", "a pipeline layout has E first",
     "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*63|t*62L'"},
    {"megatron", "without a layout, pp divides", "--pipeline-model-parallel-size 16"},
    {"megatron", "without a layout, the virtual stages divide",
     "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 8"},
    {"megatron", "virtual stages need pp above 1",
     "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 3 --no-overlap-p2p-communication"},
    {"megatron", "with virtual stages, every group",
     "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 3 --global-batch-size 512"},
    {"megatron", "--overlap-param-gather needs", "--overlap-param-gather --overlap-grad-reduce"},
    {"megatron", "--fp8-param-gather needs", "--fp8-param-gather"},
    {"megatron", "ep divides the experts", "--expert-model-parallel-size 2"},
    {"megatron", "--use-tp-pp-dp-mapping with a pipeline",
     "--use-tp-pp-dp-mapping --pipeline-model-parallel-size 16 --expert-model-parallel-size 8", kMoe},
    {"megatron", "experts with tp above 1", kExport + "A=(--tensor-model-parallel-size 2)", kMoe},
    {"megatron", "--moe-shared-expert-overlap needs", "--moe-shared-expert-overlap --moe-token-dispatcher-type flex",
     kMoe},
    {"megatron", "2 cp divides", kExport + "A=(--context-parallel-size 3 --seq-length 8192)"},
    {"megatron",
     "a sliding window with cp needs",
     kExport + "A=(--context-parallel-size 2 --cp-comm-type p2p --seq-length 8192)",
     "llama3-405b-1024",
     {"model.sliding_window=4096"}},
    {"megatron", "with --cp-comm-type a2a",
     kExport + "A=(--context-parallel-size 16 --cp-comm-type a2a --seq-length 8192)"},
    {"megatron", "--tp-comm-overlap needs", "--tp-comm-overlap"},
    {"megatron", "tp divides the heads", kExport + "A=(--tensor-model-parallel-size 16 --sequence-parallel)"},
    {"megatron", "full recomputation needs", "--recompute-granularity full"},
    {"megatron", "full recomputation needs",
     "--overlap-moe-expert-parallel-comm --recompute-granularity full --recompute-method uniform "
     "--recompute-num-layers 1",
     kMoe},
    {"megatron", "--overlap-moe-expert-parallel-comm excludes moe in",
     "--overlap-moe-expert-parallel-comm --recompute-granularity selective --recompute-modules moe layernorm", kMoe},
    {"megatron", "--overlap-moe-expert-parallel-comm excludes --moe-shared",
     "--overlap-moe-expert-parallel-comm --moe-shared-expert-overlap --moe-token-dispatcher-type alltoall", kMoe},
    {"megatron",
     "--overlap-moe-expert-parallel-comm needs 16 bits",
     "--overlap-moe-expert-parallel-comm",
     kMoe,
     {"training.dtype=fp32", "training.low_precision_activations=[]"}},
    {"megatron",
     "--overlap-moe-expert-parallel-comm excludes CUDA graphs",
     "--overlap-moe-expert-parallel-comm",
     kMoe,
     {"training.cuda_graph_modules=[\"attn\", \"mlp\"]"}},
    {"megatron",
     "--overlap-moe-expert-parallel-comm excludes CUDA graphs",
     "--overlap-moe-expert-parallel-comm --recompute-granularity full",
     kMoe,
     {"training.cuda_graphs=true"}},
    {"megatron",
     "CUDA graphs of modules exclude full",
     "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
     kMoe,
     {"training.cuda_graph_modules=[\"attn\"]"}},
    {"megatron",
     "CUDA graphs of modules exclude full",
     "--recompute-granularity selective --recompute-modules moe",
     kMoe,
     {"training.cuda_graph_modules=[\"moe_router\"]"}},
    {"megatron",
     "CUDA graphs of modules exclude --cpu-offloading",
     "--cpu-offloading-num-layers 4",
     kMoe,
     {"training.cuda_graph_modules=[\"attn\"]"}},
    {"megatron-bridge", "full recomputation needs",
     "model:\n  overlap_moe_expert_parallel_comm: true\n  recompute_granularity: full\n  recompute_method: uniform\n",
     kMoe},
    {"megatron-bridge", "overlap_moe_expert_parallel_comm excludes moe in",
     "model:\n  overlap_moe_expert_parallel_comm: true\n  recompute_modules: [moe]\n", kMoe},
    {"megatron-bridge", "overlap_moe_expert_parallel_comm excludes moe_shared",
     "model:\n  overlap_moe_expert_parallel_comm: true\n  moe_shared_expert_overlap: true\n", kMoe},
    {"megatron-bridge",
     "overlap_moe_expert_parallel_comm needs 16 bits",
     "model:\n  overlap_moe_expert_parallel_comm: true\n",
     kMoe,
     {"training.dtype=fp32", "training.low_precision_activations=[]"}},
    {"megatron-bridge",
     "overlap_moe_expert_parallel_comm excludes CUDA graphs",
     "model:\n  overlap_moe_expert_parallel_comm: true\n",
     kMoe,
     {"training.cuda_graph_modules=[\"mlp\"]"}},
    {"megatron-bridge",
     "CUDA graphs of modules exclude full",
     "model:\n  recompute_granularity: full\n  recompute_method: uniform\n  recompute_num_layers: 1\n",
     kMoe,
     {"training.cuda_graph_modules=[\"attn\"]"}},
    {"megatron-bridge",
     "CUDA graphs of modules exclude cpu_offloading",
     "model:\n  cpu_offloading_num_layers: 4\n",
     kMoe,
     {"training.cuda_graph_modules=[\"attn\"]"}},
    {"megatron-bridge", "use_megatron_fsdp needs", "ddp:\n  use_megatron_fsdp: true\n"},
    {"megatron-bridge", "use_megatron_fsdp excludes",
     "ddp:\n  use_megatron_fsdp: true\ncheckpoint:\n  ckpt_format: fsdp_dtensor\ndist:\n  use_tp_pp_dp_mapping: "
     "true\n"},
    {"megatron-bridge", "a pipeline layout has a multiple",
     "model:\n  pipeline_model_parallel_size: 2\n  pipeline_model_parallel_layout: 'Et*60|t*60|t*6L'\n"},
    {"megatron-bridge", "a pipeline layout excludes",
     "model:\n  pipeline_model_parallel_size: 2\n  pipeline_model_parallel_layout: 'Et*63|t*63L'\n"
     "  account_for_loss_in_pipeline_split: true\n"},
    {"megatron-bridge", "a pipeline layout has E first",
     "model:\n  pipeline_model_parallel_size: 2\n  pipeline_model_parallel_layout: 't*63|t*63L'\n"},
    {"megatron-bridge", "without a layout", "model:\n  pipeline_model_parallel_size: 16\n"},
    {"megatron-bridge", "with virtual stages",
     "model:\n  pipeline_model_parallel_size: 2\n  virtual_pipeline_model_parallel_size: 3\n"
     "train:\n  global_batch_size: 512\n"},
    {"megatron-bridge", "use_tp_pp_dp_mapping with a pipeline",
     "model:\n  pipeline_model_parallel_size: 16\n  expert_model_parallel_size: 8\ndist:\n  use_tp_pp_dp_mapping: "
     "true\n",
     kMoe},
    {"megatron-bridge", "ep divides the experts", "model:\n  expert_model_parallel_size: 2\n"},
    {"megatron-bridge",
     "a sliding window with cp needs",
     "model:\n  context_parallel_size: 2\n",
     "llama3-405b-1024",
     {"model.sliding_window=4096"}},
    {"megatron-bridge", "with cp_comm_type: a2a", "model:\n  context_parallel_size: 16\n  cp_comm_type: a2a\n"},
    {"megatron-bridge", "tp divides the heads", "model:\n  tensor_model_parallel_size: 16\n"},
    {"torchtitan", "replicate × shard", titan("data_parallel_shard_degree = 8")},
    {"torchtitan", "replicate × shard", titan("data_parallel_shard_degree = 0")},
    {"torchtitan", "ep is divided by cp",
     titan("data_parallel_replicate_degree = 2048\ndata_parallel_shard_degree = 1\nexpert_parallel_degree = 32"), kMoe},
    {"torchtitan", "2 × cp × tp divides",
     titan("context_parallel_degree = 64\ntensor_parallel_degree = 128\ndata_parallel_shard_degree = 1")},
    {"torchtitan", "mixed_precision_reduce", titan("", "local_batch_size = 1\nmixed_precision_reduce = \"bfloat16\"")},
    {"torchtitan", "pp divides the virtual stages",
     titan("pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"Interleaved1F1B\"\n"
           "pipeline_parallel_layers_per_stage = 5")},
    {"torchtitan", "GPipe and 1F1B have one stage",
     titan("pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"1F1B\"\n"
           "pipeline_parallel_layers_per_stage = 16")},
    {"torchtitan", "no stage is smaller",
     titan("pipeline_parallel_degree = 128\npipeline_parallel_first_stage_less_layers = 2\n"
           "pipeline_parallel_last_stage_less_layers = 2\npipeline_parallel_schedule = \"1F1B\"")},
    {"torchtitan", "the micro-batch divides",
     titan("pipeline_parallel_degree = 16\npipeline_parallel_schedule = \"1F1B\"\n"
           "pipeline_parallel_microbatch_size = 3",
           "local_batch_size = 8")},
    {"deepspeed", "a pipeline excludes", R"({"pipeline": {"stages": 4}, "zero_optimization": {"stage": 3}})"},
    {"deepspeed", "train_batch_size is", R"({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 3})"},
    {"deepspeed", "bf16 and fp16", R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})"},
    {"deepspeed", "mics_shard_size", R"({"zero_optimization": {"stage": 2, "mics_shard_size": 8}})"},
    {"accelerate", "the sizes of parallelism_config",
     "distributed_type: FSDP\nnum_processes: 64\nparallelism_config:\n  parallelism_config_dp_shard_size: 8\n"},
    {"accelerate", "tp and cp exclude",
     "distributed_type: MULTI_GPU\nnum_processes: 64\nparallelism_config:\n  parallelism_config_dp_replicate_size: 8\n"
     "  parallelism_config_tp_size: 8\n"},
    {"accelerate", "parallelism_config needs FSDP",
     "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 1\nparallelism_config:\n"
     "  parallelism_config_dp_shard_size: 8\n"},
};

bool breaks(const Broken& file) {
  const Scenario scenario = shipped_scenario(file.scenario, file.set);
  const auto broken = broken_rules(file.format, file.text, scenario);
  return std::ranges::any_of(broken, [&](const LauncherRule* rule) { return rule->says.starts_with(file.rule); });
}

/// Ten jobs: a scenario and what is set in it.
struct Job {
  std::string scenario;
  std::vector<std::string> set;
};

std::vector<std::string> job(const char* model, const char* topology, int gpus, int batch, int sequence = 4096) {
  return {fmt::format("model={}", model),
          fmt::format("cluster.topology={}", topology),
          fmt::format("cluster.world_size={}", gpus),
          fmt::format("training.global_batch_size={}", batch),
          fmt::format("training.seq_length={}", sequence),
          "parallel={}",
          "training.recompute=none"};
}

const std::vector<Job> kJobs{
    {"llama3-405b-1024", job("llama-3.1-8b", "dgx-h100", 64, 512, 8192)},
    {"llama3-405b-1024", job("llama-3.1-8b", "hgx-mi300x", 64, 512, 8192)},
    {"llama3-405b-1024", job("llama-3.1-70b", "dgx-h100", 512, 1024, 8192)},
    {"llama3-405b-1024", job("llama-3.1-70b", "gb200-nvl72", 256, 1024, 8192)},
    {"llama3-405b-1024", job("llama-3.1-405b", "meta-24k-h100", 16384, 2048, 8192)},
    {"llama3-405b-1024", job("llama-3.1-405b", "dgx-b200", 2048, 2048, 8192)},
    {"llama3-405b-1024", job("qwen3-30b-a3b", "dgx-h200", 64, 1024)},
    {"llama3-405b-1024", job("qwen3-235b-a22b", "dgx-b200", 256, 2048)},
    {"llama3-405b-1024", job("deepseek-v3", "dgx-h100", 1024, 8192)},
    {"llama3-405b-1024", job("deepseek-v3", "gb200-nvl72", 2048, 8192)},
};

/// The first 30 layouts by their bound that fit.
std::vector<Layout> first_layouts(const Scenario& scenario) {
  SearchSpace space = default_space(scenario, scenario.cluster.world_size);
  SearchCounts counts;
  std::vector<BoundedLayout> found = bound_all(scenario, space, 2, counts);
  std::erase_if(found, [&](const BoundedLayout& each) { return each.bound.memory > scenario.profile.memory; });
  std::ranges::sort(found, {}, [](const BoundedLayout& each) { return std::pair(each.bound.step_time, each.id); });
  std::vector<Layout> layouts;
  for (const BoundedLayout& each : found) {
    const Layout layout = space.at(each.id);
    const Scenario with = with_layout(scenario, layout);
    if (make_plan(with.model, with.parallel, with.training, with.cluster.world_size)) layouts.push_back(layout);
    if (layouts.size() == 30) break;
  }
  return layouts;
}

Scenario imported_again(const std::string& format, const EmittedRun& emitted, const Scenario& before) {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model.json";
  REQUIRE(write_file(model, to_json(before.model)).has_value());
  RunGivens given{.model = model.string(),
                  .topology = before.topology,
                  .gpus = before.cluster.world_size,
                  .overrides = emitted.unmapped};
  if (format == "deepspeed" || format == "accelerate")
    given.overrides.push_back("training.seq_length=" + std::to_string(before.training.seq_length));
  const Result<ImportedRun> run =
      import_run(format, emitted.text, format == "megatron" ? "run.sh" : "run.yaml", given, shipped_data());
  INFO((error_text(run)));
  REQUIRE(run.has_value());
  return run->scenario;
}

}  // namespace

TEST_CASE("launcher rules: a file breaks each of them", "[io][launch]") {
  for (const Broken& file : kBroken) {
    CAPTURE(file.format, file.rule, file.text);
    CHECK(breaks(file));
  }
  for (const LauncherRule& rule : launcher_rules()) {
    CAPTURE(rule.format, rule.says);
    CHECK(std::ranges::any_of(
        kBroken, [&](const Broken& file) { return file.format == rule.format && rule.says.starts_with(file.rule); }));
    CHECK_FALSE(rule.source.empty());
  }
}

namespace {

/// What a launcher refuses of a job whose experts' exchanges are overlapped.
std::vector<std::string> refused_overlap(const std::string& format, const std::vector<std::string>& set) {
  std::vector<std::string> all{"parallel={}", "parallel.ep=8", "parallel.pp_schedule=combined-1f1b",
                               "training.recompute_modules=[]", "training.global_batch_size=16384"};
  all.insert(all.end(), set.begin(), set.end());
  return launcher_refusals(format, shipped_scenario(kMoe, all));
}

}  // namespace

TEST_CASE("launcher rules: the overlap of experts' exchanges excludes what Megatron-LM asserts", "[io][launch]") {
  const std::string format = GENERATE("megatron", "megatron-bridge");
  CAPTURE(format);
  CHECK(refused_overlap(format, {}).empty());
  CHECK(refused_overlap(format, {"training.recompute=full"}).empty());
  CHECK(refused_overlap(format, {"training.cuda_graph_modules=[\"attn\"]"}).empty());
  for (const char* set : {"parallel.moe_shared_overlap=true", "training.recompute_modules=[\"moe\"]"}) {
    CAPTURE(set);
    CHECK(refused_overlap(format, {set}).size() == 1);
  }
  CHECK_FALSE(refused_overlap(format, {"training.recompute=full", "training.cuda_graph_modules=[\"attn\"]"}).empty());
}

TEST_CASE("launcher rules: under the overlap of experts' exchanges full recomputation has no method", "[io][launch]") {
  const EmittedRun run = emit_run(
      "megatron", shipped_scenario(kMoe, {"parallel={}", "parallel.ep=8", "parallel.pp_schedule=combined-1f1b",
                                          "training.recompute=full", "training.recompute_modules=[]",
                                          "training.global_batch_size=16384", "training.recompute_num_layers=2"}));
  CHECK(run.text.find("--recompute-granularity full\n") != std::string::npos);
  CHECK(run.text.find("--recompute-method") == std::string::npos);
  CHECK(run.text.find("--recompute-num-layers") == std::string::npos);
  CHECK(std::ranges::count(run.unmapped, "training.recompute_num_layers=2") == 1);
}

TEST_CASE("launcher rules: groups of micro-batches of at least pp, as Megatron-Core asks", "[io][launch]") {
  // 40 x 1 sequences on 64 / (2 x 4 x 2) = 4 replicas: 10 micro-batches. PyTorch's rounds are two, so groups of five are forecast.
  const auto batch = [](int sequences) {
    return shipped_scenario("llama3-405b-1024",
                            {"model=llama-3.1-8b", "parallel={}", "parallel.pp=4", "parallel.vpp=2", "parallel.tp=2",
                             "cluster.world_size=32", "training.micro_batch_size=1",
                             fmt::format("training.global_batch_size={}", sequences)});
  };
  const auto rules = [&](const char* settings) {
    const std::string text =
        "A=(--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
        "--tensor-model-parallel-size 2 --sequence-parallel --micro-batch-size 1 --global-batch-size 40 ";
    return broken_rules("megatron", kExport + text + settings + ")", batch(40)).size();
  };
  CHECK(rules("") == 1);
  CHECK(rules("--microbatch-group-size-per-virtual-pipeline-stage 5") == 0);
  CHECK(rules("--microbatch-group-size-per-virtual-pipeline-stage 6") == 0);   // 6 and 4
  CHECK(rules("--microbatch-group-size-per-virtual-pipeline-stage 7") == 1);   // 7 and 3
  CHECK(rules("--microbatch-group-size-per-virtual-pipeline-stage 3") == 1);   // fewer than pp
  CHECK(rules("--microbatch-group-size-per-virtual-pipeline-stage 11") == 1);  // more than there are
  const std::string argument = "--microbatch-group-size-per-virtual-pipeline-stage 5\n";
  CHECK(emit_run("megatron", batch(40)).text.find(argument) != std::string::npos);
  CHECK(emit_run("megatron-bridge", batch(40)).text.find("microbatch_group_size_per_vp_stage: 5\n") !=
        std::string::npos);
  for (const int microbatches : {8, 10, 11, 13, 19}) {
    CAPTURE(microbatches);
    CHECK(launcher_refusals("megatron", batch(4 * microbatches)).empty());
  }
  CHECK(emit_run("megatron", batch(32)).text.find("microbatch-group-size") == std::string::npos);
  const auto left = [](const char* group) {
    const std::string text =
        "torchrun --nproc_per_node 8 pretrain_gpt.py --pipeline-model-parallel-size 4 --global-batch-size 20 "
        "--num-virtual-stages-per-pipeline-rank 2 --microbatch-group-size-per-virtual-pipeline-stage ";
    const Result<ImportedRun> run = import_run(
        "megatron", text + group + "\n", "run.sh",
        {.model = "llama-3.1-8b", .topology = "dgx-h100", .gpus = 8, .overrides = {"training.seq_length=4096"}},
        shipped_data());
    INFO(error_text(run));
    REQUIRE(run.has_value());
    return run->unmapped.size();
  };
  CHECK(left("5") == 0);  // ten micro-batches in the groups that are forecast
  CHECK(left("6") == 1);
}

TEST_CASE("launcher rules: groups of Accelerate need FSDP version 2 only where FSDP runs", "[io][launch]") {
  const auto broken = [](const std::string& type) {
    return broken_rules("accelerate",
                        "distributed_type: " + type +
                            "\nnum_processes: 8\nparallelism_config:\n"
                            "  parallelism_config_dp_replicate_size: 8\n",
                        shipped_scenario("llama3-405b-1024"));
  };
  CHECK(broken("MULTI_GPU").empty());
  REQUIRE(broken("FSDP\nfsdp_config:\n  fsdp_version: 1").size() == 1);
  CHECK(broken("FSDP\nfsdp_config:\n  fsdp_version: 2").empty());
}

TEST_CASE("launcher rules: each is on the page", "[docs][launch]") {
  const std::string page = content_of(source_dir() / "docs/formats/launchers.md");
  for (const LauncherRule& rule : launcher_rules()) {
    CAPTURE(rule.format, rule.says);
    CHECK(page.find(rule.says) != std::string::npos);
    CHECK(page.find(rule.source) != std::string::npos);
  }
}

TEST_CASE("launcher rules: what a launcher takes is read back as the planner's layout", "[io][launch][search]") {
  const Job& job = kJobs[static_cast<std::size_t>(GENERATE(Catch::Generators::range(0, test::cases(10))))];
  const Scenario scenario = shipped_scenario(job.scenario, job.set);
  CAPTURE(scenario.model.name, scenario.topology);
  std::map<std::string, int> taken;
  for (const Layout& layout : first_layouts(scenario)) {
    const Scenario before = in_plain_terms(with_layout(scenario, layout));
    for (const char* format : {"megatron", "megatron-bridge", "torchtitan", "deepspeed", "accelerate"}) {
      if (!launcher_refusals(format, before).empty()) continue;
      ++taken[format];
      const EmittedRun emitted = emit_run(format, before);
      CAPTURE(format, describe(layout, before.cluster.world_size), emitted.text);
      const Scenario after = imported_again(format, emitted, before);
      const auto was = make_plan(before.model, before.parallel, before.training, before.cluster.world_size);
      const auto is = make_plan(after.model, after.parallel, after.training, after.cluster.world_size);
      REQUIRE(is.has_value());
      CHECK(is->stages == was->stages);
      CHECK(is->parallel.etp == was->parallel.etp);
      CHECK(is->parallel.dp == was->parallel.dp);
      CHECK(is->num_microbatches == was->num_microbatches);
      Layout read = layout_of(after);
      Layout written = layout_of(before);
      read.pp_schedule = is->parallel.pp_schedule;
      written.pp_schedule = was->parallel.pp_schedule;
      CHECK(read == written);
    }
  }
  CHECK(taken["megatron"] >= 20);  // of 30: its layout strings express every cut
  CHECK(taken["megatron-bridge"] == taken["megatron"]);
}

TEST_CASE("launcher rules: ZeRO-3 and uneven stages are no reason to refuse", "[io][launch]") {
  // 80 layers on 4 ranks with 7 chunks each: 82 items do not divide, so a layout string is written.
  const Scenario scenario =
      shipped_scenario("p5-llama3-70b-64", {"parallel.tp=4", "parallel.pp=4", "parallel.dp=4", "parallel.vpp=7",
                                            "parallel.account_for_embedding=true", "parallel.account_for_loss=true"});
  CHECK(launcher_refusals("megatron", scenario).empty());
  const EmittedRun emitted = emit_run("megatron", scenario);
  CHECK(emitted.text.find("--pipeline-model-parallel-layout 'Et*2|t*3|") != std::string::npos);
  CHECK(emitted.text.find("--account-for") == std::string::npos);
  CHECK(emitted.text.find("--ckpt-format fsdp_dtensor") != std::string::npos);
  CHECK(emitted.text.starts_with("unset CUDA_DEVICE_MAX_CONNECTIONS"));
  // From Blackwell on, Megatron-LM does not ask for one connection.
  for (const auto& [topology, one_connection] :
       {std::pair{"dgx-h100", true}, std::pair{"dgx-b200", false}, std::pair{"vr-nvl72", false}}) {
    const Scenario other =
        shipped_scenario("p5-llama3-70b-64", {std::string("cluster.topology=") + topology, "parallel.zero_stage=1"});
    CHECK((emit_run("megatron", other).text.find(kExport) != std::string::npos) == one_connection);
  }
  const Scenario margin = shipped_scenario("p5-llama3-70b-64", {"training.sm_margin=true"});
  const EmittedRun of_margin = emit_run("megatron", margin);
  CHECK(of_margin.text.starts_with("export NVTE_EXT_MARGIN_SM=16\n"));
  // An import reads no environment.
  CHECK_THAT(of_margin.unmapped, Catch::VectorContains(std::string("training.sm_margin=true")));
  // 28 virtual stages of 82 items follow from 3 layers per stage; 25 would follow from none.
  CHECK(launcher_refusals("torchtitan", scenario).empty());
}

TEST_CASE("launcher rules: shards of part of a group after the forward have no setting in any launcher",
          "[io][launch]") {
  const std::string format = GENERATE("megatron", "megatron-bridge", "torchtitan", "deepspeed", "accelerate");
  CAPTURE(format);
  const auto refusals = [&](const char* reshard) {
    return launcher_refusals(format, shipped_scenario("p5-llama2-13b-hybrid-32",
                                                      {std::string("parallel.reshard_after_forward=") + reshard}));
  };
  const std::vector<std::string> of_part = refusals("4");
  CHECK(std::ranges::count(of_part, format + " cannot express parallel.reshard_after_forward=4") == 1);
  CHECK(of_part.size() == refusals("true").size() + 1);
}

TEST_CASE("launcher rules: what has no effect in a layout is not asked of a launcher", "[io][launch]") {
  const auto refusals = [](const char* format, const std::vector<std::string>& set) {
    return launcher_refusals(format, shipped_scenario("p5-llama3-70b-64", set));
  };
  const std::vector<std::string> plain{"parallel={}", "parallel.pp=8", "parallel.zero_stage=1"};
  for (const char* setting : {"parallel.tp_comm_overlap=true", "parallel.reshard_after_forward=false"}) {
    CAPTURE(setting);
    std::vector<std::string> with = plain;
    with.emplace_back(setting);
    for (const char* format : {"megatron", "deepspeed", "accelerate"})
      CHECK(refusals(format, with) == refusals(format, plain));
  }
}

TEST_CASE("launcher rules: a rule that several launchers share is in the words of each", "[io][launch]") {
  const auto says = [](const std::string& format, const std::string& beginning) {
    std::vector<std::string> found;
    for (const LauncherRule& rule : launcher_rules())
      if (rule.format == format && rule.says.starts_with(beginning)) found.push_back(rule.says);
    return found;
  };
  const std::string window = "a sliding window with cp needs";
  CHECK(says("megatron", window) == std::vector<std::string>{window + " --cp-comm-type all_gather or a2a"});
  CHECK(says("megatron-bridge", window) == std::vector<std::string>{window + " cp_comm_type: all_gather or a2a"});
}
