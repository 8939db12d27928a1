// The whole loop on the CPU of this machine: time the operators, forecast a step from them, run that step.
// How near the forecast is to the executed step, tools/scripts/validate-cpu measures: no test decides by a time.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

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

StepRecord record_in(const Sandbox& sandbox, const std::string& folder) {
  return value_of(read_step_record(sandbox.path() / folder));
}
/// Real-time priority where it is allowed: then other programs on the machine do not count. Round robin: ranks that wait in a loop for
/// ranks of their own must not keep the cores from another test's ranks for ever, and those from them.
std::string first_in_line(const Sandbox& sandbox) {
  return sandbox.run("chrt -r 1 true").code == 0 ? "chrt -r 1 " : "";
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

}  // namespace

TEST_CASE("cpu loop: a forecast is made of the times that this machine was measured with", "[kernels][e2e]") {
  const Sandbox sandbox;
  REQUIRE(sandbox.run("tracecast profile --suite none --for cpu-pp2-1f1b --ranks 2 --passes 1 --out once.json").code ==
          0);
  auto profile = nlohmann::json::parse(content_of(sandbox.path() / "once.json"));
  for (const char* list : {"measured", "measured_collectives"})
    for (auto& each : profile[list]) each["seconds"] = 2 * each["seconds"].get<double>();
  std::ofstream(sandbox.path() / "twice.json") << profile;
  const auto forecast = [&](const std::string& times, const std::string& more) {
    const Outcome outcome = sandbox.run("tracecast predict cpu-pp2-1f1b --set cluster.profile=\"$PWD/" + times +
                                        ".json\" --out " + times + more);
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return record_in(sandbox, times).seconds_to_compare();
  };
  const double once = forecast("once", "");
  // Transfers beyond the measured sizes are partly the network model's, which does not double.
  CHECK(forecast("twice", "") == Approx(2 * once).epsilon(1e-5));
  CHECK(forecast("once", " --set model.num_layers=2") < once);
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

TEST_CASE("cpu loop: ranks stay on this host of a job that has others", "[kernels][e2e]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run(
      "echo 'another-host.invalid slots=8' > hosts; OMPI_MCA_orte_default_hostfile=$PWD/hosts timeout 60 tracecast "
      "execute "
      "cpu-dp2 --steps 1" +
      kSmaller);
  INFO(outcome.err);
  CHECK(outcome.code == 0);
}

TEST_CASE("cpu loop: a rank that is lost is reported", "[kernels][e2e][error]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run(R"script(
tracecast execute cpu-dp2 --steps 100000 &
command=$!
children() { for parent in "$@"; do cat /proc/$parent/task/$parent/children 2>/dev/null || true; done; }
for i in $(seq 600); do
  workers=$(children $(children $command))
  [ "$(echo $workers | wc -w)" = 2 ] && break
  sleep 0.1
done
kill -KILL ${workers%% *}
wait $command)script");
  CHECK(outcome.code == 2);
  CHECK(outcome.err.find("a rank ended unexpectedly (signal 9: Killed)\n") != std::string::npos);
}

TEST_CASE("cpu loop: what a kernel here does differently is on the page", "[kernels][e2e]") {
  const Sandbox sandbox;
  const Outcome page = sandbox.run("tracecast execute cpu-one-rank" + kSmaller + " --steps 1");
  CHECK(page.code == 0);
  CHECK(page.out.find("\n\nExecuted by kernels that say nothing about a framework's:\n") != std::string::npos);
  CHECK(page.out.find("\n  rms_norm backward: the kernel here moves 12 bytes per element, the operator 20\n") !=
        std::string::npos);
  CHECK(page.out.find("rms_norm forward") == std::string::npos);
}

TEST_CASE("cpu loop: what runs beside the ranks is not executed", "[kernels][e2e][error]") {
  const Sandbox sandbox;
  const auto error = [&](const std::string& settings) {
    const Outcome outcome = sandbox.run("tracecast execute cpu-dp2 --steps 1" + settings);
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK(error(" --set parallel.zero_stage=2 --set training.offload_optimizer=true") ==
        "training.offload_optimizer = true: can be forecast, but not run: nothing is offloaded to the host here\n");
  CHECK(error(" --set training.offload_activations=true") ==
        "training.offload_activations = true: can be forecast, but not run: nothing is offloaded to the host here\n");
  CHECK(error(" --set parallel.data_parallel=async_parameter_server --set parallel.servers=1") ==
        "parallel.data_parallel = async_parameter_server: can be forecast, but not run: there are no parameter servers "
        "here\n");
}

TEST_CASE("cpu loop: a folder that cannot be written is found before the steps", "[kernels][e2e][error]") {
  const Sandbox sandbox;
  const Outcome outcome =
      sandbox.run("touch file; timeout 30 tracecast execute cpu-one-rank --steps 100000 --out file/steps");
  CHECK(outcome.code == 2);
  CHECK(outcome.err.starts_with("file/steps/timeline.json: "));
}

TEST_CASE("cpu loop: an option of profile that would be ignored is refused", "[kernels][e2e][error]") {
  const Sandbox sandbox;
  const auto error = [&](const std::string& options) {
    const Outcome outcome = sandbox.run("tracecast profile " + options);
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK(error("--for cpu-dp2 --set model.num_layers=2") ==
        "--set = model.num_layers=2: changes a recorded scenario and needs --from; --for takes a file with the changed "
        "value\n");
  CHECK(error("--base h100") == "--base = h100: is for --device cuda only\n");
  CHECK(error("--seconds 5") == "--seconds = 5: is for --device cuda with one rank only\n");
  CHECK(error("--device cuda --ranks 2 --seconds 5") == "--seconds = 5: is for --device cuda with one rank only\n");
  // No pass was finished, so that nothing can be continued.
  CHECK(error("--suite none --for no-such-scenario --ranks 1").find("run the same command again") == std::string::npos);
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
