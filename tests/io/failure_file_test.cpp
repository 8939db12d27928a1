#include "sim/io/failure_file.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "sim/io/fields.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

/// A file of this text in the temporary folder.
class TextFile {
 public:
  explicit TextFile(const std::string& text) { std::ofstream(path_) << text; }
  const fs::path& path() const { return path_; }

 private:
  TemporaryFolder folder_;
  fs::path path_ = folder_.path() / "failures.json";
};

std::string errors_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const TextFile file(text);
  const Result<FailureFile> read = read_failure_file(file.path(), overrides);
  REQUIRE_FALSE(read.has_value());
  std::string message = to_string(read.error());
  for (std::size_t at = message.find(file.path().string()); at != std::string::npos;
       at = message.find(file.path().string()))
    message.replace(at, file.path().string().size(), "FILE");
  return message;
}

const fs::path kShipped = source_dir() / "scenarios" / "failures";

}  // namespace

TEST_CASE("every shipped failure model is read and names its source", "[io][reliability]") {
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kShipped)) {
    CAPTURE(entry.path().string());
    const FailureFile file = value_of(read_failure_file(entry.path()));
    CHECK(!file.model.source.empty());
    CHECK(!file.model.kinds.empty());
    CHECK(interruption_rate_s(file.model, {16384, 8}, {}) > 0);
    ++files;
  }
  CHECK(files >= 7);
}

TEST_CASE("Llama 3's file holds its 419 unexpected and 47 planned interruptions", "[oracle][io][reliability]") {
  const FailureFile file = read_failure_file(kShipped / "llama3-54-days.json").value();
  const double days54 = 54 * 86400.0;
  CHECK(interruption_rate_s(file.model, {16384, 8}, {}) * days54 == Approx(419));
  double planned = 0, gpu = 0;
  for (const FailureKind& kind : file.model.kinds) {
    const double count = static_cast<double>(parts(kind, file.model, {16384, 8})) * days54 / kind.law.mean_s;
    if (kind.effect == Effect::planned) planned += count;
    if (kind.component == Component::gpu || kind.component == Component::hbm) gpu += count;
  }
  CHECK(planned == Approx(47));
  CHECK(gpu == Approx(268));
}

TEST_CASE("a count of failures of a fraction of a part is that of the observed machine", "[oracle][io][reliability]") {
  const TextFile text(R"({"observed": {"gpus": 16, "gpus_per_node": 8, "duration": "10 d"},
 "kinds": [{"name": "pump", "per": "node", "parts_per_unit": 0.6, "count": 3}]})");
  const FailureFile file = value_of(read_failure_file(text.path()));
  CHECK(rate_s(file.model.kinds.front(), file.model, {16, 8}) * 10 * 86'400 == Approx(3));
  CHECK(rate_s(file.model.kinds.front(), file.model, {8, 8}) * 10 * 86'400 == Approx(1.5));
}

TEST_CASE("other clusters' files bracket Llama 3's interruptions", "[oracle][io][reliability]") {
  const auto expected = [](const char* name) {
    return interruption_rate_s(read_failure_file(kShipped / name).value().model, {16384, 8}, {}) * 54 * 86400.0;
  };
  CHECK(expected("meta-rsc-1.json") == Approx(718.8).epsilon(1e-3));
  CHECK(expected("meta-rsc-2.json") == Approx(258.8).epsilon(1e-3));
  CHECK(expected("acme.json") == Approx(293.6).epsilon(1e-3));
}

TEST_CASE("overrides pass the same checks", "[io][reliability]") {
  const FailureFile file =
      read_failure_file(kShipped / "llama3-54-days.json", {"recovery.spares=5", "checkpoint.interval=20 min"}).value();
  CHECK(file.recovery.spares == 5);
  CHECK(file.checkpoint.interval_s == 1200);
}

TEST_CASE("errors in a failure file name line and key", "[error][io][reliability]") {
  CHECK(errors_of("{\n \"kinds\": [\n  {\"name\": \"x\"}\n ]\n}") ==
        "FILE:3: kinds[0].name = \"x\": needs exactly one of count, mtbf and rate_per_1000_days");
  CHECK(errors_of("{\"kinds\": [{\"name\": \"x\", \"count\": 3}]}") ==
        "FILE:1: kinds[0].count = 3: needs the file's 'observed'");
  CHECK(errors_of("{\"kinds\": [{\"name\": \"x\", \"mtbf\": \"3 weeks\"}]}")
            .find("FILE:1: kinds[0].mtbf = \"3 weeks\": has the unknown unit 'weeks'") == 0);
  CHECK(errors_of("{\"kinds\": [{\"name\": \"x\", \"mtbf\": \"3 h\", \"shape\": 0}]}") ==
        "FILE:1: kinds[0].shape = 0: is not positive");
  CHECK(errors_of("{\"kinds\": [{\"name\": \"x\", \"mtbf\": \"3 h\", \"magnitude\": 1.5}]}") ==
        "FILE:1: kinds[0].magnitude = 1.5: is out of range (allowed: 0.001 to 1)");
  CHECK(errors_of("{\"recovery\": {\"spars\": 3}}") == "FILE:1: recovery.spars: unknown key (did you mean 'spares'?)");
  CHECK(errors_of("{}", {"checkpoint.interval=0 s"}) ==
        "--set: checkpoint.interval = \"0 s\": is out of range (allowed: above 0, or best)");
  CHECK(errors_of("{}", {"recovery.spares=-1"}) ==
        "--set: recovery.spares = -1: is out of range (allowed: 0 to 1000000)");
  CHECK(errors_of("{\"recovery\": {\"diagnosis\": \"400000 d\"}}") ==
        "FILE:1: recovery.diagnosis = \"400000 d\": is out of range (allowed: up to 292 years)");
}

TEST_CASE("keys whose absence is computed have no documented default", "[io][schema]") {
  std::map<std::string, std::string> usual;
  for (const KeyTable& table : failure_keys())
    for (const FieldText& row : table.rows) usual[row.key] = row.usual;
  CHECK(usual.at("spares").empty());
  CHECK(usual.at("interval").empty());
  CHECK(usual.at("elastic") == "\"off\"");
}

TEST_CASE("the course of the training is read, and its errors are reported", "[io][reliability]") {
  const FailureFile file =
      read_failure_file(kShipped / "llama3-54-days.json",
                        {"run.target_tokens=15.6e12", "run.spikes_at_tokens=[72e9, 80e9]", "run.spike_notice_steps=200",
                         "run.batch_ramp=[{\"from_tokens\": 0, \"global_batch\": 512}]", "recovery.spare_mtbf=850 d"})
          .value();
  CHECK(file.course == TrainingCourse{{{0, 512}}, {72'000'000'000, 80'000'000'000}, 200, 0, 15'600'000'000'000});
  CHECK(file.recovery.spare_mtbf == job_time(850 * 86400.0));
  CHECK(file.ramp_file == "--set");
  CHECK(errors_of("{\"run\": {\"spikes_at_tokens\": 5}}") ==
        "FILE:1: run.spikes_at_tokens = 5: is not a list (allowed: ascending numbers of tokens)");
  CHECK(errors_of("{\"run\": {\"spikes_at_tokens\": [5, 5]}}") ==
        "FILE:1: run.spikes_at_tokens = [2 items]: is not a list of ascending numbers of tokens");
  CHECK(errors_of("{\"run\": {\"batch_ramp\": [{\"from_tokens\": 0}]}}") ==
        "FILE:1: run.batch_ramp[0].global_batch: is missing");
}

TEST_CASE("long times: more than a Duration holds", "[io][reliability]") {
  CHECK(parse_long_time_s("50677 h").value() == Approx(50677 * 3600.0));
  CHECK(parse_long_time_s("54 d").value() == 54 * 86400.0);
  CHECK_FALSE(parse_long_time_s("-1 h").has_value());
  CHECK_FALSE(parse_long_time_s("soon").has_value());
  for (const char* text : {"3.0.5 h", "3..5 h", "3e5e2 h", "3 4 h"})
    CHECK(to_string(parse_long_time_s(text).error()).starts_with("has the unknown unit"));
  CHECK(to_string(parse_long_time_s("3").error()).starts_with("has no unit"));
}

TEST_CASE("GB200's network fails as often for each GPU as that of the servers it is taken from", "[io][reliability]") {
  const auto per_day = [](const char* name, const Machine& machine) {
    const FailureFile file = read_failure_file(kShipped / name).value();
    for (const FailureKind& kind : file.model.kinds)
      if (kind.name == "network switch or cable") return 86'400 * rate_s(kind, file.model, machine);
    return 0.0;
  };
  CHECK(per_day("gb200-nvl72.json", {1152, 4}) == Approx(per_day("llama3-54-days.json", {1152, 8})).epsilon(0.001));
}
