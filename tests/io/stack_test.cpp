#include "sim/io/stack.hpp"

#include <set>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/io/files.hpp"
#include "sim/plan/plan.hpp"
#include "tests/support/files.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
using namespace tracecast::literals;
namespace fs = std::filesystem;

namespace {

std::vector<Stack> shipped() { return read_stacks(source_dir() / "scenarios/stacks").value(); }

}  // namespace

TEST_CASE("stacks: every shipped one is read, fits its schema and names a source; no framework has two",
          "[io][schema]") {
  const std::vector<Stack> stacks = shipped();
  CHECK(stacks.size() >= 10);
  std::set<std::string> frameworks;
  for (const Stack& stack : stacks) {
    CAPTURE(stack.name);
    CHECK_FALSE(stack.source.empty());
    CHECK_FALSE((stack.frameworks.empty() && stack.sources.empty()));
    if (stack.rows.empty() && stack.gpus.empty() && stack.sources.empty())
      for (const std::string& framework : stack.frameworks) CHECK(frameworks.insert(framework).second);
    const std::string text = content_of(source_dir() / "scenarios/stacks" / (stack.name + ".json"));
    CHECK(schema_violations(source_dir() / "docs/schema/stack.schema.json", text) == std::vector<std::string>{});
  }
}

TEST_CASE("stacks: the longest beginning of a framework's name decides", "[io]") {
  const std::vector<Stack> stacks = shipped();
  const auto name = [&](const char* framework) {
    const Stack* stack = find_stack(stacks, framework);
    return stack == nullptr ? std::string("none") : stack->name;
  };
  CHECK(name("Megatron-DeepSpeed") == "megatron-deepspeed");
  CHECK(name("Megatron-LM fork") == "megatron-lm");
  CHECK(name("NeMo/Megatron-Core") == "megatron-core");
  CHECK(name("NeMo 24.07") == "nemo-2024");
  CHECK(name("NeMo 24.12") == "megatron-core");
  CHECK(name("NeMo 25.04") == "nemo-2025");
  CHECK(name("Megatron-LM (2021)") == "megatron-lm-2021");
  CHECK(name("Megatron-Core 0.8") == "megatron-core-2024");
  CHECK(name("torchtitan (2024)") == "torchtitan-2024");
  CHECK(name("torchtitan") == "torchtitan");
  CHECK(name("Megatron-Core 0.13") == "megatron-lm-2024");
  CHECK(name("TorchTitan") == "torchtitan");  // neither case nor hyphens matter
  CHECK(name("Megatron Bridge 26.02") == "megatron-bridge");
  CHECK(name("NVIDIA NeMo AutoModel") == "nemo-automodel");
  CHECK(name("Primus Megatron") == "primus-megatron");
  CHECK(name("JAX MaxText") == "maxtext");
  CHECK(name("DeepSpeed ZeRO-3") == "deepspeed");
  CHECK(name("somebody's own") == "none");
  CHECK(find_stack(stacks, "NeMo/Megatron-Core", "MLPerf Training v3.1")->name == "mlperf-2023");
  CHECK(find_stack(stacks, "NeMo/Megatron-Core", "MLPerf Training v5.1")->name == "megatron-core");
}

TEST_CASE("stacks: a source replaces the stacks of its own frameworks only", "[io]") {
  const std::vector<Stack> stacks = shipped();
  const auto name = [&](const char* framework, const char* source) {
    const Stack* stack = find_stack(stacks, framework, source);
    return stack == nullptr ? std::string("none") : stack->name;
  };
  CHECK(name("Megatron-DeepSpeed", "BLOOM 176B chronicles") == "bloom");
  CHECK(name("", "BLOOM 176B chronicles") == "bloom");
  CHECK(name("Nanotron", "BLOOM 7B1 on Alps") == "nanotron");
  CHECK(name("Megatron-DeepSpeed", "BLOOMZ (arXiv 2211.01786)") == "megatron-deepspeed");
  CHECK(name("torchtitan", "Zero Bubble in torchtitan") == "torchtitan");
  CHECK(name("Megatron-LM (2023)", "Zero Bubble ICLR24") == "zero-bubble");
  CHECK(name("PyTorch FSDP", "MLPerf Training v4.0") == "pytorch-fsdp");
  CHECK(name("NVIDIA NeMo", "MLPerf Training v4.0") == "mlperf-2024");
  CHECK(name("Megatron-DeepSpeed", "") == "megatron-deepspeed");  // without its source a stack is not found
  CHECK(name("NeMo", "") == "megatron-core");
}

TEST_CASE("stacks: a recipe is chosen by a run's columns, by all that it names", "[io]") {
  const std::vector<Stack> stacks = shipped();
  const auto name = [&](const char* framework, const char* source, const char* column, const char* value) {
    return find_stack(stacks, framework, source,
                      [&](const std::string& asked) { return asked == column ? std::string(value) : std::string(); })
        ->name;
  };
  const char* recipe = "dgxc-benchmarking repo @ tag v25.02: nemotron/README_340b.md + nemotron4-340b-synth.yaml";
  CHECK(name("NeMo 24.07", "", "task", "sft") == "nemo-2024-fine-tuning");
  CHECK(name("NeMo 24.07", "", "task", "pretrain") == "nemo-2024");
  CHECK(name("NeMo 24.07", "", "notes", "sft") == "nemo-2024");
  CHECK(name("NeMo/Megatron-Core", "DGX Cloud", "source_path", recipe) == "nemotron-4-340b");
  CHECK(name("NeMo/Megatron-Core", "DGX Cloud", "source_path",
             "dgxc-benchmarking repo @ tag v25.02: nemotron/README_15b") == "megatron-core");
  const char* grok = "dgxc-benchmarking repo @ tag v25.02: grok1/README_314b.md";
  CHECK(name("NeMo of 2024", "DGX Cloud", "source_path", grok) == "grok-1");
  CHECK(name("NeMo 24.12", "DGX Cloud", "source_path", grok) == "grok-1");
  CHECK(find_stack(stacks, "NVIDIA NeMo 25.04")->name == "nemo-2025");  // a word of the name
  CHECK(find_stack(stacks, "Primus (torchtitan)")->name == "primus-torchtitan");
  CHECK(find_stack(stacks, "AWS torchtitan")->name == "torchtitan");
  CHECK(find_stack(stacks, "MyNeMo") == nullptr);
  CHECK(find_stack(stacks, "NeMo 24.07")->name == "nemo-2024");  // no columns, no recipe

  // Megatron-LM without a year is that of the A100 or a later one.
  CHECK(name("Megatron-LM", "", "gpu", "A100") == "megatron-lm");
  CHECK(name("Megatron-LM", "", "gpu", "H100") == "megatron-lm-2024");
  CHECK(name("Megatron-LM (2021)", "", "gpu", "H100") == "megatron-lm-2021");
  CHECK(name("NeMo AutoModel", "", "arch", "dense") == "nemo-automodel-dense");
  CHECK(name("Megatron MoE", "", "arch", "MoE") == "megatron-moe");

  // Of several recipes the one that names most.
  const auto composer = [&](const char* table, const char* model) {
    return find_stack(stacks, "Composer/FSDP", "",
                      [&](const std::string& asked) {
                        return std::string(asked == "source_detail" ? table : asked == "model_name" ? model : "");
                      })
        ->name;
  };
  CHECK(composer("A100 40GB with 1600 Gbps", "MPT-7B") == "composer-fsdp-2022");
  CHECK(composer("H100 80GB BF16", "MPT-7B") == "composer-fsdp-2023");
  CHECK(composer("H100 80GB BF16 (Large Scale, >= 128 GPUs)", "MPT-7B") == "composer-fsdp-fa2");
  CHECK(composer("H100 80GB BF16 (Large Scale, >= 128 GPUs)", "MPT-30B") == "composer-fsdp");
  CHECK(composer("", "MPT-7B") == "llm-foundry");

  Stack two = stacks.front();
  two.name = "two";
  two.frameworks = {"F"};
  two.sources.clear();
  two.rows = {{"a", "x|z"}, {"b", "y"}};
  const auto found = [&](const char* a, const char* b) {
    return find_stack({two}, "F", "", [&](const std::string& c) { return std::string(c == "a" ? a : b); }) != nullptr;
  };
  CHECK(found("xx", "y"));
  CHECK(found("zz", "y"));  // an alternative
  CHECK_FALSE(found("xx", "x"));
  CHECK_FALSE(found("", "y"));
}

TEST_CASE("stacks: a scenario begins with its stack, and what it says itself overrides it", "[io]") {
  const fs::path file = source_dir() / "scenarios/published/bloom-176b.json";
  const Scenario plain = read_scenario(file, shipped_data(), {"parallel.overlap_p2p=true"}).value();
  const Scenario stacked =
      read_scenario(file, shipped_data(), {"stack=megatron-core", "parallel.overlap_p2p=true"}).value();
  CHECK_FALSE(plain.training.transformer_engine);
  CHECK(stacked.training.transformer_engine);                    // the stack's
  CHECK(stacked.training.grad_reduce_dtype == Precision::fp32);  // the scenario's
  CHECK(stacked.parallel.overlap_p2p);
  CHECK(stacked.profile.host.launch == Approx(85e-6 * stacked.profile.in_training.slowest_gpu));
  CHECK(stacked.training.low_precision_activations.empty());  // in 16 bit nothing is
  CHECK_FALSE(stacked.training.fp8_param_gather);
  const Scenario narrow = read_scenario(file, shipped_data(), {"stack=megatron-core", "training.dtype=fp8"}).value();
  CHECK(narrow.training.low_precision_activations == std::vector<std::string>{"linear_inputs"});
  CHECK(narrow.training.fp8_param_gather);
  // Scales of a whole tensor are of fp8 alone; which copies of it there are follows from the GPU.
  const auto precision_on = [](const char* topology, const char* dtype) {
    return shipped_scenario("llama3-405b-1024",
                            {"stack=megatron-bridge", std::string("cluster.topology=") + topology,
                             std::string("training.dtype=") + dtype, "training.fp8_param_gather=false"})
        .training;
  };
  CHECK(precision_on("dgx-h100", "fp8").fp8_scaling == Fp8Scaling::current);
  CHECK(precision_on("dgx-h100", "mxfp8").fp8_scaling == Fp8Scaling::delayed);
  CHECK(precision_on("dgx-h100", "fp8").fp8_transpose);
  CHECK_FALSE(precision_on("dgx-b200", "fp8").fp8_transpose);

  SECTION("saved and read again it gives the same forecast") {
    const TemporaryFolder folder;
    REQUIRE(write_file(folder.path() / "s.json", to_json(stacked)));
    const Scenario again = read_scenario(folder.path() / "s.json", shipped_data()).value();
    CHECK(again.parallel == stacked.parallel);
    CHECK(again.training == stacked.training);
    CHECK(again.profile == stacked.profile);
  }
  SECTION("an unknown stack is a sentence") {
    const auto none = read_scenario(file, shipped_data(), {"stack=megatron-cor"});
    REQUIRE_FALSE(none);
    CHECK(to_string(none.error()).find("stack = \"megatron-cor\"") != std::string::npos);
  }
}

TEST_CASE("stacks: models with experts cost the host more per operator", "[io]") {
  Stack stack;
  stack.host_launch = 170_us;
  stack.host_launch_experts = 230_us;
  Profile dense, experts;
  apply_to_profile(stack, dense, false);
  apply_to_profile(stack, experts, true);
  CHECK(dense.host.launch == Approx(170e-6));
  CHECK(experts.host.launch == Approx(230e-6));
  stack.host_launch_experts = Duration{};
  apply_to_profile(stack, experts, true);
  CHECK(experts.host.launch == Approx(170e-6));
}

TEST_CASE("stacks: dense layers of Transformer Engine cost the host half as much in 16 bits", "[io]") {
  Stack stack;
  stack.host_launch = 170_us;
  stack.training.transformer_engine = true;
  const auto launch = [&](Precision dtype, bool experts) {
    Model model;
    if (experts) model.moe.emplace();
    Profile profile;
    apply_to_profile(stack, profile, experts);
    set_host_precision(stack, model, dtype, profile);
    return profile.host.launch;
  };
  CHECK(launch(Precision::bf16, false) == Approx(85e-6));
  CHECK(launch(Precision::fp8, false) == Approx(170e-6));
  CHECK(launch(Precision::nvfp4, false) == Approx(170e-6));
  CHECK(launch(Precision::bf16, true) == Approx(170e-6));
  stack.training.transformer_engine = false;
  CHECK(launch(Precision::bf16, false) == Approx(170e-6));
}

TEST_CASE(
    "stacks: the attention kernel that a stack names for a GPU's architecture has precedence over the profile's others",
    "[io]") {
  const auto kernels = [](const std::string& architecture, const std::string& wanted) {
    Stack stack;
    stack.attention_kernels = {{"Hopper", wanted}};
    Profile profile;
    profile.architecture = architecture;
    for (const char* kernel : {"fa3", "fa2", "cudnn", "fa2"}) profile.attention.emplace_back().kernel = kernel;
    apply_to_profile(stack, profile, false);
    std::vector<std::string> order;
    for (const AttentionModel& model : profile.attention) order.push_back(model.kernel);
    return order;
  };
  const std::vector<std::string> own{"fa3", "fa2", "cudnn", "fa2"};
  CHECK(kernels("Hopper", "fa2") == std::vector<std::string>{"fa2", "fa2", "fa3", "cudnn"});
  CHECK(kernels("Hopper", "unknown") == own);
  CHECK(kernels("Ampere", "fa2") == own);
}

TEST_CASE("stacks: every stack serves a dense model without tensor parallelism", "[io]") {
  const fs::path file = source_dir() / "scenarios/published/torchtitan-llama3-8b-8gpu.json";
  const auto planned = [&](const std::vector<std::string>& settings) {
    const Scenario s = read_scenario(file, shipped_data(), settings).value();
    return make_plan(s.model, s.parallel, s.training, s.cluster.world_size).has_value();
  };
  for (const Stack& stack : shipped()) {
    INFO(stack.name);
    CHECK(planned({"stack=" + stack.name}));
  }
  CHECK(read_scenario(file, shipped_data(), {"stack=torchtitan", "parallel.tp=8"}).value().parallel.sequence_parallel);
  // What the scenario itself asks for stays, and is refused.
  CHECK_FALSE(planned({"stack=torchtitan", "parallel.sequence_parallel=true"}));
  CHECK_FALSE(planned({"stack=hai-llm", "parallel.moe_dispatcher=deepep"}));
  CHECK_FALSE(planned({"stack=hai-llm", "training.moe_dispatch_dtype=fp8"}));
}

TEST_CASE("stacks: PyTorch's own attention on AMD's GPUs is AOTriton's, slower than AITER's", "[io]") {
  const fs::path file = source_dir() / "scenarios/published/torchtitan-llama3-8b-8gpu-compile.json";
  for (const char* gpu : {"mi300x", "mi325x", "mi355x"}) {
    INFO(gpu);
    std::vector<std::string> settings{"cluster.topology=hgx-mi300x", "cluster.profile=" + std::string(gpu)};
    const Profile titan = read_scenario(file, shipped_data(), settings).value().profile;
    settings.emplace_back("stack=megatron-core");
    const Profile by_default = read_scenario(file, shipped_data(), settings).value().profile;
    CHECK(by_default.attention.front().kernel == "aiter");
    CHECK(titan.attention.front().kernel == "aotriton");
    CHECK(titan.attention.front().backward_efficiency < 0.5 * by_default.attention.front().backward_efficiency);
  }
}

TEST_CASE("stacks: where launches block, the host's time is in every kernel and not beside it", "[oracle][io]") {
  Stack stack;
  stack.host_launch = 80_us;
  stack.launch_blocking = true;
  Profile profile;
  profile.host.graph_launch = 1e-6;
  profile.gemm[Precision::bf16].t0 = 3e-6;
  profile.memory_bound[{OperatorKind::softmax, Pass::forward}].t0 = 2e-6;
  profile.attention.resize(1);
  profile.in_training.gemm = 1.25;
  profile.in_training.softmax = 0.8;
  apply_to_profile(stack, profile, false);
  CHECK(profile.host.launch == Approx(1e-6));
  // The in-training factor is of kernels only: multiplied again it gives back the 80 us.
  CHECK(1.25 * (profile.gemm[Precision::bf16].t0 - 3e-6) == Approx(80e-6));
  CHECK(0.8 * (profile.memory_bound[{OperatorKind::softmax, Pass::forward}].t0 - 2e-6) == Approx(80e-6));
  CHECK(profile.attention.front().t0 == Approx(80e-6));
}

TEST_CASE("stacks: a stack's host time is for x86 hosts, others take their multiple of it", "[io]") {
  Stack stack;
  stack.host_launch = 80_us;
  stack.host_launch_per_expert = 30_us;
  Profile profile;
  profile.host.launch = 30e-6;
  profile.host.relative = 2.5;
  apply_to_profile({}, profile, false);
  CHECK(profile.host.launch == 30e-6);  // its own host's
  apply_to_profile(stack, profile, false);
  CHECK(profile.host.launch == Approx(200e-6));
  CHECK(profile.host.launch_per_expert == Approx(75e-6));
}

TEST_CASE("stacks: libraries of a young architecture get faster with the years", "[oracle][io]") {
  const auto gemm = [](const char* architecture, double released, const char* kind = "fitted") {
    Stack stack;
    stack.released = released;
    Profile profile;
    profile.architecture = architecture;
    profile.kind = kind;
    profile.in_training.gemm = 1.2;
    apply_to_profile(stack, profile, false);
    CHECK(profile.in_training.attention == 1);  // its kernel has a name of its own
    CHECK(profile.in_training.memory == Approx(profile.in_training.gemm / 1.2));
    return profile.in_training.gemm;
  };
  CHECK(gemm("Hopper", 2024.6) == Approx(1.2));
  CHECK(gemm("Hopper", 2023.6) == Approx(1.2 * std::exp(0.05)));
  CHECK(gemm("Blackwell", 2026.7) == Approx(1.2 * std::exp(-0.05)));
  CHECK(gemm("Hopper", 0) == 1.2);                   // not known
  CHECK(gemm("Ampere", 2021) == 1.2);                // mature
  CHECK(gemm("Hopper", 2023.6, "recorded") == 1.2);  // with libraries of its own
}
