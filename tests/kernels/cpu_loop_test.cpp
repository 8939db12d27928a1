// The whole loop on the CPU of this machine: time the operators, forecast a step from them, run that step, compare.
// The bound is wide, since tests share their machine; that it is not too wide is shown with a wrong graph.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "sim/report/compare.hpp"
#include "tests/e2e/shell.hpp"

using namespace tracecast;

namespace {

const std::string kSmaller =
    " --set training.seq_length=64 --set model.vocab_size=512 --set training.global_batch_size=4";

/// Measures, forecasts and executes one after the other, so that all three see the same machine; forecast / actual of the
/// right step, and of the step with half of its layers.
struct Outcomes {
  double right = 0;
  double wrong = 0;
};

StepRecord record_in(const Sandbox& sandbox, const std::string& folder) {
  const Result<StepRecord> record = read_step_record(sandbox.path() / folder);
  if (!record) FAIL(to_string(record.error()));
  return *record;
}
double step_seconds(const Sandbox& sandbox, const std::string& folder) {
  return record_in(sandbox, folder).seconds_to_compare();
}

/// Real-time priority where it is allowed: then neighbours on the machine do not count.
std::string first_in_line(const Sandbox& sandbox) {
  return sandbox.run("chrt -f 1 true").code == 0 ? "chrt -f 1 " : "";
}

bool machine_is_busy() {
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return load > 0.5 * std::thread::hardware_concurrency();
}

/// How often each rank does each piece of work.
std::map<std::string, int> pieces_of_work(const StepRecord& record) {
  std::map<std::string, int> pieces;
  for (const StepSpan& span : record.spans) {
    const StepWork& work = record.works[static_cast<std::size_t>(span.work)];
    ++pieces["rank " + std::to_string(record.ranks[static_cast<std::size_t>(span.rank)].number) + ", " + work.part +
             " of " + std::to_string(span.microbatch) + ": " + work.name + " " + work.pass];
  }
  return pieces;
}

Outcomes once(const Sandbox& sandbox, const std::string& scenario) {
  const auto must = [&sandbox](const std::string& script) {
    const Outcome outcome = sandbox.run(script);
    INFO(script << "\n" << outcome.out << outcome.err);
    REQUIRE(outcome.code == 0);
  };
  const std::string first = first_in_line(sandbox);
  must(first + "tracecast profile --suite quick --ranks 2 --passes 3 --out recorded.json");
  const std::string profile = " --set cluster.profile=\"$PWD/recorded.json\"";
  must("tracecast predict " + scenario + kSmaller + profile + " --out right");
  must("tracecast predict " + scenario + kSmaller + profile + " --set model.num_layers=2 --out wrong");
  must(first + "tracecast execute " + scenario + kSmaller + " --steps 9 --out actual");
  const double actual = step_seconds(sandbox, "actual");
  return {step_seconds(sandbox, "right") / actual, step_seconds(sandbox, "wrong") / actual};
}

bool plausible(double ratio) { return std::abs(std::log(ratio)) < std::log(1.35); }

}  // namespace

TEST_CASE("cpu loop: a forecast from measured operators is near the executed step, that of a wrong graph is not",
          "[kernels][e2e]") {
  const Sandbox sandbox;
  if (first_in_line(sandbox).empty() && machine_is_busy()) {
    WARN("skipped: other programs keep this machine busy, and real-time priority is not allowed");
    return;
  }
  Outcomes outcomes;
  // A neighbour that comes or goes between measuring and executing spoils a round, not the next one.
  for (int round = 0; round < 4 && !(plausible(outcomes.right) && !plausible(outcomes.wrong)); ++round)
    outcomes = once(sandbox, "cpu-pp2-1f1b");
  INFO("forecast / actual " << outcomes.right << ", with half of the layers " << outcomes.wrong);
  CHECK(plausible(outcomes.right));
  CHECK_FALSE(plausible(outcomes.wrong));
}

TEST_CASE("cpu loop: what is executed is what was forecast, piece by piece", "[kernels][e2e]") {
  const Sandbox sandbox;
  const std::string scenario = GENERATE("cpu-one-rank", "cpu-dp2", "cpu-tp2-sp", "cpu-pp2-1f1b", "cpu-pp2-gpipe",
                                        "cpu-zero1-dp2", "cpu-zero3-dp2");
  REQUIRE(sandbox.run("tracecast predict " + scenario + kSmaller + " --unfold --out forecast").code == 0);
  const Outcome outcome =
      sandbox.run(first_in_line(sandbox) + "tracecast execute " + scenario + kSmaller + " --steps 1 --out actual");
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const StepRecord actual = record_in(sandbox, "actual");
  CHECK(pieces_of_work(actual) == pieces_of_work(record_in(sandbox, "forecast")));
  for (const StepRank& rank : actual.ranks) CHECK(rank.time.total() == actual.step_time);
  // Another layout is another graph.
  REQUIRE(
      sandbox.run("tracecast predict " + scenario + kSmaller + " --set training.recompute=full --unfold --out forecast")
          .code == 0);
  CHECK(pieces_of_work(actual) != pieces_of_work(record_in(sandbox, "forecast")));
}

TEST_CASE("cpu loop: what cannot be executed is said in a sentence", "[kernels][e2e][error]") {
  const Sandbox sandbox;
  const Outcome memory = sandbox.run(
      "tracecast execute llama2-7b-one-gpu --set parallel.tp=1 --set "
      "training.micro_batch_size=4096 --set training.global_batch_size=4096");
  CHECK(memory.code != 0);
  CHECK(memory.err.find("GiB to be executed by 1 ranks, and") != std::string::npos);
  const Outcome gpu = sandbox.run("tracecast execute cpu-one-rank --device cuda");
  CHECK(gpu.code == 3);
  CHECK(std::count(gpu.err.begin(), gpu.err.end(), '\n') == 1);
  const Outcome profile = sandbox.run("tracecast profile --device cuda");
  CHECK(profile.code == 3);
  CHECK(std::count(profile.err.begin(), profile.err.end(), '\n') == 1);
}

TEST_CASE("cpu loop: an interrupted recording goes on from the passes that were finished", "[kernels][e2e]") {
  const Sandbox sandbox;
  const std::string record = "tracecast profile --suite none --for cpu-one-rank --ranks 1 --out r.json";
  REQUIRE(sandbox.run(record + " --passes 2").code == 0);
  CHECK_FALSE(std::filesystem::exists(sandbox.path() / "r.json.passes"));
  // Ctrl-C in the middle: passes stay, nothing is written, and the same command ends with all of them.
  REQUIRE(sandbox
              .run("rm r.json; (" + record +
                   " --passes 100000 & pid=$!; for i in $(seq 300); do sleep 0.2; "
                   "[ -f r.json.passes ] && [ $(wc -l < r.json.passes) -gt 3 ] && break; done; "
                   "pkill -INT -P $pid; wait $pid) || true; test ! -e r.json; wc -l < r.json.passes")
              .code == 0);
  const int before = std::stoi(content_of(sandbox.path() / ".out"));
  CHECK(before > 3);
  const Outcome rest = sandbox.run(record + " --passes " + std::to_string(before));
  INFO(rest.err);
  CHECK(rest.code == 0);
  CHECK(rest.out.find(std::to_string(before) + " passes") != std::string::npos);
}
