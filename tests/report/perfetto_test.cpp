#include "sim/report/perfetto.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <catch2/catch.hpp>

#include "tests/report/sample.hpp"
#include "tests/report/trace_reader.hpp"
#include "tests/support/files.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

/// Two ranks: the first computes, gathers and sends; the second receives and computes, having waited for the first.
ForecastRun two_ranks() {
  ForecastRun run;
  StepGraph& g = run.graph;
  g.streams = {{"compute"}, {"tp"}, {"pp"}};
  g.microbatches = 1;
  CostedOperator gemm;
  gemm.op.name = "fc1";
  gemm.op.shape = GemmShape{.m = 8, .n = 4, .k = 2};
  CostedOperator again = gemm;
  again.recomputed = true;
  CostedOperator wgrad = gemm;
  wgrad.op.pass = Pass::wgrad;
  g.operators = {gemm, again, wgrad};
  g.collectives.resize(1);
  g.collectives[0].call = {.collective = Collective::all_gather, .size = 3_MiB};
  g.collectives[0].cost.algorithm = Algorithm::ring;
  g.collectives[0].cost.protocol = Protocol::simple;
  g.collectives[0].cost.channels = 16;
  g.communicators.resize(1);
  g.communicators[0].name = "tp";
  g.communicators[0].placement.ranks = 4;
  g.communicators[0].placement.nodes = 2;
  g.messages.resize(1);
  g.messages[0].channel = 0;
  g.messages[0].size = 5_MiB;
  const auto op = [](OpType type, StreamId stream, std::int32_t payload) {
    Op made;
    made.type = type;
    made.stream = stream;
    made.payload = payload;
    return made;
  };
  g.templates.resize(2);
  g.templates[0] = {.name = "forward",
                    .ops = {op(OpType::compute, 0, 0), op(OpType::collective, 1, 0), op(OpType::send, 2, 0)},
                    .allocates = 1_GiB,
                    .releases = {}};
  g.templates[1] = {.name = "backward",
                    .phase = Phase::backward,
                    .ops = {op(OpType::receive, 2, 0), op(OpType::compute, 0, -1), op(OpType::compute, 0, 1),
                            op(OpType::compute, 0, 2)},
                    .allocates = {},
                    .releases = 2_GiB};
  g.templates[1].ops[3].layer = 2;
  g.programs.resize(1);
  g.first_layers = {{5}};
  g.ranks.resize(2);
  g.ranks[0].channels = {{1, 0}};
  g.ranks[0].communicators = {0};
  g.ranks[1] = {
      .representative = 1, .multiplicity = 1, .pp_rank = 1, .program = 0, .communicators = {}, .channels = {{0, 0}}};
  run.timeline.step_time = 20_us;
  const auto span = [](std::int32_t rank, std::int32_t part, std::int32_t index, Duration arrival, Duration start,
                       Duration end) {
    return Span{.rank = rank,
                .template_index = part,
                .microbatch = 3,
                .op = index,
                .arrival = arrival,
                .start = start,
                .end = end};
  };
  run.timeline.spans = {span(0, 0, 0, 0_us, 0_us, 5_us + 700_ps), span(0, 0, 1, 5_us + 700_ps, 6_us, 8_us),
                        span(0, 0, 2, 8_us, 8_us, 10_us),         span(1, 1, 1, 10_us, 10_us, 10_us),
                        span(1, 1, 2, 10_us, 10_us, 12_us),       span(1, 1, 3, 12_us, 12_us + 999_ps, 20_us),
                        span(1, 1, 0, 1_us, 8_us, 10_us)};
  run.plan.grid = RankGrid({1, 1, 1, 2}, {Axis::tp, Axis::cp, Axis::dp, Axis::pp});
  run.plan.world_size = 2;
  run.forecast.scenario = "two \"ranks\"";
  run.forecast.memory.resize(2);
  for (MemoryByKind& memory : run.forecast.memory) memory.weights = 4_GiB;
  return run;
}

/// The same, each rank standing for four: tp 2 x dp 2.
ForecastRun folded() {
  ForecastRun run = two_ranks();
  run.plan.grid = RankGrid({2, 1, 2, 2}, {Axis::tp, Axis::cp, Axis::dp, Axis::pp});
  run.plan.world_size = 8;
  for (Rank& rank : run.graph.ranks) rank.multiplicity = 4;
  run.graph.ranks[1].representative = 4;
  return run;
}

std::string trace_text(const ForecastRun& run, std::vector<int> chosen = {}) {
  const auto ranks = traced_ranks(run, chosen);
  REQUIRE(ranks);
  std::string text;
  CHECK(write_trace(run.graph, run.timeline, *ranks, run.forecast.scenario, [&](std::string_view piece) {
    text += piece;
    return true;
  }));
  return text;
}

std::vector<std::string> names(const std::vector<TraceSlice>& slices) {
  std::vector<std::string> out;
  for (const TraceSlice& slice : slices) out.push_back(slice.name);
  return out;
}

}  // namespace

TEST_CASE("trace: one slice per operation, on the thread of its stream", "[report][perfetto]") {
  const ReadTrace trace = read_trace(trace_text(two_ranks()));
  check_trace(trace, 20'000);
  CHECK(trace.processes.at(0) == "rank 0 (pp 0)");
  CHECK(names(trace.thread(0, "compute")) == std::vector<std::string>{"fc1"});
  CHECK(names(trace.thread(0, "tp")) == std::vector<std::string>{"wait", "all_gather"});
  CHECK(names(trace.thread(0, "pp")) == std::vector<std::string>{"send"});
  // The operation that only waits is not drawn; a recomputed one and a pass of the backward say so.
  CHECK(names(trace.thread(1, "compute")) == std::vector<std::string>{"fc1 (again)", "fc1 wgrad"});
  CHECK(names(trace.thread(1, "pp")) == std::vector<std::string>{"wait", "receive"});
  CHECK(trace.thread(1, "tp").empty());
}

TEST_CASE("trace: slices say what was computed and moved, and by whom", "[report][perfetto]") {
  const ReadTrace trace = read_trace(trace_text(two_ranks()));
  const nlohmann::json gemm = trace.thread(1, "compute")[1].args;
  CHECK(gemm == nlohmann::json{{"mb", 3},
                               {"layer", 7},  // the third of a chunk that begins with layer 5
                               {"shape", "bf16 8 x 4 x 2"},
                               {"flop", 2 * 8 * 4 * 2},
                               {"bytes", 2 * (8 * 2 + 2 * 4 + 8 * 4)},
                               {"time_from", "analytic"}});
  const nlohmann::json gather = trace.thread(0, "tp")[1].args;
  CHECK(gather == nlohmann::json{{"mb", 3},
                                 {"bytes", 3 << 20},
                                 {"algorithm", "ring"},
                                 {"protocol", "simple"},
                                 {"channels", 16},
                                 {"time_from", "analytic"},
                                 {"group", "tp"},
                                 {"ranks", 4},
                                 {"nodes", 2}});
  CHECK(trace.thread(0, "pp")[0].args == nlohmann::json{{"mb", 3}, {"bytes", 5 << 20}});
}

TEST_CASE("trace: ends are rounded down to nanoseconds, so neighbours touch and never overlap", "[report][perfetto]") {
  const ReadTrace trace = read_trace(trace_text(two_ranks()));
  const auto gather = trace.thread(0, "tp");
  CHECK(gather[0].start == 5'000);
  CHECK(gather[0].end == 6'000);
  CHECK(gather[1].end == 8'000);
  const auto compute = trace.thread(1, "compute");
  CHECK(compute[1].start == 12'000);
  CHECK(compute[1].end == 20'000);
}

TEST_CASE("trace: no time loses a nanosecond in Perfetto, which multiplies by 1000 and drops the fraction",
          "[report][perfetto]") {
  ForecastRun run = two_ranks();
  // 8.001 x 1000 is 8000.999999999999 in double precision.
  for (const std::int64_t ns : {8'001L, 1'001L, 2'097'151L, 4'035'008'003L}) {
    run.timeline.spans.back().end = Duration{ns * 1000 + 8'000'000};
    const std::string text = trace_text(run);
    const ReadTrace trace = read_trace(text);
    CHECK(trace.thread(1, "pp")[1].end == ns + 8'000);
    // Other programs round.
    const nlohmann::json document = nlohmann::json::parse(text);
    for (const nlohmann::json& event : document.at("traceEvents"))
      if (event.value("name", "") == "receive") CHECK(std::llround(event.at("dur").get<double>() * 1000) == ns);
  }
}

namespace {

/// Fields of an event by its phase: what Perfetto's importer needs, and what else it or the Trace Event Format has
/// (docs/references.md#format-perfetto). Nothing else may be written.
struct EventFields {
  std::vector<std::string> required;
  std::vector<std::string> allowed = {};
};

const std::map<std::string, EventFields>& event_fields() {
  static const std::map<std::string, EventFields> kFields = {
      // Complete events: a slice of `dur` on the track of pid and tid, with its arguments.
      {"X", {{"name", "cat", "pid", "tid", "ts", "dur"}, {"args"}}},
      // Metadata: process_name and thread_name take args.name; the two of order are of the Trace Event Format only.
      {"M", {{"name", "pid", "args"}, {"tid"}}},
      // Counters: a track of the process for each number of args, named "memory GiB".
      {"C", {{"name", "pid", "ts", "args"}}},
      // Flows: start and finish have id, category and name in common; bp "e" binds the finish to the slice around it.
      {"s", {{"name", "cat", "id", "pid", "tid", "ts"}}},
      {"f", {{"name", "cat", "id", "pid", "tid", "ts", "bp"}}},
      // Instants: scope "g" is the track of the whole trace.
      {"I", {{"name", "s", "pid", "tid", "ts"}}}};
  return kFields;
}

void check_fields(const nlohmann::json& event) {
  INFO(event.dump());
  const std::string phase = event.at("ph");
  REQUIRE(event_fields().contains(phase));
  const EventFields& fields = event_fields().at(phase);
  for (const std::string& each : fields.required) CHECK(event.contains(each));
  for (const auto& [key, value] : event.items()) {
    const auto has = [&key = key](const std::vector<std::string>& names) { return std::ranges::count(names, key) > 0; };
    CHECK((key == "ph" || has(fields.required) || has(fields.allowed)));
    if (key == "name" || key == "cat") CHECK((value.is_string() && !value.get<std::string>().empty()));
    // Numbers of 32 bits without a sign; texts would become names.
    if (key == "pid" || key == "tid") CHECK((value.is_number_unsigned() && value.get<std::uint64_t>() < (1ULL << 32)));
    if (key == "ts" || key == "dur") CHECK((value.is_number() && value.get<double>() >= 0));
    if (key == "id") CHECK(value.is_number_unsigned());
    if (key == "s") CHECK(value == "g");
    if (key == "bp") CHECK(value == "e");
    if (key == "args") CHECK((value.is_object() && !value.empty()));
  }
  if (phase == "C")
    for (const auto& [key, value] : event.at("args").items()) CHECK(value.is_number());
  if (phase != "M") return;
  const std::string what = event.at("name");
  const bool name = what == "process_name" || what == "thread_name";
  REQUIRE((name || what == "process_sort_index" || what == "thread_sort_index"));
  CHECK(event.contains("tid") == what.starts_with("thread"));
  const nlohmann::json& value = event.at("args").at(name ? "name" : "sort_index");
  CHECK((name ? value.is_string() && !value.get<std::string>().empty() : value.is_number_integer()));
  CHECK(event.at("args").size() == 1);
}

}  // namespace

TEST_CASE("trace: every field is one that the format has, of the type that Perfetto's importer reads",
          "[report][perfetto]") {
  std::map<std::string, int> seen;
  for (const ForecastRun& run : {two_ranks(), folded()}) {
    const nlohmann::json document = nlohmann::json::parse(trace_text(run));
    // Perfetto takes the unit from the beginning of the file; "ns" would make times a thousandth.
    CHECK(document.at("displayTimeUnit") == "ms");
    CHECK(document.size() == 3);
    CHECK(document.at("otherData").is_object());
    for (const nlohmann::json& event : document.at("traceEvents")) {
      check_fields(event);
      ++seen[event.at("ph")];
    }
  }
  CHECK(seen.size() == event_fields().size());  // each was looked at
}

TEST_CASE("trace: the schedule's thread has one slice per run of a template", "[report][perfetto]") {
  const ReadTrace trace = read_trace(trace_text(two_ranks()));
  const auto runs = trace.thread(1, "schedule");
  REQUIRE(names(runs) == std::vector<std::string>{"backward mb 3"});
  CHECK(runs[0].start == 10'000);
  CHECK(runs[0].end == 20'000);
}

TEST_CASE("trace: an arrow from each send to its receive", "[report][perfetto]") {
  const ReadTrace trace = read_trace(trace_text(two_ranks()));
  REQUIRE(trace.arrows.size() == 1);
  const TraceArrow& arrow = trace.arrows.begin()->second;
  CHECK(arrow.from.first == 0);
  CHECK(arrow.to.first == 1);
  CHECK(arrow.start == 8'000);
  CHECK(arrow.end == 8'000);
}

TEST_CASE("trace: memory starts with what stays and follows the activations", "[report][perfetto]") {
  const ReadTrace trace = read_trace(trace_text(two_ranks()));
  using Points = std::vector<std::pair<std::int64_t, double>>;
  CHECK(trace.memory.at(0) == Points{{0, 4.0}, {5'000, 5.0}});
  CHECK(trace.memory.at(1) == Points{{0, 4.0}, {20'000, 2.0}});
}

TEST_CASE("trace: folded ranks are one process, chosen ranks are added with the spans of their class",
          "[report][perfetto]") {
  const ForecastRun run = folded();
  ReadTrace trace = read_trace(trace_text(run));
  CHECK(trace.processes == std::map<int, std::string>{{0, "ranks 0-3 (pp 0)"}, {4, "ranks 4-7 (pp 1)"}});
  // 4 is a representative already; 6 is of the same class.
  trace = read_trace(trace_text(run, {4, 6}));
  check_trace(trace, 20'000);
  CHECK(trace.processes.size() == 3);
  CHECK(trace.processes.at(6) == "rank 6 (pp 1)");
  CHECK(names(trace.thread(6, "compute")) == names(trace.thread(4, "compute")));
  CHECK(trace.arrows.size() == 1);
}

TEST_CASE("trace: a chosen rank must be one of the job", "[report][perfetto][error]") {
  for (const int rank : {-1, 8}) {
    const auto ranks = traced_ranks(folded(), std::array{rank});
    REQUIRE_FALSE(ranks);
    CHECK(to_string(ranks.error()) ==
          "--trace-ranks = " + std::to_string(rank) + ": is not a rank of this job (allowed: 0 to 7)");
  }
}

TEST_CASE("trace: the file has the whole trace, and none where it cannot be written", "[report][perfetto]") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  AtomicFile written(path);
  CHECK(write_trace_file(written, two_ranks(), {}));
  CHECK(written.commit());
  CHECK(content_of(path) == trace_text(two_ranks()));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  AtomicFile absent(folder.path() / "absent" / "trace.json");
  CHECK_FALSE(write_trace_file(absent, two_ranks(), {}));
}

TEST_CASE("trace: a sink that refuses stops the writer", "[report][perfetto]") {
  const ForecastRun run = two_ranks();
  CHECK_FALSE(
      write_trace(run.graph, run.timeline, *traced_ranks(run, {}), "x", [](std::string_view) { return false; }));
}

TEST_CASE("ranges: consecutive numbers together, after a few an ellipsis", "[report][perfetto]") {
  CHECK(ranges(std::array{0, 1, 2, 3}) == "0-3");
  CHECK(ranges(std::array{5}) == "5");
  CHECK(ranges(std::array{0, 1, 8, 9, 16}) == "0-1, 8-9, 16");
  CHECK(ranges(std::array{0, 2, 4, 6, 8}) == "0, 2, 4, … 8");
  CHECK(ranges({}).empty());
}
