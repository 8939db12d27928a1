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

using Texts = std::vector<std::string>;

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

TEST_CASE("launchers: torchtitan runs its pipeline once for each local batch", "[io][launch]") {
  const auto batches = [](int local, int global, int micro) {
    return titan(
        fmt::format("[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\n[parallelism]\n"
                    "pipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = {}\n",
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
  const Scenario s = shipped_scenario("torchtitan-llama3-8b-128gpu", {"training.recompute_early_stop=false"});
  CHECK(emit_run("torchtitan", s).text.find("early_stop = false\n") != std::string::npos);
}
