#include "sim/io/stack.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/report/forecast.hpp"
#include "tests/io/temporary_folder.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = source_dir();
const DataPaths kData{kRoot / "scenarios", kRoot / "topologies", kRoot / "kernels/profiles"};

std::vector<Stack> shipped() { return read_stacks(kRoot / "scenarios/stacks").value(); }

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
    for (const std::string& framework : stack.frameworks) CHECK(frameworks.insert(framework).second);
    std::ifstream file(kRoot / "scenarios/stacks" / (stack.name + ".json"));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    CHECK(schema_violations(kRoot / "docs/schema/stack.schema.json", text) == std::vector<std::string>{});
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
  CHECK(name("somebody's own") == "none");
  CHECK(find_stack(stacks, "NeMo/Megatron-Core", "MLPerf Training v3.1")->name == "mlperf-2023");
  CHECK(find_stack(stacks, "NeMo/Megatron-Core", "MLPerf Training v5.1")->name == "megatron-core");
}

TEST_CASE("stacks: a scenario begins with its stack, and what it says itself goes before", "[io]") {
  const fs::path file = kRoot / "scenarios/published/bloom-176b.json";
  const Scenario plain = read_scenario(file, kData, {"parallel.overlap_p2p=true"}).value();
  const Scenario stacked = read_scenario(file, kData, {"stack=megatron-core", "parallel.overlap_p2p=true"}).value();
  CHECK_FALSE(plain.training.compiled);
  CHECK(stacked.training.compiled);                              // the stack's
  CHECK(stacked.training.grad_reduce_dtype == Precision::fp32);  // the scenario's
  CHECK(stacked.parallel.overlap_p2p);
  CHECK(stacked.profile.host.launch == Approx(13e-6));

  SECTION("saved and read again it gives the same forecast") {
    const TemporaryFolder folder;
    REQUIRE(write_file(folder.path() / "s.json", to_json(stacked)));
    const Scenario again = read_scenario(folder.path() / "s.json", kData).value();
    CHECK(again.parallel == stacked.parallel);
    CHECK(again.training == stacked.training);
    CHECK(again.profile == stacked.profile);
  }
  SECTION("an unknown stack is a sentence") {
    const auto none = read_scenario(file, kData, {"stack=megatron-cor"});
    REQUIRE_FALSE(none);
    CHECK(to_string(none.error()).find("stack = \"megatron-cor\"") != std::string::npos);
  }
}
