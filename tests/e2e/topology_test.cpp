// `tracecast topology` and `tracecast import` as a user runs them.
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/e2e/shell.hpp"

using namespace tracecast;

TEST_CASE("topology: every shipped machine is described, and nothing in it is wrong", "[e2e][network]") {
  const Sandbox sandbox;
  for (const auto& entry : std::filesystem::directory_iterator(sandbox.path() / "topologies")) {
    const std::string name = entry.path().stem().string();
    INFO(name);
    const int gpus = nlohmann::json::parse(content_of(entry.path()))["node"]["gpus"];
    const bool alone = name == "cpu" || name == "laptop" || name == "rtx-pro-6000-pcie";
    const Outcome outcome = sandbox.run("tracecast topology " + name + " --json --svg t.svg --ranks " +
                                        std::to_string(alone ? gpus : 4 * gpus));
    CHECK(outcome.err.empty());
    REQUIRE(outcome.code == 0);
    const auto json = nlohmann::json::parse(outcome.out);
    CHECK(json["nodes"] == (alone ? 1 : 4));
    std::int64_t seen = 1;
    for (const auto& distance : json["distances_from_rank_0"]) seen += distance["ranks"].get<std::int64_t>();
    CHECK(seen == json["ranks"].get<std::int64_t>());
  }
}

TEST_CASE("topology: --ecmp shows the one path of a hashed flow", "[e2e][network]") {
  const Sandbox sandbox;
  std::set<std::string> ways;
  for (const char* seed : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
    const std::string command = std::string("tracecast topology dgx-h100 --ranks 512 --hops 0 300 --ecmp ") + seed;
    const Outcome outcome = sandbox.run(command);
    REQUIRE(outcome.code == 0);
    const std::string way = outcome.out.substr(outcome.out.find("From rank 0"));
    CHECK(way.find("of the flow") == std::string::npos);  // none is a part
    CHECK(sandbox.run(command).out == outcome.out);
    ways.insert(way);
  }
  CHECK(ways.size() > 1);
  CHECK(sandbox.run("tracecast topology dgx-h100 --ecmp 1").code == 2);
}

TEST_CASE("topology: --hops shows the path", "[e2e][network]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run("tracecast topology dgx-h100 --ranks 512 --hops 3 509");
  REQUIRE(outcome.code == 0);
  CHECK(outcome.out.find("Bisection bandwidth") != std::string::npos);
  CHECK(outcome.out.find("-> node0/gpu5") != std::string::npos);  // over NVLink to the rail of rank 509
  CHECK(outcome.out.find("-> node63/gpu5") != std::string::npos);
}

TEST_CASE("topology: another program's file is read by its content", "[e2e][network]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run("tracecast topology docs/formats/samples/nccl-topology.xml --ranks 2 --json");
  REQUIRE(outcome.code == 0);
  CHECK(nlohmann::json::parse(outcome.out)["gpu"] == "h100");
}

TEST_CASE("import: the file that it writes is a topology", "[e2e][network]") {
  const Sandbox sandbox;
  CHECK(sandbox.run("tracecast import nvidia-smi docs/formats/samples/nvidia-smi.txt -o mine.json").code == 0);
  const Outcome outcome = sandbox.run("tracecast topology mine.json --ranks 4 --json");
  REQUIRE(outcome.code == 0);
  CHECK(nlohmann::json::parse(outcome.out)["nodes"] == 2);
  CHECK(sandbox.run("tracecast topology mine.json --ranks 4 --export simgrid p.xml && tracecast import simgrid p.xml")
            .code == 0);
}

TEST_CASE("import: what NCCL's log says it chose", "[e2e][network]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run("tracecast import nccl-log docs/formats/samples/nccl.log");
  REQUIRE(outcome.code == 0);
  CHECK(outcome.out.find("16 ranks") != std::string::npos);
  CHECK(outcome.out.find("85711360  ring") != std::string::npos);
}

TEST_CASE("topology and import: impossible options are one error message, with exit code 2", "[e2e][error][network]") {
  const Sandbox sandbox;
  const auto error = [&](const std::string& command) { return complaint_of(sandbox, "tracecast " + command); };
  CHECK(error("topology mdx --ranks 321").find("--ranks = 321: mdx has 320 GPUs") != std::string::npos);
  CHECK(error("topology mdx --ranks 16 --hops 0 16").find("--hops = 16: ranks are 0 to 15 (--ranks)") !=
        std::string::npos);
  CHECK(error("topology mdx --export visio f").find("--export = visio: unknown export format") != std::string::npos);
  CHECK(error("import simgrid docs/formats/samples/nccl-topology.xml")
            .find("has the root element <system>, not <platform>") != std::string::npos);
  CHECK(error("import topology docs").find("is a folder, not a file") != std::string::npos);
}

TEST_CASE("topology: --broken says what a fabric loses without a switch", "[e2e][network]") {
  const Sandbox sandbox;
  const std::string command = "tracecast topology meta-24k-h100 --ranks 2048 --broken ";
  const auto all =
      nlohmann::json::parse(sandbox.run("tracecast topology meta-24k-h100 --ranks 2048 --switches --json").out);
  const Outcome unknown = sandbox.run(command + "backbone");
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("--broken = backbone: is not a switch of the fabric (the first is '") != std::string::npos);
  // The first switch is the one that the error names: a leaf.
  const std::size_t at = unknown.err.find("the first is '") + 14;
  const std::string leaf = unknown.err.substr(at, unknown.err.find('\'', at) - at);
  const Outcome broken = sandbox.run(command + "'" + leaf + "' --json");
  REQUIRE(broken.code == 0);
  const auto json = nlohmann::json::parse(broken.out);
  CHECK(json["broken"]["parts"] == nlohmann::json::array({leaf}));
  CHECK(json["broken"]["whole_bisection_bytes_per_second"] == all["bisection_bytes_per_second"]);
  CHECK(json["bisection_bytes_per_second"] < all["bisection_bytes_per_second"]);
  CHECK(sandbox.run(command + "'" + leaf + "'").out.find("without " + leaf + ": ") != std::string::npos);
  CHECK(
      sandbox.run("tracecast topology dgx-h100 --ranks 8 --broken leaf").err.find("needs a machine of several nodes") !=
      std::string::npos);
}

TEST_CASE("topology and collective: a job uses equal parts of racks, as in all commands", "[e2e][network]") {
  const Sandbox sandbox;
  // 512 GPUs: eight racks with 64 of 72 GPUs, not seven whole ones and 8 GPUs.
  const std::string collective = sandbox.run("tracecast collective --topology gb200-nvl72 --ranks 512").out;
  CHECK(collective.find("512 ranks on 8 nodes of gb200-nvl72, 64 NICs per node\n") != std::string::npos);
  // 514 have no equal parts.
  const std::string unequal = sandbox.run("tracecast collective --topology gb200-nvl72 --ranks 514").out;
  CHECK(unequal.find("  group     514 ranks on 8 nodes of gb200-nvl72, at least 10 NICs per node;\n"
                     "            unequal: 72 ranks per node, 10 on the last\n") != std::string::npos);
  const std::string sweep = sandbox.run("tracecast collective --topology gb200-nvl72 --ranks 514 --sweep").out;
  CHECK(sweep.find("# 514 ranks on 8 nodes of gb200-nvl72, at least 10 NICs per node; unequal:\n"
                   "# 72 ranks per node, 10 on the last\n#\n") != std::string::npos);
  // A GPU sends no more than its NIC of 50 GB/s.
  const std::string topology = sandbox.run("tracecast topology gb200-nvl72 --ranks 256").out;
  CHECK(topology.find("50.0 GB/s per GPU of one half") != std::string::npos);
  CHECK(sandbox.run("tracecast topology gb200-nvl72 --ranks 254").out.find("50.0 GB/s per GPU of one half") !=
        std::string::npos);
}
