#include "sim/report/json.hpp"

#include <catch2/catch.hpp>

#include "sim/io/json_document.hpp"
#include "tests/report/sample.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;

namespace {

JsonNode parsed(const std::string& text) {
  const Result<JsonDocument> document = parse_json(text, "result.json");
  REQUIRE(document);
  return document->root;
}

double number_at(const JsonNode& root, std::initializer_list<std::string_view> path) {
  const JsonNode* node = &root;
  for (const std::string_view key : path) {
    CAPTURE(std::string(key));
    node = node->find(key);
    REQUIRE(node != nullptr);
  }
  return node->number;
}

}  // namespace

TEST_CASE("result: the keys come in the documented order", "[report][json]") {
  const JsonNode root = parsed(result_json(sample::scenario(), sample::forecast()));
  std::vector<std::string> keys;
  for (const auto& [key, value] : root.members) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"scenario",
                                         "ranks",
                                         "step_time_s",
                                         "band",
                                         "tokens_per_step",
                                         "tokens_per_s",
                                         "tokens_per_s_per_gpu",
                                         "flops_convention",
                                         "model_tflops_per_gpu",
                                         "mfu",
                                         "hfu",
                                         "bubble_fraction",
                                         "bubble_s",
                                         "exposed_communication_s",
                                         "compute_s",
                                         "host_s",
                                         "optimizer_s",
                                         "memory",
                                         "bandwidth",
                                         "provenance",
                                         "training",
                                         "measured",
                                         "engine"});
}

TEST_CASE("result: values are the forecast's", "[report][json]") {
  const JsonNode root = parsed(result_json(sample::scenario(), sample::forecast()));
  CHECK(root.find("scenario")->string == "sample-16");
  CHECK(root.find("flops_convention")->string == "model_full_attn");
  CHECK(number_at(root, {"step_time_s"}) == 2);
  CHECK(number_at(root, {"band", "p95_s"}) == 2.1);
  CHECK(number_at(root, {"tokens_per_s_per_gpu"}) == 2048);
  CHECK(number_at(root, {"compute_s", "gemm"}) == 1.0);
  CHECK(number_at(root, {"exposed_communication_s", "tensor_parallel"}) == 0.25);
  CHECK(number_at(root, {"exposed_communication_s", "expert_parallel"}) == 0);
  CHECK(root.find("memory")->find("fits")->boolean);
  CHECK(number_at(root, {"memory", "capacity_gib"}) == 72);
  CHECK(number_at(root, {"memory", "peak_gib"}) == 54);
  CHECK(number_at(root, {"memory", "by_kind_gib", "activations"}) == 20);
  CHECK(root.find("memory")->find("by_pipeline_rank_gib")->items[1].number == 44);
  CHECK(number_at(root, {"provenance", "measured"}) == 0);
  CHECK(number_at(root, {"provenance", "analytic"}) == 0.25);
  CHECK(number_at(root, {"measured", "relative_error"}) == Approx(-0.2));
  CHECK(number_at(root, {"training", "days"}) == Approx(1e12 / 32768 / 86400));
  CHECK(number_at(root, {"engine", "events"}) == 12345);
}

TEST_CASE("result: the bandwidth of each axis, and tokens that a large batch needs", "[report][json]") {
  Scenario scenario = sample::scenario();
  // 32,768 tokens/s for 2 s: a batch of 65,536 tokens, a quarter of the critical one.
  scenario.training.global_batch_size = 16;
  scenario.training.seq_length = 4096;
  scenario.training.critical_batch_tokens = 4 * 65536;
  Forecast forecast = sample::forecast();
  forecast.bandwidth = {{"dp", "network", 8, 4, 60e9, 30e9, 50e9}};
  const std::string text = result_json(scenario, forecast);
  CHECK(schema_violations(source_dir() / "docs/schema/result.schema.json", text) == std::vector<std::string>{});
  const JsonNode root = parsed(text);
  const JsonNode& row = root.find("bandwidth")->items.at(0);
  CHECK(row.find("axis")->string == "dp");
  CHECK(row.find("link")->string == "network");
  CHECK(row.find("sent_gb")->number == 60);
  CHECK(row.find("required_gb_per_s")->number == 30);
  CHECK(row.find("ratio")->number == Approx(0.6));
  CHECK(number_at(root, {"training", "tokens"}) == 1e12);
  CHECK(number_at(root, {"training", "tokens_with_this_batch"}) == 1.25e12);
  CHECK(number_at(root, {"training", "days"}) == Approx(1.25e12 / 32768 / 86400));
}

TEST_CASE("result: days count tokens that are not padding", "[report][json][packing]") {
  Scenario scenario = sample::scenario();
  Forecast forecast = sample::forecast();
  const double all = number_at(parsed(result_json(scenario, forecast)), {"training", "days"});
  forecast.packed = PackedForecast{.steps = 1, .useful_share = 0.25};
  CHECK(number_at(parsed(result_json(scenario, forecast)), {"training", "days"}) == Approx(4 * all));
  scenario.training.dataset_samples = 1;  // a data set has whole sequences
  CHECK(number_at(parsed(result_json(scenario, forecast)), {"training", "days"}) == Approx(all));
}

TEST_CASE("result: fits its schema, with and without the optional keys", "[report][json][schema]") {
  const std::filesystem::path schema = source_dir() / "docs/schema/result.schema.json";
  Scenario scenario = sample::scenario();
  Forecast forecast = sample::forecast();
  forecast.causes = {{"gemm", "", 1.0, 1.2}};
  CHECK(schema_violations(schema, result_json(scenario, forecast)) == std::vector<std::string>{});
  forecast.bandwidth = {{"ep", "network", 32, 4, 60e9, 30e9, 50e9}};
  CHECK(parsed(result_json(scenario, forecast)).find("notes")->items.size() == 1);
  CHECK(schema_violations(schema, result_json(scenario, forecast)) == std::vector<std::string>{});
  scenario.measured.reset();
  scenario.training.train_tokens = 0;
  forecast.causes.clear();
  CHECK(schema_violations(schema, result_json(scenario, forecast)) == std::vector<std::string>{});
}

TEST_CASE("result: the parts of the step add up to it", "[report][json]") {
  const JsonNode root = parsed(result_json(sample::scenario(), sample::forecast()));
  double sum = number_at(root, {"bubble_s"}) + number_at(root, {"host_s"}) + number_at(root, {"optimizer_s"});
  for (const auto& [kind, time] : root.find("compute_s")->members) sum += time.number;
  for (const auto& [kind, time] : root.find("exposed_communication_s")->members) sum += time.number;
  CHECK(sum == Approx(number_at(root, {"step_time_s"})));
}

TEST_CASE("result: only what was asked for or is known", "[report][json]") {
  Scenario scenario = sample::scenario();
  scenario.measured.reset();
  scenario.training.train_tokens = 0;
  Forecast forecast = sample::forecast();
  JsonNode root = parsed(result_json(scenario, forecast));
  CHECK(root.find("measured") == nullptr);
  CHECK(root.find("training") == nullptr);
  CHECK(root.find("causes") == nullptr);
  forecast.causes = {{"gemm", "", 1.0, 1.2}};
  root = parsed(result_json(scenario, forecast));
  REQUIRE(root.find("causes") != nullptr);
  CHECK(root.find("causes")->items[0].find("step_without_s")->number == 1.2);
}

TEST_CASE("result: the same input gives the same bytes", "[report][json]") {
  CHECK(result_json(sample::scenario(), sample::forecast()) == result_json(sample::scenario(), sample::forecast()));
}
