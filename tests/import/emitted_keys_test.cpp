// Whatever a scenario sets, a launcher's file says it, or --emit lists it: nothing is lost.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/setting_rows.hpp"
#include "sim/io/fields.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/stages.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

using Texts = std::vector<std::string>;
using Name = std::string_view;

/// Values that a key may have, as --set takes them.
Texts values_of(const FieldText& field) {
  const auto type = nlohmann::json::parse("{" + field.type + "}");
  Texts values;
  const auto add_all = [&](const nlohmann::json& names, const char* open, const char* close) {
    for (const auto& name : names) values.push_back(open + name.dump() + close);
  };
  if (type.contains("enum")) add_all(type["enum"], "", "");
  if (type.contains("items") && type["items"].contains("enum")) add_all(type["items"]["enum"], "[", "]");
  if (type.value("type", "") == "boolean") values = {"true", "false"};
  if (type.value("type", "") == "integer") values = {"1", "2", "4", "16"};
  if (type.value("type", "") == "number") values = {"0.5", "1.5"};
  return values;
}

/// None where the scenario's reader or a plan refuses it.
std::optional<Scenario> scenario_with(const std::string& name, const std::string& setting) {
  try {
    Scenario scenario = shipped_scenario(name, {setting});
    if (!make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size))
      return std::nullopt;
    return in_plain_terms(scenario);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// The settings of a step that differ from a scenario's defaults and have an effect.
Texts settings_of(Scenario scenario) {
  Parallel& p = scenario.parallel;
  Training& t = scenario.training;
  if (p.zero_stage == 0 || p.shard_group * p.tp * p.pp == scenario.cluster.world_size) p.shard_group = 0;
  if (p.etp == p.tp) p.etp = 0;
  t.cross_entropy = loss_of(p, t);
  // A cut may be written as a layout.
  if (const Result<std::vector<Stage>> stages = cut_stages(scenario.model, p)) {
    p.account_for_embedding = p.account_for_loss = false;
    p.pp_layout.clear();
    for (const Stage& stage : *stages) p.pp_layout.push_back(stage.num_layers);
  }
  if (!scenario.model.moe) std::erase(t.bf16_modules, "experts");
  scenario.against_stack.clear();  // of stacks that differ
  RunSettings settings(scenario);
  // Derived, said in other words, or not of a step.
  for (const char* key : {"parallel.dp", "parallel.pp_schedule", "training.train_tokens"}) settings.take(key);
  if (p.cp == 1) settings.take("parallel.cp_comm_type");
  if (p.zero_stage == 0) settings.take("parallel.overlap_param_gather");
  if (p.zero_stage < 3 || p.pp == 1) settings.take("parallel.torch_pipelining");
  if (t.dtype == Precision::nvfp4) settings.take("training.fp8_param_gather");  // cleared by stacks
  if (t.recompute != Recompute::full) settings.take("training.recompute_num_layers");
  return settings.left();
}

Texts lost(const std::string& format, const Scenario& before, const std::string& model) {
  const EmittedRun emitted = emit_run(format, before);
  CAPTURE(emitted.text);
  RunGivens given{.model = model,
                  .topology = before.topology,
                  .gpus = before.cluster.world_size,
                  .overrides = {"training.seq_length=" + std::to_string(before.training.seq_length)}};
  given.overrides.insert(given.overrides.end(), emitted.unmapped.begin(), emitted.unmapped.end());
  const Result<ImportedRun> after =
      import_run(format, emitted.text, format == "accelerate" ? "run.yaml" : "run.txt", given, shipped_data());
  if (!after) return {to_string(after.error())};
  Texts different;
  const Texts expected = settings_of(before);
  const Texts found = settings_of(after->scenario);
  std::ranges::set_symmetric_difference(expected, found, std::back_inserter(different));
  for (const UnmappedSetting& each : after->unmapped) different.push_back("not read: " + each.key);
  return different;
}

std::string emitted(const std::string& format, const std::string& name, const Texts& settings) {
  return emit_run(format, in_plain_terms(shipped_scenario(name, settings))).text;
}

}  // namespace

TEST_CASE("launchers: Megatron's modules that are repeated", "[io][launch]") {
  const auto dense = [](const Texts& settings) { return emitted("megatron", "p5-llama3-70b-64", settings); };
  CHECK_THAT(dense({"training.recompute=selective"}), Catch::Contains("--recompute-granularity selective\n  --use"));
  CHECK_THAT(dense({"training.recompute=none", R"(training.recompute_modules=["norm"])"}),
             Catch::Contains("--recompute-granularity selective\n  --recompute-modules layernorm\n"));
  const Texts both{"training.recompute=selective", R"(training.recompute_modules=["norm","activation"])"};
  CHECK_THAT(dense(both), Catch::Contains("--recompute-modules core_attn layernorm\n"));
  CHECK_THAT(emit_run("megatron", shipped_scenario("p5-llama3-70b-64", both)).unmapped,
             Catch::VectorContains(std::string("training.recompute_modules=[\"norm\",\"activation\"]")));
  const Texts all{"training.recompute=none", R"(training.recompute_modules=["norm","activation","mla_up","moe"])"};
  CHECK_THAT(emitted("megatron", "deepseek-v3-2048", all),
             Catch::Contains("--recompute-modules layernorm moe_act mla_up_proj moe\n"));
  CHECK_THAT(emitted("megatron-bridge", "deepseek-v3-2048", all),
             Catch::Contains("  recompute_modules: [layernorm, moe_act, mla_up_proj, moe]\n"));
}

TEST_CASE("launchers: Megatron multiplies experts together, as they are forecast", "[io][launch]") {
  CHECK_THAT(emitted("megatron", "deepseek-v3-2048", {}), Catch::Contains("  --moe-grouped-gemm\n"));
  CHECK_THAT(emitted("megatron-bridge", "deepseek-v3-2048", {}), Catch::Contains("  moe_grouped_gemm: true\n"));
  CHECK_THAT(emitted("megatron", "p5-llama3-70b-64", {}), !Catch::Contains("moe-grouped-gemm"));
}

TEST_CASE("launchers: Megatron's CUDA graphs, and the format of MXFP8", "[io][launch]") {
  const Texts parts{R"(training.cuda_graph_modules=["attn","moe_router"])", "training.dtype=mxfp8",
                    "cluster.topology=dgx-b200"};
  CHECK_THAT(emitted("megatron", "deepseek-v3-2048", parts),
             Catch::Contains("--cuda-graph-impl transformer_engine\n  --cuda-graph-scope attn moe_router\n") &&
                 Catch::Contains("--fp8-format e4m3\n  --fp8-recipe mxfp8\n"));
  CHECK_THAT(emitted("megatron-bridge", "deepseek-v3-2048", parts),
             Catch::Contains("  cuda_graph_impl: transformer_engine\n  cuda_graph_scope: [attn, moe_router]\n"));
  const Texts whole{"training.cuda_graphs=true"};
  CHECK_THAT(emitted("megatron", "p5-llama3-70b-64", whole),
             Catch::Contains("--cuda-graph-impl local\n  --cuda-graph-scope full_iteration\n"
                             "  --no-check-for-nan-in-loss-and-grad\n"));
  CHECK_THAT(emitted("megatron-bridge", "p5-llama3-70b-64", whole),
             Catch::Contains("check_for_nan_in_grad: false\n") && Catch::Contains("check_for_nan_in_loss: false\n") &&
                 Catch::Contains("  cuda_graph_scope: [full_iteration]\n"));
  CHECK_THAT(emitted("megatron-bridge", "p5-llama3-70b-64", {}), Catch::Contains("  cuda_graph_impl: none\n"));
}

TEST_CASE("launchers: Megatron-Bridge's numbers replace those of the recipe", "[io][launch]") {
  const std::string text = emitted("megatron-bridge", "mlperf-llama2-70b-lora-8", {});
  CHECK_THAT(text, Catch::Contains("mixed_precision:\n  _target_: "
                                   "megatron.bridge.training.mixed_precision.MixedPrecisionConfig\n"));
  CHECK_THAT(text, Catch::Contains("  fp8_param_gather: true\n  bf16: true\n  fp8: hybrid\n  fp8_recipe: delayed\n"));
  CHECK_THAT(text, Catch::Contains("peft:\n  _target_: megatron.bridge.peft.lora.LoRA\n  dim: 16\n"
                                   "  target_modules: [linear_qkv, linear_proj]\n"));
  // What the recipe may have set, and this run has not.
  for (const char* unset :
       {"\n  context_parallel_size: 1\n", "\n  expert_model_parallel_size: 1\n", "\n  recompute_granularity: null\n",
        "\n  virtual_pipeline_model_parallel_size: null\n", "\n  pipeline_model_parallel_layout: null\n"})
    CHECK_THAT(text, Catch::Contains(unset));
  const EmittedRun experts =
      emit_run("megatron-bridge", shipped_scenario("deepseek-v3-2048", {"training.lora_rank=16"}));
  CHECK(experts.text.find("peft") == std::string::npos);
  CHECK_THAT(experts.unmapped, Catch::VectorContains(std::string("training.lora_rank=16")));
}

TEST_CASE("launchers: a setting of any key is emitted or listed", "[io][launch][emitted_keys]") {
  constexpr std::array kNames{"p5-llama3-70b-64",     "deepseek-v3-2048",     "mlperf-llama2-70b-lora-8",
                              "korthikanti-22b-full", "pipeline-interleaved", "bloom-176b"};
  const std::string name = kNames.at(static_cast<std::size_t>(GENERATE(Catch::Generators::range(0, test::cases(6)))));
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model.json";
  REQUIRE(write_file(model, to_json(shipped_scenario(name).model)).has_value());
  test::EverySeventh selection;
  for (const KeyTable& table : scenario_keys()) {
    if (table.name != "parallel" && table.name != "training") continue;
    for (const FieldText& field : table.rows)
      for (const std::string& value : values_of(field)) {
        if (selection.leaves_out()) continue;
        const std::string setting = fmt::format("{}.{}={}", table.name, field.key, value);
        const std::optional<Scenario> scenario = scenario_with(name, setting);
        if (!scenario) continue;
        for (const char* format : {"megatron", "megatron-bridge", "deepspeed", "torchtitan", "accelerate"}) {
          // Its stack's attention has no kernel in 8 bits on this machine.
          if (field.key == "fp8_attention" && (format == Name("torchtitan") || format == Name("accelerate"))) continue;
          CAPTURE(name, setting, format);
          CHECK(lost(format, *scenario, model.string()) == Texts{});
        }
      }
  }
}

TEST_CASE("launchers: what is emitted, with what was listed, is imported as the same run", "[io][launch]") {
  const std::string name = GENERATE(as<std::string>(), "llama3-405b-16k", "llama3-405b-1024", "llm-jp-13b-mdx",
                                    "llama2-7b-abci", "p5-llama3-70b-64", "p5-llama2-13b-hybrid-32",
                                    "torchtitan-llama3-8b-128gpu", "deepseek-v3-2048", "bloom-176b", "moonlight-muon");
  const Scenario before = in_plain_terms(shipped_scenario(name));
  for (const Importer* format : importers()) {
    const auto* launcher = std::get_if<Launcher>(&format->read);
    if (launcher == nullptr || launcher->emit == nullptr) continue;
    const EmittedRun emitted = emit_run(format->name, before);
    CAPTURE(name, format->name, emitted.text);
    const std::string file = format->name == "accelerate" ? "run.yaml" : "run.txt";
    RunGivens given{.model = before.model.name.empty() ? name : "",
                    .topology = before.topology,
                    .gpus = before.cluster.world_size,
                    .overrides = {}};
    const TemporaryFolder folder;
    const fs::path model = folder.path() / "model.json";
    REQUIRE(write_file(model, to_json(before.model)).has_value());
    given.model = model.string();
    // What these launchers leave to the training script.
    if (format->name == "deepspeed" || format->name == "accelerate")
      given.overrides.push_back("training.seq_length=" + std::to_string(before.training.seq_length));
    given.overrides.insert(given.overrides.end(), emitted.unmapped.begin(), emitted.unmapped.end());
    const ImportedRun after = imported(std::string(format->name), emitted.text, file, given);
    CHECK(after.unmapped.empty());
    const auto without_stack = [](Scenario scenario) {
      scenario.against_stack.clear();
      return scenario;
    };
    RunSettings old(without_stack(before));
    RunSettings again(without_stack(after.scenario));
    // Derived, said in other words, or not of a step.
    for (const char* key :
         {"parallel.dp", "parallel.pp_schedule", "parallel.torch_pipelining", "training.train_tokens"}) {
      old.take(key);
      again.take(key);
    }
    const std::vector<std::string> expected = old.left();
    const std::vector<std::string> found = again.left();
    std::vector<std::string> different;
    std::set_symmetric_difference(expected.begin(), expected.end(), found.begin(), found.end(),
                                  std::back_inserter(different));
    CHECK(different == std::vector<std::string>{});
    CHECK(after.scenario.stack == before.stack);  // with its kernels of attention and its host's time
    CHECK(after.scenario.training.global_batch_size == before.training.global_batch_size);
    CHECK(after.scenario.training.micro_batch_size == before.training.micro_batch_size);
    CHECK(after.scenario.parallel.tp == before.parallel.tp);
    CHECK(after.scenario.parallel.pp == before.parallel.pp);
  }
}

TEST_CASE("launchers: Megatron's Muon reduce-scatters with a layout by layers, unless gradients are all-reduced",
          "[io][launch]") {
  for (const auto& [allreduce, count] : {std::pair{"true", 0}, {"false", 1}})
    for (const auto& [format, flag] : {std::pair{"megatron", "--use-layer-wise-param-layout"},
                                       {"megatron-bridge", "use_layer_wise_param_layout: true"}}) {
      const Scenario before = in_plain_terms(
          shipped_scenario("p5-llama2-13b-hybrid-32",
                           {"training.optimizer=muon", "parallel.zero_stage=1", "parallel.overlap_param_gather=false",
                            std::string("parallel.zero1_allreduce=") + allreduce}));
      const EmittedRun emitted = emit_run(format, before);
      CAPTURE(format, emitted.text);
      CHECK((emitted.text.find(flag) != std::string::npos) == (count == 1));
      CHECK(std::ranges::none_of(emitted.unmapped,
                                 [](const std::string& each) { return each.starts_with("parallel.zero1_allreduce"); }));
      const ImportedRun after = imported(format, emitted.text, "run.txt",
                                         {.model = before.model.name,
                                          .topology = before.topology,
                                          .gpus = before.cluster.world_size,
                                          .overrides = emitted.unmapped});
      CHECK(after.scenario.parallel.zero1_allreduce == before.parallel.zero1_allreduce);
      CHECK(after.unmapped.empty());
    }
}

TEST_CASE("launchers: a stack that an import does not have is listed, and then the step is the same", "[io][launch]") {
  const auto step = [](const Scenario& scenario) { return forecast(scenario).value().forecast.step_time_s; };
  for (const auto& [format, stack] : {std::pair{"deepspeed", "deepspeed"},
                                      {"megatron-bridge", "nemo-automodel-dense"},
                                      {"torchtitan", "megatron-core"},
                                      {"megatron", ""}}) {
    CAPTURE(format, stack);
    Texts settings{"parallel.tp=2",  "parallel.pp=1",         "parallel.vpp=1",
                   "parallel.dp=32", "parallel.zero_stage=0", "training.global_batch_size=64"};
    if (*stack != '\0') settings.push_back(std::string("stack=") + stack);
    const Scenario before = in_plain_terms(shipped_scenario("p5-llama3-70b-64", settings));
    const EmittedRun emitted = emit_run(format, before);
    CHECK_THAT(emitted.unmapped, Catch::VectorContains(fmt::format("stack=\"{}\"", before.stack)));
    RunGivens given{.model = before.model.name,
                    .topology = before.topology,
                    .gpus = before.cluster.world_size,
                    .overrides = {"training.seq_length=" + std::to_string(before.training.seq_length)}};
    given.overrides.insert(given.overrides.end(), emitted.unmapped.begin(), emitted.unmapped.end());
    const Scenario after = imported(format, emitted.text, "run.txt", given).scenario;
    CHECK(after.stack == before.stack);
    CHECK(step(after) == step(before));
  }
  const Scenario own = shipped_scenario("p5-llama3-70b-64", {"stack=megatron-core"});
  CHECK(std::ranges::none_of(emit_run("megatron", in_plain_terms(own)).unmapped,
                             [](const std::string& each) { return each.starts_with("stack="); }));
}

TEST_CASE("launchers: a default in place of another value of the stack is listed", "[io][launch]") {
  const std::string loss = "training.cross_entropy=\"automatic\"";
  const auto listed = [&](const std::string& format, const Texts& settings) {
    const Scenario scenario = shipped_scenario("p5-llama3-70b-64", settings);
    return std::ranges::count(emit_run(format, scenario).unmapped, loss);
  };
  CHECK(listed("deepspeed", {"stack=megatron-core", loss}) == 1);
  CHECK(listed("deepspeed", {"stack=megatron-core"}) == 0);  // an import with this stack has the same
  CHECK(listed("deepspeed", {"stack=megatron-lm-2021", loss}) == 0);
  CHECK(listed("torchtitan", {"stack=megatron-core", loss}) == 0);  // an import sets it
  CHECK(imported("torchtitan", "[training]\nseq_len = 4096\nlocal_batch_size = 1\n", "a.toml",
                 {.model = "llama-3.1-8b", .topology = "dgx-h100", .gpus = 8, .overrides = {"stack=megatron-core"}})
            .scenario.training.cross_entropy == CrossEntropy::automatic);
  // Settings of the stack that need experts or 8 bits are not listed where the run has none.
  CHECK(shipped_scenario("p5-llama3-70b-64", {"stack=megatron-core", loss}).against_stack ==
        std::set<std::string>{"training.cross_entropy"});
}

TEST_CASE("launchers: schedules and optimizers are emitted by the names that torchtitan and DeepSpeed have",
          "[io][launch]") {
  Scenario s = shipped_scenario("llama3-405b-16k");
  for (const std::string theirs :
       {"GPipe", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}) {
    s.parallel.pp_schedule = find_schedule(theirs)->name;
    CHECK_THAT(emit_run("torchtitan", s).text, Catch::Contains("pipeline_parallel_schedule = \"" + theirs + "\""));
  }
  for (const auto& [optimizer, theirs] : {std::pair{OptimizerKind::sgd, "SGD"}, {OptimizerKind::lamb, "Lamb"}}) {
    s.training.optimizer = optimizer;
    CHECK_THAT(emit_run("deepspeed", s).text, Catch::Contains(std::string("\"type\": \"") + theirs + "\""));
  }
  for (const auto& [etp, degree] : {std::pair{"0", "2"}, {"1", "1"}}) {  // 0: that of the other layers
    s = shipped_scenario("deepseek-v3-2048",
                         {"parallel.tp=2", "parallel.dp=64", "parallel.ep=8", std::string("parallel.etp=") + etp});
    CHECK_THAT(emit_run("torchtitan", s).text,
               Catch::Contains(std::string("expert_tensor_parallel_degree = ") + degree));
  }
}
