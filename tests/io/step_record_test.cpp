#include "sim/io/step_record.hpp"

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "tests/forecast/step_records.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using test::record;

namespace {

std::string message(const Result<StepRecord>& result) {
  REQUIRE_FALSE(result);
  Error error = result.error();
  for (Diagnostic& each : error.diagnostics) each.file = std::filesystem::path(each.file).filename().string();
  return to_string(error);
}

}  // namespace

TEST_CASE("step record: a written record is read back unchanged", "[io][report][property]") {
  StepRecord written = record(2);
  written.repeats = {20, 0.25, 0.27, 0.03};
  const TemporaryFolder folder;
  REQUIRE(write_file(folder.path() / "timeline.json", to_json(written)));
  const Result<StepRecord> read = read_step_record(folder.path());  // the folder stands for its file
  if (!read) FAIL(to_string(read.error()));
  CHECK(*read == written);
}

TEST_CASE("step record: works say what they compute or move, and in which layer", "[io][report]") {
  const StepRecord written = record(2);  // eight layers on two ranks
  std::set<int> layers_of[2];
  std::set<std::string> outside;
  for (const StepSpan& span : written.spans) {
    const StepWork& work = written.works[static_cast<std::size_t>(span.work)];
    const StepRank& rank = written.ranks[static_cast<std::size_t>(span.rank)];
    if (work.layer >= 0)
      layers_of[rank.pp_rank].insert(rank.first_layers.at(static_cast<std::size_t>(work.chunk)) + work.layer);
    else
      outside.insert(work.name);
    CHECK(work.bytes > 0);
    if (work.kind == "gemm") {
      CHECK(work.flop > 0);
      CHECK(work.details.starts_with("bf16 "));
    }
  }
  CHECK(layers_of[0] == std::set<int>{0, 1, 2, 3});
  CHECK(layers_of[1] == std::set<int>{4, 5, 6, 7});
  for (const char* name : {"embedding", "send", "receive", "update"}) CHECK(outside.contains(name));
  CHECK_FALSE(outside.contains("qkv"));
}

TEST_CASE("step record: each error has its message", "[io][report][error]") {
  const TemporaryFolder folder;
  const auto complaint = [&folder](const std::string& from, const std::string& to) {
    std::string text = to_json(record(1));
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    REQUIRE(write_file(folder.path() / "t.json", text));
    return message(read_step_record(folder.path() / "t.json"));
  };
  CHECK(complaint("timeline 1", "timeline 2") ==
        "t.json:2: format = \"tracecast timeline 2\": is not 'tracecast timeline 1'");
  CHECK(complaint("\"origin\": \"simulated\"", "\"origin\": \"dreamt\"") ==
        "t.json:4: origin = \"dreamt\": is unknown (allowed: simulated executed)");
  CHECK(complaint("\n[0,", "\n[7,").find("is not [rank, work, micro-batch, stream, arrival, start, end]") !=
        std::string::npos);
  // A span's arrival, start and end are in that order.
  const auto read_with = [&folder](Duration arrival, Duration start, Duration end) {
    StepRecord written = record(1);
    StepSpan& span = written.spans.front();
    span.arrival = arrival, span.start = start, span.end = end;
    REQUIRE(write_file(folder.path() / "t.json", to_json(written)));
    return read_step_record(folder.path() / "t.json").has_value();
  };
  CHECK(read_with(1_us, 1_us, 1_us));
  CHECK(read_with(1_us, 2_us, 3_us));
  CHECK_FALSE(read_with(2_us, 1_us, 3_us));
  CHECK_FALSE(read_with(1_us, 3_us, 2_us));
  const std::string step_time = std::to_string(record(1).step_time.picoseconds);
  CHECK(complaint("\"step_time_ps\": " + step_time, "\"step_time_ps\": 0") ==
        "t.json:5: step_time_ps = 0: is out of range (allowed: at least 1)");
  const auto repeats = [&folder](const StepRepeats& values) {
    StepRecord written = record(1);
    written.repeats = values;
    REQUIRE(write_file(folder.path() / "t.json", to_json(written)));
    return message(read_step_record(folder.path() / "t.json"));
  };
  CHECK(repeats({1, 0, 1, 0}) == "t.json:8: repeats.lower_quartile_s = 0.0: is out of range (allowed: above 0)");
  CHECK(repeats({1, 1, -1, 0}) == "t.json:9: repeats.median_s = -1.0: is out of range (allowed: above 0)");
  CHECK(repeats({1, 1, 1, -0.1}) == "t.json:10: repeats.spread = -0.1: is out of range (allowed: at least 0)");
  CHECK(complaint("\"step_time_ps\"", "\"step_time\"").find("step_time_ps: is missing") != std::string::npos);
}
