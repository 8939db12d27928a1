// The whole loop on the CPU of this machine: time the operators, forecast a step from them, run that step, compare.
// The bound is wide, since tests share their machine; that it is not too wide is shown with a wrong graph. Times decide only in
// rounds that nobody disturbed: steps that repeat, and operators that take as long after them as before.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/io/files.hpp"
#include "sim/report/compare_report.hpp"
#include "tests/e2e/shell.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;

namespace {

const std::string kSmaller =
    " --set training.seq_length=64 --set model.vocab_size=512 --set training.global_batch_size=4";

/// One round: forecast / actual of the right step, and of the step with half of its layers.
struct Outcomes {
  double right = 0;
  double wrong = 0;
  double spread = 0;  ///< of the executed steps
  double drift = 0;   ///< what the operators took longer after the steps than before, as a logarithm
};

StepRecord record_in(const Sandbox& sandbox, const std::string& folder) {
  return value_of(read_step_record(sandbox.path() / folder));
}
/// Real-time priority where it is allowed: then other programs on the machine do not count. Round robin: ranks that wait in a loop for
/// ranks of their own must not keep the cores from another test's ranks for ever, and those from them.
std::string first_in_line(const Sandbox& sandbox) {
  return sandbox.run("chrt -r 1 true").code == 0 ? "chrt -r 1 " : "";
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

class Loop {
 public:
  explicit Loop(std::string scenario) : scenario_(std::move(scenario)), first_(first_in_line(sandbox_)) {
    time_operators();
  }

  /// Forecasts from the operators timed last, executes, and times them again.
  Outcomes round() {
    const std::string profile = " --set cluster.profile=\"$PWD/recorded.json\"";
    must("tracecast predict " + scenario_ + kSmaller + profile + " --out right");
    must("tracecast predict " + scenario_ + kSmaller + profile + " --set model.num_layers=2 --out wrong");
    must(first_ + "tracecast execute " + scenario_ + kSmaller + " --steps 9 --out actual");
    const StepRecord actual = record_in(sandbox_, "actual");
    const auto ratio = [&](const char* forecast) {
      return record_in(sandbox_, forecast).seconds_to_compare() / actual.seconds_to_compare();
    };
    Outcomes outcomes{ratio("right"), ratio("wrong"), actual.repeats->spread, operators_};
    time_operators();
    outcomes.drift = std::log(operators_ / outcomes.drift);
    return outcomes;
  }

 private:
  void must(const std::string& script) const {
    const Outcome outcome = sandbox_.run(script);
    INFO(script << "\n" << outcome.out << outcome.err);
    REQUIRE(outcome.code == 0);
  }
  void time_operators() {
    must(first_ + "tracecast profile --suite quick --ranks 2 --passes 3 --out recorded.json");
    const Result<Profile> profile = read_profile(sandbox_.path() / "recorded.json");
    REQUIRE(profile);
    operators_ = 0;
    for (const MeasuredOperator& each : profile->measured) operators_ += each.seconds;
  }

  Sandbox sandbox_;
  std::string scenario_;
  std::string first_;
  double operators_ = 0;  ///< seconds of all of them, once each
};

bool plausible(double ratio) { return std::abs(std::log(ratio)) < std::log(1.35); }
bool undisturbed(const Outcomes& round) { return round.spread < 0.1 && std::abs(round.drift) < 0.2; }

}  // namespace

TEST_CASE("cpu loop: a forecast from measured operators is near the executed step, that of a wrong graph is not",
          "[kernels][e2e]") {
  if (first_in_line(Sandbox()).empty() && machine_is_busy()) {
    WARN("skipped: other programs keep this machine busy, and real-time priority is not allowed");
    return;
  }
  Loop loop("cpu-pp2-1f1b");
  int quiet = 0;
  std::string rounds;
  for (int i = 0; i < 4 && quiet < 2; ++i) {
    const Outcomes round = loop.round();
    rounds += "forecast / actual " + std::to_string(round.right) + ", with half of the layers " +
              std::to_string(round.wrong) + ", spread " + std::to_string(round.spread) + ", drift " +
              std::to_string(round.drift) + "\n";
    if (plausible(round.right) && !plausible(round.wrong)) {
      SUCCEED(rounds);
      return;
    }
    quiet += undisturbed(round) ? 1 : 0;
  }
  if (quiet < 2) {
    WARN("undecided: other programs disturbed the rounds:\n" << rounds);
    return;
  }
  FAIL(rounds);
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

TEST_CASE("cpu loop: mpirun and the workers end with the command", "[kernels][e2e]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run(R"script(
tracecast execute cpu-dp2 --steps 100000 --out actual &
command=$!
children() { for parent in "$@"; do cat /proc/$parent/task/$parent/children 2>/dev/null || true; done; }
for i in $(seq 600); do
  mpirun=$(children $command)
  workers=$(children $mpirun)
  [ "$(echo $workers | wc -w)" = 2 ] && break
  sleep 0.1
done
[ "$(echo $workers | wc -w)" = 2 ]
sleep 0.5
kill -TERM $command
wait $command && exit 1
for i in $(seq 300); do
  kill -0 $mpirun 2>/dev/null || kill -0 $workers 2>/dev/null || exit 0
  sleep 0.1
done
exit 3)script");
  INFO(outcome.err);
  CHECK(outcome.code == 0);
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

TEST_CASE("profile: --json says what was timed, or what of a recording was matched", "[kernels][e2e]") {
  const Sandbox sandbox;
  const Outcome timed =
      sandbox.run("tracecast profile --suite none --for cpu-one-rank --ranks 1 --passes 1 --out timed.json --json");
  INFO(timed.err);
  REQUIRE(timed.code == 0);
  const auto of_this_machine = nlohmann::json::parse(timed.out);
  CHECK(of_this_machine["operators_timed"] == read_profile(sandbox.path() / "timed.json")->measured.size());
  CHECK(of_this_machine["fastest_multiplication_flops_per_s"] > 0);
  CHECK(of_this_machine["overlap"] == false);
  const Outcome matched = sandbox.run(
      "tracecast profile --from docs/formats/samples/kineto.json --for tensor-parallel --least-matched 0 --out "
      "matched.json --json");
  INFO(matched.err);
  REQUIRE(matched.code == 0);
  const auto of_a_recording = nlohmann::json::parse(matched.out);
  CHECK(of_a_recording["kernels"] == 4);
  CHECK(of_a_recording["kernels_matched"] == 1);
  const auto& longest = of_a_recording["unmatched"][0];
  CHECK(longest["name"] == "nvjet_sm90_tst_256x128_64x4_bf16");
  CHECK(longest["seconds"] == Approx(1.73675e-3));
  CHECK(longest["why"] == "the step multiplies no matrices of these sizes");
}
