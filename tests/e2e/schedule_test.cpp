#include "sim/schedule/schedule.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/shell.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;
using Json = nlohmann::json;

namespace {

Json answer(const Sandbox& sandbox, const std::string& arguments) {
  return json_of(sandbox, "tracecast schedule --json " + arguments);
}

std::string complaint(const Sandbox& sandbox, const std::string& arguments) {
  return complaint_of(sandbox, "tracecast schedule " + arguments);
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    longest = std::max(longest, end - from);
    from = end + 1;
  }
  return longest;
}

}  // namespace

TEST_CASE("schedule --json has the columns of the oracle file", "[e2e][schedule]") {
  const Sandbox sandbox;
  // tests/data/oracles/pipeline.csv: 1f1b,4,16,1,1,1,1,0.25,,64,48,0.25,64,4;3;2;1,…
  const Json one = answer(sandbox, "--schedule 1f1b --stages 4 --microbatches 16 --tc 0.25");
  CHECK(one == Json::parse(R"({"schedule": "1f1b", "P": 4, "M": 16, "V": 1, "tF": 1, "tB": 1, "tW": 1, "tC": 0.25,
    "tFB": null, "makespan": 64, "ideal": 48, "bubble_fraction": 0.25, "own_span_bubble_fraction": 0.25,
    "max_rank_span": 64,
    "peak_inflight_per_rank": [4, 3, 2, 1], "peak_inflight_relW_per_rank": [4, 3, 2, 1], "act_unit": 1,
    "param_replicas": 1, "weight_versions_per_rank": [1, 1, 1, 1], "steady_state": false, "blocking": "latency only"})"));
  // dualpipe,8,32,…,4,5,2,0,7: 281;  hanayo,4,8,4,4,5,2: 112;  pipedream,4,8: versions 4;3;2;1
  CHECK(answer(sandbox, "--schedule DualPipe --stages 8 --microbatches 32 --tf 4 --tb 5 --tw 2 --tfb 7")["makespan"] ==
        281);
  CHECK(answer(sandbox, "--schedule hanayo --stages 4 --microbatches 8 --virtual 4 --tf 4 --tb 5 --tw 2")["makespan"] ==
        112);
  const Json stream = answer(sandbox, "--schedule pipedream");
  CHECK(stream["weight_versions_per_rank"] == Json({4, 3, 2, 1}));
  CHECK(stream["makespan"] == 24);
  CHECK(stream["bubble_fraction"] == 0);
  CHECK(stream["steady_state"] == true);
  const Json several = answer(sandbox, "--schedule interleaved_1f1b --virtual 4 --compare gpipe,ZBVZeroBubble");
  CHECK(several["makespan"] == 26.25);
  CHECK(several["V"] == 4);
  CHECK(several["compare"][0]["schedule"] == "gpipe");
  CHECK(several["compare"][1]["makespan"] == 25.5);
}

TEST_CASE("schedule: times per rank, decimals and blocking rules", "[e2e][schedule]") {
  const Sandbox sandbox;
  // One stage half again as slow.
  CHECK(answer(sandbox, "--schedule 1f1b --tf 1,1,1.5,1 --tb 1,1,1.5,1 --tw 1,1,1.5,1")["makespan"] == 43.5);
  CHECK(answer(sandbox, "--schedule gpipe --tf .1 --tb .1 --tw .1 --tc 0")["makespan"] == 3.3);
  const std::string interleaved = "--schedule interleaved-1f1b --tf 8 --tb 8 --tw 8 --tc 1 ";
  const Json early = answer(sandbox, interleaved + "--receives early --comm-streams one");
  const Json free = answer(sandbox, interleaved);
  CHECK(early["blocking"] == "eager sends, early receives, on one stream");
  CHECK(early["makespan"].get<double>() > free["makespan"].get<double>());
  const Json beside = answer(sandbox, interleaved + "--receives early --comm-streams one --beside-latency-only");
  CHECK(beside["makespan"] == early["makespan"]);
  CHECK(beside["compare"][0] == free);
  const std::string page =
      sandbox.run("tracecast schedule " + interleaved + "--receives early --comm-streams one --beside-latency-only")
          .out;
  CHECK(page.find("\ninterleaved-1f1b ") != std::string::npos);
  CHECK(page.find("\n  latency only ") != std::string::npos);
  CHECK(complaint(sandbox, "--schedule 1f1b --stages 2 --sends rendezvous --comm-streams one") ==
        "the step graph deadlocks: rank 0 (messages, 0SEND_F, micro-batch 1) waits for rank 1 to receive; "
        "rank 1 (messages, 1SEND_B, micro-batch 0) waits for rank 0 to receive\n");
}

TEST_CASE("schedule writes SVG, page and CSV, and reads the CSV back", "[e2e][schedule]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run(
      "tracecast schedule --schedule zb-v --microbatches 10 --compare dualpipev --svg a.svg --html a.html --csv a.csv\n"
      "tracecast schedule --schedule zb-v --microbatches 10 --csv b.csv --csv-communication p2p >/dev/null\n"
      "tracecast schedule --schedule zb-v --microbatches 10 --csv c.csv --csv-communication fsdp --csv-crlf "
      ">/dev/null");
  REQUIRE(outcome.code == 0);
  CHECK(longest_line(outcome.out) <= 80);
  const std::string svg = content_of(sandbox.path() / "a.svg");
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.ends_with("</svg>\n"));
  std::string page = content_of(sandbox.path() / "a.html");
  CHECK(page.find("\"name\":\"dualpipev\"") != std::string::npos);
  // Nothing is loaded from anywhere: the only address is the name of SVG, for pictures that are saved.
  const std::string svg_name = "http://www.w3.org/2000/svg";
  for (std::size_t at = page.find(svg_name); at != std::string::npos; at = page.find(svg_name))
    page.erase(at, svg_name.size());
  CHECK(page.find("http") == std::string::npos);
  CHECK(page.find(" src=") == std::string::npos);
  CHECK(page.find("import ") == std::string::npos);
  const Json made = answer(sandbox, "--schedule zb-v --microbatches 10");
  for (const char* file : {"a.csv", "b.csv", "c.csv"}) {
    const Json read = answer(sandbox, std::string("--file ") + file);
    for (const char* column : {"P", "M", "V", "makespan", "ideal", "max_rank_span", "peak_inflight_per_rank"}) {
      INFO(file << " " << column);
      CHECK(read[column] == made[column]);
    }
  }
}

TEST_CASE("schedule takes stages, micro-batches and times from a scenario", "[e2e][schedule]") {
  const Sandbox sandbox;
  const Json real = answer(sandbox, "--times-from teaching/pipeline-1f1b --compare zb-h1,dualpipe,zb-v");
  CHECK(real["schedule"] == "1f1b");
  CHECK(real["time_unit"] == "ms");
  CHECK(real["times_from"] == "pipeline-1f1b");
  CHECK(real["tF"].size() == real["P"].get<std::size_t>());
  CHECK(real["tBW"].size() == real["P"].get<std::size_t>());
  CHECK(real["tW"].is_null());                        // 1F1B computes a backward in one piece
  CHECK(real["own_span_bubble_fraction"].is_null());  // the step also has an optimizer
  CHECK(real["compare"].size() == 3);
  CHECK(real["compare"][0]["tBW"].is_null());
  // --virtual is of a schedule that takes it, here the compared one.
  const Json chunks = answer(sandbox, "--times-from llama2-7b-abci --compare interleaved-1f1b --virtual 4");
  CHECK(chunks["schedule"] == "1f1b");
  CHECK(chunks["compare"][0]["schedule"] == "interleaved-1f1b");
  // Filling a bubble with weight gradients helps with real times too.
  CHECK(real["compare"][0]["makespan"].get<double>() < real["makespan"].get<double>());
  // The step is the one that predict forecasts, for every schedule.
  const auto step_ms = [&](const std::string& options) {
    const Outcome predicted = sandbox.run("tracecast predict teaching/pipeline-1f1b --json " + options);
    return 1e3 * Json::parse(predicted.out)["step_time_s"].get<double>();
  };
  CHECK(real["makespan"].get<double>() == Approx(step_ms("")));
  CHECK(real["compare"][0]["makespan"].get<double>() == Approx(step_ms("--set parallel.pp_schedule=zb-h1")));
  const Json more = answer(sandbox, "--times-from teaching/pipeline-1f1b --microbatches 32");
  CHECK(more["M"] == 32);
  CHECK(more["bubble_fraction"].get<double>() < real["bubble_fraction"].get<double>());
  CHECK(complaint(sandbox, "--times-from teaching/pipeline-1f1b --tf 2").find("--times-from excludes --tf") !=
        std::string::npos);
}

TEST_CASE("schedule: a CSV with the stage times of a scenario", "[e2e][schedule]") {
  const Sandbox sandbox;
  REQUIRE(sandbox.run("tracecast schedule --schedule zb-h1 --stages 4 --microbatches 16 --csv zb.csv").code == 0);
  const Json mine = answer(sandbox, "--times-from teaching/pipeline-1f1b --file zb.csv --compare zb-h1,1f1b");
  CHECK(mine["blocking"] == "latency only; times of the stages of pipeline-1f1b, in milliseconds");
  CHECK(mine["makespan"] == mine["compare"][0]["makespan"]);  // the same schedule by name
  CHECK(mine["makespan"].get<double>() < mine["compare"][1]["makespan"].get<double>());
  // Without optimizer, host and data parallelism a step is somewhat shorter than the forecast.
  const Json step = answer(sandbox, "--times-from teaching/pipeline-1f1b --schedule zb-h1 --microbatches 16");
  const double ratio = mine["makespan"].get<double>() / step["makespan"].get<double>();
  CHECK(ratio > 0.85);
  CHECK(ratio <= 1.0);
  CHECK(complaint(sandbox, "--times-from teaching/pipeline-1f1b --file zb.csv --set parallel.pp=2")
            .find("parallel.pp = 2: is not the number of ranks of the schedule (allowed: 4)") != std::string::npos);
}

TEST_CASE("schedule: a searched order is searched for the times that it runs with", "[e2e][schedule]") {
  const Sandbox sandbox;
  const std::string uneven = "--stages 2 --microbatches 7 --tf 1,1 --tb 8,2 --tw 2,8 ";
  const Json given = answer(sandbox, uneven + "--schedule zb-auto-2p --compare zb-auto-1p,zb-h2,zb-h1,1f1b");
  const auto makespan = [](const Json& view) { return view["makespan"].get<double>(); };
  const Json& others = given["compare"];
  CHECK(makespan(given) <= makespan(others[1]));
  CHECK(makespan(others[0]) <= std::min(makespan(others[2]), makespan(others[3])));
  // With the times of a scenario's stages, the same as with these times in words.
  REQUIRE(sandbox.run("tracecast schedule --schedule 1f1b --stages 4 --microbatches 16 --csv own.csv").code == 0);
  const std::string scenario = "--times-from teaching/pipeline-1f1b --file own.csv ";
  const Json timed = answer(sandbox, scenario + "--compare zb-auto-2p,zb-h1");
  CHECK(makespan(timed["compare"][0]) <= makespan(timed["compare"][1]));
  const auto list = [&](const char* key) {
    std::string text;
    for (const Json& time : timed[key]) text += (text.empty() ? "" : ",") + fmt::format("{:.9f}", time.get<double>());
    return text;
  };
  const Json again =
      answer(sandbox, "--schedule zb-auto-2p --stages 4 --microbatches 16 --tf " + list("tF") + " --tb " + list("tB") +
                          " --tw " + list("tW") + " --tc " + fmt::format("{:.9f}", timed["tC"].get<double>()));
  CHECK(makespan(timed["compare"][0]) == Approx(makespan(again)).epsilon(0.01));
}

TEST_CASE("schedule: without a flush the steady state, also with the times of a scenario's stages", "[e2e][schedule]") {
  const Sandbox sandbox;
  REQUIRE(sandbox.run("tracecast schedule --schedule 1f1b --stages 4 --microbatches 8 --csv own.csv").code == 0);
  const std::string name = GENERATE("pipedream", "pipedream-2bw");
  const Json timed = answer(sandbox, "--times-from teaching/pipeline-1f1b --file own.csv --compare " + name);
  const Json& steady = timed["compare"][0];
  CHECK(steady["steady_state"] == true);
  // The busiest rank never waits.
  CHECK(steady["makespan"].get<double>() == Approx(steady["ideal"].get<double>()).epsilon(0.001));
  CHECK(steady["makespan"].get<double>() < 0.9 * timed["makespan"].get<double>());
}

TEST_CASE("schedule: the order that torchtitan's configuration names, in one line", "[e2e][schedule]") {
  const Sandbox sandbox;
  REQUIRE(
      sandbox
          .run("mkdir run; tracecast schedule --schedule interleaved-zb --stages 4 --virtual 2 --microbatches 8 --csv "
               "run/zb.csv")
          .code == 0);
  std::ofstream(sandbox.path() / "run/job.toml")
      << "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 8\nseq_len = 4096\n"
         "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = 1\n"
         "pipeline_parallel_schedule_csv = \"zb.csv\"\n[activation_checkpoint]\nmode = \"none\"\n";
  const std::string machine = " --set cluster.topology=dgx-h100 --set cluster.world_size=8";
  const Json named = answer(sandbox, "--times-from run/job.toml" + machine);
  CHECK(named["blocking"] == "latency only; times of the stages of job, in milliseconds");
  CHECK(named["P"] == 4);
  CHECK(named["V"] == 2);
  CHECK(named == answer(sandbox, "--times-from run/job.toml --file run/zb.csv" + machine));
  // By name another schedule of the same job.
  const Json other = answer(sandbox, "--times-from run/job.toml --set parallel.pp_schedule=1f1b" + machine);
  CHECK(other["V"] == 1);
  CHECK(complaint(sandbox, "--times-from run/job.toml --set cluster.topology=dgx-h100")
            .find("job.toml: does not say the number of GPUs: give --set cluster.world_size=N") != std::string::npos);
  const Outcome predicted = sandbox.run("tracecast predict run/job.toml" + machine);
  CHECK(predicted.code == 2);
  CHECK(predicted.err.find("has an order of its own, which tracecast schedule --times-from run/job.toml runs") !=
        std::string::npos);
  REQUIRE(sandbox.run("rm run/zb.csv").code == 0);
  CHECK(complaint(sandbox, "--times-from run/job.toml" + machine) == "run/zb.csv: does not exist\n");
}

TEST_CASE("schedule: every error is one message", "[e2e][schedule]") {
  const Sandbox sandbox;
  CHECK(complaint(sandbox, "--schedule chimera --stages 3") == "--stages = 3: chimera needs an even number\n");
  CHECK(complaint(sandbox, "--schedule 1f1b --virtual 2") == "--virtual = 2: 1f1b has 1 chunk per rank (allowed: 1)\n");
  CHECK(complaint(sandbox, "--tf 1us") ==
        "--tf = 1us: is not a time (allowed: numbers from 0 to 10^9, at most 9 decimals, without unit)\n");
  CHECK(complaint(sandbox, "--tf 1,2") == "--tf = 1,2: has 2 numbers (allowed: 1, or one per rank: 4)\n");
  CHECK(complaint(sandbox, "--stages 1000000 --microbatches 8") ==
        "--stages = 1000000: is more than a picture shows (allowed: up to 16384)\n");
  CHECK(complaint(sandbox, "--tf 0 --tb 0 --tw 0") == "--tf, --tb and --tw are all 0: at least one must be positive\n");
  CHECK(complaint(sandbox, "--schedule chimera --tf 1,2,3,4") ==
        "--schedule = chimera: has each stage on two ranks; times per rank need one copy of the model\n");
  CHECK(complaint(sandbox, "--tc 1,2,3") == "--tc = 1,2,3: has 3 numbers (allowed: 1)\n");
  CHECK(complaint(sandbox, "--schedule interleaved-1f1b --group-size 3") ==
        "--group-size = 3: groups of 3 and a last one of 2 deadlock on 4 ranks (groups of 4 do not)\n");
  CHECK(complaint(sandbox, "--schedule interleaved-1f1b --group-size 9") ==
        "--group-size = 9: is more than the micro-batches (allowed: 1..8)\n");
  CHECK(complaint(sandbox, "--schedule zb-auto --memory-limit 0.5") ==
        "--memory-limit = 0.5: zb-auto needs memory for at least 1 micro-batch\n");
  CHECK(complaint(sandbox, "--schedule hanayo --tf 0") ==
        "--tf, --tb, --tw = 0: hanayo needs times of forward and backward above 0\n");
  CHECK(complaint(sandbox, "--compare dualpipe --microbatches 6").find("--microbatches = 6: dualpipe needs ") == 0);
  CHECK(complaint(sandbox, "--compare 1f1p").find("--compare = 1f1p: unknown schedule") == 0);
  CHECK(complaint(sandbox, "--schedule 1f1b --microbatches 1000000 --tf 100000000.123456789") ==
        "--tf, --tb, --tw, --tc: too many digits to be exact over 4000000 chunk passes\n");
  CHECK(complaint(sandbox, "--file none.csv") == "none.csv: does not exist\n");
  CHECK(complaint(sandbox, "--schedule chimera --csv a.csv") ==
        "schedule = chimera: holds two copies of the model; PyTorch's format has one rank per stage\n");
  CHECK(sandbox.run("printf '0F0,0B0,0F1,0B1\\n1F0,1F1,1B0,1B1\\n' > s.csv; tracecast schedule --file s.csv").err ==
        "s.csv: deadlock: rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 waits at 1F1 for 0F1 of rank 0\n");
  CHECK(complaint(sandbox, "--schedule 1f1p").find("unknown schedule (did you mean '1f1b'? allowed: gpipe ") !=
        std::string::npos);
}

TEST_CASE("schedule: help and terminal show every schedule", "[e2e][schedule]") {
  const Sandbox sandbox;
  const std::string help = sandbox.run("tracecast schedule --help").out;
  for (const ScheduleVariant& variant : schedule_variants()) {
    INFO(variant.name);
    CHECK(help.find("  " + std::string(variant.name)) != std::string::npos);
    const Outcome outcome = sandbox.run("tracecast schedule --microbatches 64 --stages 16 --tc 0.3 --schedule " +
                                        std::string(variant.name));
    CHECK(outcome.code == 0);
    CHECK(longest_line(outcome.out) <= 80);
  }
}

/// A ```sh block and the ```text block that follows it.
struct Shown {
  std::string script;
  std::string text;
};

static std::vector<Shown> shown_in(const std::string& page) {
  std::vector<Shown> result;
  const std::string open = "```sh\n";
  const std::string then = "```\n\n```text\n";
  for (std::size_t at = page.find(open); at != std::string::npos; at = page.find(open, at + 1)) {
    const std::size_t end = page.find("```\n", at + open.size());
    if (page.compare(end, then.size(), then) != 0) continue;
    const std::size_t from = end + then.size();
    result.push_back(
        {page.substr(at + open.size(), end - at - open.size()), page.substr(from, page.find("```\n", from) - from)});
  }
  return result;
}

TEST_CASE("the tutorial's pictures are what the commands beside them print", "[e2e][schedule][docs]") {
  const Sandbox sandbox;
  const auto all = shown_in(content_of(source_dir().string() + "/docs/tutorial/schedules.md"));
  CHECK(all.size() >= 8);
  for (const Shown& shown : all) {
    INFO(shown.script);
    CHECK(sandbox.run(shown.script).out == shown.text);
  }
}

TEST_CASE("schedule: idle slots of a file are kept when it is written again", "[e2e][schedule]") {
  const Sandbox sandbox;
  const Outcome written = sandbox.run(
      "printf '0F0,0F1,,,0B0,0B1\\n,1F0,1F1,1B0,1B1,\\n' > s.csv; tracecast schedule --file s.csv --csv again.csv > "
      "page; cmp "
      "s.csv again.csv");
  INFO(written.out << written.err);
  CHECK(written.code == 0);
}

TEST_CASE("schedule refuses options that would have no effect", "[e2e][schedule][error]") {
  const Sandbox sandbox;
  CHECK(complaint(sandbox, "--times-from pipeline-1f1b --virtual 2").find("parallel.vpp") != std::string::npos);
  CHECK(complaint(sandbox, "--schedule zb-h1 --memory-limit 2") ==
        "--memory-limit = 2: has no effect on these schedules (only on: zb-auto)\n");
  CHECK(complaint(sandbox, "--schedule 1f1b --group-size 2") ==
        "--group-size = 2: has no effect on these schedules (only on: interleaved-1f1b interleaved-zb)\n");
  CHECK(complaint(sandbox, "--schedule 1f1b --tfb 4").find("--tfb = 4: has no effect on these schedules") == 0);
  CHECK(complaint(sandbox, "--schedule dualpipev --tfb 0.1") ==
        "--tfb = 0.1: is shorter than one of its parts alone (allowed: at least 2)\n");
  CHECK(complaint(sandbox, "--dialect legacy") == "--dialect = legacy: needs --file\n");
  CHECK(complaint(sandbox, "--csv-communication p2p").find("--csv") != std::string::npos);
  CHECK(complaint(sandbox, "--csv-crlf").find("--csv") != std::string::npos);
  REQUIRE(sandbox.run("tracecast schedule --csv a.csv >/dev/null").code == 0);
  CHECK(complaint(sandbox, "--file a.csv --virtual 2") ==
        "--virtual = 2: has no effect: the file has its own chunks\n");
  CHECK(complaint(sandbox, "--file a.csv --group-size 2").find("--group-size = 2: has no effect") == 0);
  CHECK(complaint(sandbox, "--file a.csv --tfb 4").find("--tfb = 4: has no effect") == 0);
  // For those that are compared they have one.
  CHECK(answer(sandbox, "--file a.csv --compare interleaved-1f1b --virtual 2")["compare"][0]["V"] == 2);
  CHECK(answer(sandbox, "--compare dualpipev --microbatches 8 --tfb 2.5")["compare"][0]["tFB"] == 2.5);
}
