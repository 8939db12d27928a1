
#include <catch2/catch.hpp>

#include "sim/base/words.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "sim/io/files.hpp"
#include "sim/io/nearest_profiles.hpp"
#include "sim/plan/plan.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

Scenario read(const fs::path& file, const std::vector<std::string>& overrides = {}) {
  return value_of(read_scenario(file, shipped_data(), overrides));
}

}  // namespace

TEST_CASE("scenario: the main job is read as published", "[io]") {
  const Scenario scenario = read(source_dir() / "scenarios/published/llama3-405b-16k.json");
  CHECK(scenario.name == "llama3-405b-16k");
  CHECK(scenario.model.name == "llama-3.1-405b");
  CHECK(parameter_count(scenario.model).total() == 405'853'388'800);
  CHECK(scenario.parallel.tp == 8);
  CHECK(scenario.parallel.pp == 16);
  CHECK(scenario.parallel.dp == 128);
  CHECK(scenario.parallel.zero_stage == 2);
  CHECK_FALSE(scenario.parallel.reshard_after_forward);
  CHECK(scenario.training.seq_length == 8192);
  CHECK(scenario.training.global_batch_size == 2048);
  CHECK(scenario.cluster.name == "meta-24k-h100");
  CHECK(scenario.cluster.world_size == 16384);
  CHECK(scenario.profile.name == "h100");
  REQUIRE(scenario.measured);
  CHECK(scenario.measured->step_time_s == 6.7211);
  CHECK(scenario.locations.at("parallel.tp").line == 6);
  CHECK(scenario.locations.at("parallel.tp").value == "8");
}

TEST_CASE("scenario: a spread between GPUs slows kernels and host to those of the slowest", "[io]") {
  const fs::path file = source_dir() / "scenarios/published/llama3-405b-16k.json";
  const Scenario alike = read(file, {"cluster.gpu_spread=0"});
  const Scenario usual = read(file);
  const Scenario spread = read(file, {"cluster.gpu_spread=0.01"});
  CHECK(usual.gpu_spread == kGpuSpread);
  // 1 + spread x 3.95576 (of 16,384 GPUs) - 2 % x 2.33669 (of 64): tests/cost/slowest_rank_test.cpp
  CHECK(alike.profile.in_training.slowest_gpu == Approx(0.953266).epsilon(1e-5));
  CHECK(usual.profile.in_training.slowest_gpu == Approx(1.032381).epsilon(1e-5));
  CHECK(usual.profile.host.launch == Approx(alike.profile.host.launch * 1.032381 / 0.953266).epsilon(1e-5));
  CHECK(spread.profile.in_training.slowest_gpu == Approx(0.992824).epsilon(1e-5));
  const TemporaryFolder folder;
  const fs::path copy = folder.path() / "copy.json";
  for (const Scenario& each : {alike, usual, spread}) {
    REQUIRE(write_file(copy, to_json(each)));
    CHECK(read(copy).profile == each.profile);
  }
  // Planning and sweeps read the scenario anew for every size.
  CHECK(read(file, {"cluster.world_size=8192"}).profile.in_training.slowest_gpu <
        usual.profile.in_training.slowest_gpu);
  for (const char* beyond : {"cluster.gpu_spread=0.3", "cluster.gpu_spread=-0.1"}) {
    const Result<Scenario> refused = read_scenario(file, shipped_data(), {beyond});
    REQUIRE_FALSE(refused);
    CHECK(to_string(refused.error()).find("gpu_spread") != std::string::npos);
    CHECK(to_string(refused.error()).find("allowed: 0 to 0.2") != std::string::npos);
  }
}

TEST_CASE("scenario: where ranks have speeds of their own, the slowest is one of them", "[io]") {
  const fs::path file = source_dir() / "scenarios/published/llama3-405b-16k.json";
  CHECK(read(file, {"perturb.speed_spread=0.02"}).profile.in_training.slowest_gpu == Approx(0.953266).epsilon(1e-5));
  CHECK(read(file, {"perturb.speed_spread=0.02", "cluster.gpu_spread=0.02"}).profile.in_training.slowest_gpu > 1.03);
}

TEST_CASE("scenario: GPUs of another kind have the stack's host and wait for the slowest as well", "[io]") {
  const fs::path file = source_dir() / "scenarios/published/llama3-405b-16k.json";
  const Scenario mixed = read(file, {"perturb.gpus.0-7=a100", "stack=megatron-deepspeed"});
  REQUIRE(mixed.perturbation.gpus.size() == 1);
  const Profile& other = mixed.perturbation.gpus.front().profile;
  CHECK(other.in_training.slowest_gpu == mixed.profile.in_training.slowest_gpu);
  CHECK(other.host.launch == mixed.profile.host.launch);
}

TEST_CASE("scenario: defaults of a stack that are for one ZeRO stage or one kind of data parallelism", "[io][stack]") {
  const fs::path file = source_dir() / "scenarios/teaching/zero-3-gpt2.json";
  const auto parallel = [&](const std::vector<std::string>& overrides) { return read(file, overrides).parallel; };
  // overlap_comm is off below stage 3, unless the scenario says otherwise.
  CHECK_FALSE(parallel({"stack=deepspeed", "parallel.zero_stage=2"}).overlap_grad_reduce);
  CHECK(parallel({"stack=deepspeed", "parallel.zero_stage=3"}).overlap_grad_reduce);
  CHECK_FALSE(
      parallel({"stack=deepspeed", "parallel.zero_stage=3", "parallel.overlap_grad_reduce=false"}).overlap_grad_reduce);
  CHECK(parallel({"stack=nemo-2025"}).ddp_bucket_size == 128 << 20);
  CHECK(parallel({"stack=nemo-2025", "parallel.data_parallel=ddp", "parallel.zero_stage=0"}).ddp_bucket_size == 0);
  CHECK(parallel({"stack=nemo-2025", "parallel.data_parallel=fsdp1"}).ddp_bucket_size == 128 << 20);
}

TEST_CASE("scenario: a job uses equal parts of racks", "[io][racks]") {
  const fs::path file = source_dir() / "scenarios/published/deepseek-v3-2048.json";
  const auto machine = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), "cluster.topology=gb200-nvl72");
    const NodeSpec node = read(file, overrides).cluster.node;
    return std::pair(node.gpus, node.installed_gpus);
  };
  CHECK(machine({}) == std::pair(64, 72));  // 2,048 = 32 x 64, and 72 does not divide it
  CHECK(machine({"cluster.gpus_per_rack=72"}) == std::pair(72, 0));
  CHECK(machine({"cluster.gpus_per_rack=36"}) == std::pair(36, 72));
  CHECK(machine({"perturb.missing_gpus.0=8"}) == std::pair(72, 0));  // the scenario says what is used
  const auto message = [&](const char* topology, const char* key) {
    return to_string(read_scenario(file, shipped_data(), {topology, key}).error());
  };
  CHECK(message("cluster.topology=gb200-nvl72", "cluster.gpus_per_rack=30") ==
        "--set: cluster.gpus_per_rack = 30: must be whole hosts of 4 GPUs (allowed: multiples of 4 up to 72)");
  CHECK(message("cluster.topology=dgx-h100", "cluster.gpus_per_rack=8") ==
        "--set: cluster.gpus_per_rack = 8: needs a topology with several hosts in a scale-up domain "
        "(node.gpus_per_host)");
  CHECK(message("cluster.topology=dgx-h100", "cluster.profile=") ==
        "--set: cluster.profile = \"\": is empty (allowed: the name or path of a profile; without the key, that of the "
        "topology)");
  const TemporaryFolder folder;
  const fs::path copy = folder.path() / "copy.json";
  for (const std::string each : {"cluster.world_size=2048", "cluster.gpus_per_rack=36"}) {
    const Scenario scenario = read(file, {"cluster.topology=gb200-nvl72", each});
    REQUIRE(write_file(copy, to_json(scenario)));
    CHECK(read(copy).cluster.node.gpus == scenario.cluster.node.gpus);
    CHECK(read(copy).gpus_per_rack == scenario.gpus_per_rack);
  }
}

TEST_CASE("scenario: every shipped one can be read and planned", "[io]") {
  for (const fs::path& file : shipped_scenarios()) {
    INFO(file.string());
    const Scenario scenario = read(file, {"cluster.profile=h100"});
    const Result<Plan> plan =
        make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
    CHECK((plan ? "" : to_string(located(plan.error(), scenario))) == "");
    CHECK_FALSE(scenario.description.empty());
    CHECK_FALSE(scenario.source.empty());
    CHECK(read(file).measured.has_value() == (file.parent_path().filename() == "published"));
  }
}

TEST_CASE("scenario: written and read again, every shipped one is the same", "[io][property]") {
  const TemporaryFolder folder;
  for (const fs::path& file : shipped_scenarios()) {
    INFO(file.string());
    const Scenario scenario = read(file, {"cluster.profile=h100"});
    const fs::path copy = folder.path() / file.filename();
    REQUIRE(write_file(copy, to_json(scenario)));
    const Scenario again = read(copy);
    CHECK(again.name == scenario.name);
    CHECK(again.description == scenario.description);
    CHECK(again.source == scenario.source);
    CHECK(again.model == scenario.model);
    CHECK(again.parallel == scenario.parallel);
    CHECK(again.training == scenario.training);
    CHECK(again.topology == scenario.topology);
    CHECK(again.cluster.name == scenario.cluster.name);
    CHECK(again.cluster.world_size == scenario.cluster.world_size);
    CHECK(again.profile == scenario.profile);
    CHECK(again.measured == scenario.measured);
  }
}

TEST_CASE("scenario: overrides are applied before reading", "[io]") {
  const Scenario scenario = read(source_dir() / "scenarios/published/llama3-405b-16k.json",
                                 {"model=llama-3.1-70b", "parallel.dp=64", "cluster.world_size=8192",
                                  "training.dtype=fp8", "cluster.profile=a100"});
  CHECK(scenario.model.name == "llama-3.1-70b");
  CHECK(scenario.parallel.dp == 64);
  CHECK(scenario.cluster.world_size == 8192);
  CHECK(scenario.training.dtype == Precision::fp8);
  CHECK(scenario.profile.name == "a100");
  CHECK(scenario.locations.at("parallel.dp").file == "--set");
}

TEST_CASE("scenario: errors in overrides and in the file are reported together", "[io][error]") {
  const fs::path file = source_dir() / "scenarios/teaching/pipeline-1f1b.json";
  const Result<Scenario> scenario =
      read_scenario(file, shipped_data(), {"parallel.tp=zero", "training.seq_len=1", "model=lama-2-7b"});
  REQUIRE_FALSE(scenario);
  CHECK(to_string(scenario.error()) ==
        "--set: model = \"lama-2-7b\": unknown model 'lama-2-7b' (did you mean 'llama-2-7b'?)\n"
        "--set: parallel.tp = \"zero\": is not an integer\n"
        "--set: training.seq_len: unknown key (did you mean 'seq_length'?)");
}

TEST_CASE("scenario: words of other programs are answered with the key", "[io][error]") {
  const fs::path file = source_dir() / "scenarios/teaching/pipeline-1f1b.json";
  const Result<Scenario> scenario =
      read_scenario(file, shipped_data(), {"cluster.gpu=h200", "parallel.schedule=gpipe", "training.precision=fp8"});
  REQUIRE_FALSE(scenario);
  CHECK(to_string(scenario.error()) ==
        "--set: parallel.schedule: unknown key (did you mean 'pp_schedule'?)\n"
        "--set: training.precision: unknown key (did you mean 'dtype'?)\n"
        "--set: cluster.gpu: unknown key (did you mean 'profile'?)");
}

TEST_CASE("scenario: a key under its old name is read, with a note", "[io]") {
  const fs::path file = source_dir() / "scenarios/published/llama3-405b-16k.json";
  const Scenario now = read(file, {"training.reserved_memory_gib=2"});
  Scenario before = read(file, {"training.memory_beside_gib=2"});
  CHECK(now.notes.empty());
  CHECK(before.training == now.training);
  CHECK(before.notes ==
        std::vector<std::string>{"training.memory_beside_gib is now called training.reserved_memory_gib"});
  const Result<Scenario> both =
      read_scenario(file, shipped_data(), {"training.memory_beside_gib=2", "training.reserved_memory_gib=2"});
  REQUIRE_FALSE(both);
  CHECK(to_string(both.error()) ==
        "--set: training.memory_beside_gib = 2: is the old name of 'reserved_memory_gib', which is given as well");
}

TEST_CASE("scenario: no more GPUs than the machine has", "[io][error]") {
  const fs::path file = source_dir() / "scenarios/published/llama3-405b-16k.json";  // on meta-24k-h100
  CHECK(read(file, {"cluster.world_size=24576"}).cluster.world_size == 24576);
  const Result<Scenario> scenario = read_scenario(file, shipped_data(), {"cluster.world_size=24577"});
  REQUIRE_FALSE(scenario);
  CHECK(to_string(scenario.error()) ==
        "--set: cluster.world_size = 24577: is more than meta-24k-h100 has (allowed: 1 to 24576)");
}

TEST_CASE("scenario: references to files count from the scenario's folder", "[io]") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "own");
  fs::copy_file(source_dir() / "scenarios/models/gpt2-small.json", folder.path() / "own/model.json");
  fs::copy_file(source_dir() / "topologies/dgx-h100.json", folder.path() / "own/machine.json");
  fs::copy_file(source_dir() / "kernels/profiles/h100.json", folder.path() / "own/gpu.json");
  const fs::path file = folder.path() / "run.json";
  REQUIRE(write_file(file, R"({"model": "own/model.json",
    "training": {"seq_length": 1024, "global_batch_size": 8},
    "cluster": {"topology": "./own/machine.json", "world_size": 8, "profile": "own/gpu.json"}})"));
  const Scenario scenario = read(file);
  CHECK(scenario.model.name == "gpt2-small");
  CHECK(scenario.cluster.name == "machine");
  CHECK(scenario.profile.name == "gpu");
}

TEST_CASE("scenario: errors in referenced files are reported with its own", "[io][error]") {
  const TemporaryFolder folder;
  const fs::path machine = folder.path() / "machine.json";
  REQUIRE(write_file(machine, "{\n\"gpu\": 1}"));
  const fs::path file = folder.path() / "run.json";
  REQUIRE(write_file(file, R"({"model": "gpt2-small",
    "training": {"seq_length": 1024, "global_batch_size": 8},
    "cluster": {"topology": "machine.json", "world_size": 0}})"));
  const Result<Scenario> scenario = read_scenario(file, shipped_data());
  REQUIRE_FALSE(scenario);
  const std::vector<Diagnostic>& found = scenario.error().diagnostics;
  CHECK(found.front().file == machine.string());
  CHECK(to_string(found.back()) ==
        file.string() + ":3: cluster.world_size = 0: is out of range (allowed: 1 to 16777216)");
}

TEST_CASE("scenario: PCIe is no faster than the board in its slot, and the report says so", "[io][scenario]") {
  const auto read = [](const char* profile) {
    return shipped_scenario("data-parallel-gpt2", {"cluster.topology=rtx-pro-6000-pcie", profile});
  };
  const Scenario gen4 = read("cluster.profile=l40s"), gen5 = read("cluster.profile=rtx-pro-6000");
  CHECK(gen4.cluster.node.pcie == Bandwidth{26'460'000'000});
  CHECK(std::ranges::count(gen4.notes, "PCIe carries 26.5 GB/s, which is what the board of l40s can") == 1);
  CHECK(gen5.cluster.node.pcie == Bandwidth{53'000'000'000});
  CHECK(gen5.notes.empty());
}

TEST_CASE("scenario: a GPU without a profile has nearest ones, all of them shipped", "[io][scenario]") {
  CHECK(nearest_profiles("l40") == "l40s or rtx-4090");
  CHECK(nearest_profiles("NVIDIA GeForce RTX 4080") == "l40s or rtx-4090");
  CHECK(nearest_profiles("sm-89") == nearest_profiles("l40"));
  CHECK(nearest_profiles("Tesla P100") == "v100-16gb");
  CHECK(nearest_profiles("gfx908") == "mi250x");
  CHECK(nearest_profiles("NVIDIA Rubin") == "vr200");
  CHECK(nearest_profiles("toaster").empty());
  for (const char* gpu :
       {"a10", "l40", "p100", "t4", "a30", "rtx-5090", "h800-pcie", "sm-100", "sm-103", "gfx942", "gfx950"}) {
    const std::string nearest = nearest_profiles(gpu);
    CHECK_FALSE(nearest.empty());
    for (const std::string_view word : split_words(nearest))
      if (word != "or") CHECK(fs::exists(source_dir() / "kernels/profiles" / (std::string(word) + ".json")));
  }
}

TEST_CASE("scenario: texts that are empty are not written, unless the stack has another one", "[io]") {
  const std::string written =
      to_json(shipped_scenario("llama3-405b-1024", {"stack=megatron-core", "training.attention_kernel="}));
  CHECK(written.find("attention_kernel") == std::string::npos);
  CHECK(written.find("pp_schedule") == std::string::npos);
}

TEST_CASE("scenario: a key without its group is answered with the group", "[io][error]") {
  const auto refused = [](const std::string& setting) {
    const Result<Scenario> scenario =
        read_scenario(shipped_data().scenarios / "case_studies/llama2-7b-abci.json", shipped_data(), {setting});
    REQUIRE_FALSE(scenario.has_value());
    return to_string(scenario.error());
  };
  CHECK(refused("tp=4") == "--set: tp: unknown key (did you mean 'parallel.tp'?)");
  CHECK(refused("dtype=fp8") == "--set: dtype: unknown key (did you mean 'training.dtype'?)");
  CHECK(refused("world_size=8") == "--set: world_size: unknown key (did you mean 'cluster.world_size'?)");
  CHECK(refused("training.dtype=FP8").find("training.dtype = \"FP8\": is unknown (did you mean 'fp8'? allowed: ") !=
        std::string::npos);
}

TEST_CASE("scenario: a training has at least one step", "[io][error]") {
  const std::filesystem::path path = shipped_data().scenarios / "case_studies/llama2-7b-abci.json";
  const Result<Scenario> known = read_scenario(path, shipped_data());
  REQUIRE(known.has_value());
  const std::int64_t step = known->training.seq_length * known->training.global_batch_size;
  CHECK(read_scenario(path, shipped_data(), {"training.train_tokens=" + std::to_string(step)}).has_value());
  const Result<Scenario> less =
      read_scenario(path, shipped_data(), {"training.train_tokens=" + std::to_string(step - 1)});
  REQUIRE_FALSE(less.has_value());
  CHECK(to_string(less.error()).find("is less than a step, which has " + std::to_string(step) + " tokens") !=
        std::string::npos);
}

TEST_CASE("scenario: a model in its place is one sentence", "[io][error]") {
  const std::filesystem::path model = shipped_data().scenarios / "models/llama-3.1-8b.json";
  const Result<Scenario> scenario = read_scenario(model, shipped_data());
  REQUIRE_FALSE(scenario.has_value());
  CHECK(to_string(scenario.error()) ==
        model.string() + ": describes a model, not a scenario (a scenario with it: --set model=" + model.string() +
            ")");
}
