// `tracecast goodput` as a user runs it: options that contradict each other, exit codes, files.
#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "tests/e2e/shell.hpp"

using namespace tracecast;

TEST_CASE("goodput: a value that is given twice is refused, not chosen", "[e2e][goodput]") {
  const Sandbox sandbox;
  const auto error = [&](const std::string& options) {
    return complaint_of(sandbox, "tracecast goodput llama3-405b-16k --no-best --histories 2 --days 1 " + options);
  };
  CHECK(error("--spares 4 --set recovery.spares=8") ==
        "--spares = 4: contradicts --set recovery.spares=8 (allowed: one of them)\n");
  CHECK(error("--checkpoint '20 min' --set checkpoint.interval='5 min'") ==
        "--checkpoint = 20 min: contradicts --set checkpoint.interval=5 min (allowed: one of them)\n");
  CHECK(error("--checkpoint off --set checkpoint.mode=async") ==
        "--checkpoint = off: contradicts --set checkpoint.mode=async (allowed: one of them)\n");
  CHECK(error("--checkpoint off --set checkpoint.interval='5 min'") ==
        "--checkpoint = off: contradicts --set checkpoint.interval=5 min (allowed: one of them)\n");
  CHECK(error("--checkpoint '20 min' --set checkpoint.mode=off") ==
        "--checkpoint = 20 min: contradicts --set checkpoint.mode=off (allowed: one of them)\n");
  CHECK(error("--checkpoint '20 min' --set 'checkpoint.mode=\"off\"'") ==
        "--checkpoint = 20 min: contradicts --set checkpoint.mode=\"off\" (allowed: one of them)\n");
  CHECK(error("--set checkpoint.mode=off --set checkpoint.interval='20 min'") ==
        "--set: checkpoint.interval = 20 min: contradicts --set checkpoint.mode=off (allowed: one of them)\n");
  std::ofstream(sandbox.path() / "off.json")
      << R"({"kinds": [{"name": "any", "mtbf": "3 h"}], "checkpoint": {"mode": "off", "interval": "30 min"}})";
  CHECK(error("--failures off.json --checkpoint '20 min'") ==
        "--checkpoint = 20 min: contradicts checkpoint.mode = off of --failures off.json (allowed: one of them)\n");
  CHECK(error("--until 1e9 --set run.target_tokens=3") ==
        "--until = 1e9: contradicts --set run.target_tokens=3 (allowed: one of them)\n");
  CHECK(error("--mtbf '3 h' --sweep mtbf='6 h'") == "--sweep = mtbf=6 h: contradicts --mtbf (allowed: one of them)\n");
  CHECK(error("--set recovery.spares=2 --sweep spares=4,8") ==
        "--sweep = spares=4,8: contradicts --set recovery.spares=2 (allowed: one of them)\n");
  CHECK(error("--history --sweep spares=4,8") ==
        "--history: is for one forecast (allowed with --sweep: --out --json)\n");
  CHECK(sandbox
            .run("tracecast goodput llama3-405b-16k --no-best --histories 2 --days 1 --checkpoint '20 min' "
                 "--set checkpoint.mode=async")
            .code == 0);
}

TEST_CASE("goodput: errors name the option that was typed", "[e2e][goodput]") {
  const Sandbox sandbox;
  const auto error = [&](const std::string& options) {
    return complaint_of(sandbox, "tracecast goodput llama3-405b-16k --no-best --histories 2 --days 1 " + options);
  };
  CHECK(error("--checkpoint none") == "--checkpoint = none: is not a time with a unit (for example \"6334.6 h\")\n");
  CHECK(error("--ramp 5") == "--ramp = 5: global_batch is not an integer\n");
  CHECK(error("--ramp 0=3") ==
        "--ramp = 0=3: global_batch = 3: is not a multiple of micro_batch_size 1 x dp 128 = 128 "
        "(nearest: 128)\n");
  CHECK(error("--ramp 0=x") == "--ramp = 0=x: global_batch is not an integer\n");
  CHECK(error("--spikes 5,x") == "--spikes = 5,x: is not a list of ascending numbers of tokens\n");
  std::ofstream(sandbox.path() / "ramp.json") << R"({"kinds": [{"name": "any", "mtbf": "3 h"}],)"
                                              << "\n"
                                              << R"("run": {"batch_ramp": [{"from_tokens": 0, "global_batch": 3}]}})";
  CHECK(error("--failures ramp.json").starts_with("ramp.json:2: run.batch_ramp: global_batch = 3: is not a multiple"));
}

TEST_CASE("goodput: errors of a sweep name its key as it was typed", "[e2e][goodput]") {
  const Sandbox sandbox;
  const auto error = [&](const std::string& sweep) {
    return complaint_of(sandbox, "tracecast goodput llama3-405b-16k --histories 2 --days 1 --sweep " + sweep);
  };
  const std::string time = "is not a time with a unit (for example \"6334.6 h\")\n";
  CHECK(error("spares=x") == "--sweep: spares = \"x\": is not an integer\n");
  CHECK(error("gpus=x") == "--sweep: gpus = \"x\": is not an integer\n");
  CHECK(error("mtbf=foo") == "--sweep: mtbf = foo: " + time);
  CHECK(error("checkpoint=foo") == "--sweep: checkpoint = foo: " + time);
  CHECK(error("checkpoint.mode=off --checkpoint '20 min'") ==
        "--checkpoint = 20 min: contradicts --sweep checkpoint.mode=off (allowed: one of them)\n");
  CHECK(error("foo.bar=1").starts_with("--sweep: foo: unknown key"));
  CHECK(error("foo=1").find("mtbf, checkpoint, spares and gpus are allowed as well") != std::string::npos);
}

TEST_CASE("goodput: a job that does not fit is a no, and a folder that cannot be written leaves no page",
          "[e2e][goodput]") {
  const Sandbox sandbox;
  CHECK(sandbox.run("tracecast goodput llama3-405b-1024 --no-best --histories 2 --set parallel.zero_stage=0").code ==
        1);
  CHECK(
      sandbox.run("tracecast goodput llama3-405b-1024 --no-best --histories 2 --sweep parallel.zero_stage=0,3").code ==
      0);
  CHECK(
      sandbox.run("tracecast goodput llama2-7b-abci --no-best --histories 2 --html page.html --out /proc/none").code ==
      2);
  CHECK_FALSE(std::filesystem::exists(sandbox.path() / "page.html"));
  CHECK(sandbox.run("tracecast goodput llama2-7b-abci --no-best --histories 2 --html none/page.html --out made").code ==
        2);
  CHECK_FALSE(std::filesystem::exists(sandbox.path() / "made"));
}
