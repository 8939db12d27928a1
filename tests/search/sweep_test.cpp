// What-if grids: the points, what they are compared with, and what is refused.
#include "sim/search/sweep.hpp"

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/report/svg.hpp"
#include "sim/report/sweep_report.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

using Texts = std::vector<std::string>;

Result<Scenario> llama_7b(const Texts& overrides) {
  const DataPaths data = shipped_data();
  return read_scenario(data.scenarios / "case_studies/llama2-7b-abci.json", data, overrides);
}

Sweep sweep_of(const Texts& texts) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : texts) axes.push_back(parse_sweep_axis(text).value());
  Sweep sweep = run_sweep(axes, llama_7b, {}, [](std::size_t, std::size_t) {}).value();
  sweep.scenario = "test";
  return sweep;
}

}  // namespace

TEST_CASE("sweep: values that contain commas", "[search][sweep]") {
  CHECK(parse_sweep_axis("a.b=1,2") == SweepAxis{"a.b", {"1", "2"}});
  CHECK(parse_sweep_axis("l=[1,2],[3]") == SweepAxis{"l", {"[1,2]", "[3]"}});
  CHECK(parse_sweep_axis("l={\"a\":1,\"b\":2},\"x,y\"") == SweepAxis{"l", {"{\"a\":1,\"b\":2}", "\"x,y\""}});
  for (const char* wrong : {"", "a", "=1", "a=", "a=1,,2", "a=1,"}) {
    const Result<SweepAxis> axis = parse_sweep_axis(wrong);
    REQUIRE_FALSE(axis.has_value());
    CHECK(to_string(axis.error()).ends_with("is not key=value,value (for example parallel.tp=1,2,4)"));
  }
}

TEST_CASE("sweep: every point is the forecast of the scenario with these values", "[search][sweep]") {
  const Sweep sweep = sweep_of({"training.micro_batch_size=1,2", "parallel.zero_stage=0,1"});
  REQUIRE(sweep.points.size() == 4);
  CHECK(sweep.points[1].values == Texts{"1", "1"});  // the last axis fastest
  CHECK(sweep.points[2].values == Texts{"2", "0"});
  for (const GridPoint& point : sweep.points) {
    const Scenario scenario =
        llama_7b({"training.micro_batch_size=" + point.values[0], "parallel.zero_stage=" + point.values[1]}).value();
    CHECK(point.step_time_s == forecast(scenario).value().forecast.step_time_s);
  }
}

TEST_CASE("sweep: an impossible layout is a point with an error", "[search][sweep]") {
  const Sweep sweep = sweep_of({"parallel.tp=1,3"});
  CHECK(sweep.points[0].error.empty());
  CHECK(sweep.points[1].error ==
        "parallel: tp 3 x cp 1 x pp 2 = 6 ranks do not divide the 32 of the cluster (allowed: a multiple of 6)");
  const std::string csv = sweep_csv(sweep);
  CHECK(csv.starts_with("parallel.tp,scaling,gpus,step_time_s,"));
  CHECK(csv.find("\n3,,,,,,,,,,,") != std::string::npos);
  const auto nothing = run_sweep({{"parallel.tp", {"3"}}}, llama_7b, {}, [](std::size_t, std::size_t) {});
  REQUIRE_FALSE(nothing.has_value());
  CHECK(
      to_string(nothing.error()).starts_with("--sweep: has no point that can be forecast; the first: parallel: tp 3 "));
  const auto twice = run_sweep({{"a", {"1"}}, {"a", {"2"}}}, llama_7b, {}, [](std::size_t, std::size_t) {});
  CHECK(to_string(twice.error()) == "--sweep = a: is given twice");
  const std::vector<std::string> many(101, "1");
  const auto large = run_sweep({{"a", many}, {"b", many}}, llama_7b, {}, [](std::size_t, std::size_t) {});
  CHECK(to_string(large.error()) == "--sweep = b: makes more than 10,000 points");
}

TEST_CASE("sweep: GPUs alone are a scaling study, strong and weak", "[search][sweep]") {
  const int gpus = llama_7b({}).value().cluster.world_size;
  const Sweep sweep = sweep_of({"cluster.world_size=" + std::to_string(gpus) + "," + std::to_string(2 * gpus)});
  REQUIRE(sweep.weak.size() == 2);
  CHECK(sweep.weak[0].step_time_s == sweep.points[0].step_time_s);   // the first point is the same in both
  CHECK(sweep.points[1].step_time_s < sweep.points[0].step_time_s);  // half the work per GPU
  CHECK(sweep.weak[1].step_time_s > sweep.points[1].step_time_s);
  CHECK(sweep.weak[1].tokens_per_s > 1.8 * sweep.weak[0].tokens_per_s);  // and the same work: nearly twice the tokens
  CHECK(sweep.weak[1].tokens_per_s_per_gpu >= sweep.points[1].tokens_per_s_per_gpu);
}

TEST_CASE("sweep: pictures have a cell or a mark for every point", "[search][sweep]") {
  const auto count = [](const std::string& text, const std::string& what) {
    int found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  const std::string map = sweep_svg(sweep_of({"training.micro_batch_size=1,2", "parallel.tp=1,2,3"}));
  CHECK(count(map, "class=\"none\"") == 2);  // tp 3, twice
  const int striped = count(map, "class=\"out\"");
  CHECK(count(map, "style=\"fill:#") == 2 * 4 + striped);  // four cells, the text of each, a plate on stripes
  CHECK(count(map, "class=\"best\"") == 1);
  const std::string curve = sweep_svg(sweep_of({"training.micro_batch_size=1,2"}));
  CHECK(count(curve, "<circle") == 2);
  CHECK(count(curve, "<polyline") == 1);
  CHECK(count(curve, "band\"") == 1);
  // Names have no order: bars with whiskers instead of a line.
  const std::string bars = sweep_svg(sweep_of({"training.dtype=bf16,fp16"}));
  CHECK(count(bars, "<polyline") == 0);
  CHECK(count(bars, "class=\"whisker\"") == 2);
  CHECK(count(bars, "class=\"fa\"") == 2);
  // Perfect scaling is dashed, once for strong and once for weak.
  CHECK(count(sweep_svg(sweep_of({"cluster.world_size=32,64"})), "stroke-dasharray=\"6 4\"") == 2);
}

TEST_CASE("sweep: a precision that the GPU does not have is said once", "[search][sweep]") {
  const std::string page = sweep_page(sweep_of({"training.dtype=bf16,nvfp4"}), {});
  CHECK(page.find("has no arithmetic in nvfp4: the rate of") != std::string::npos);
  CHECK(sweep_page(sweep_of({"training.dtype=bf16,fp16"}), {}).find("no arithmetic") == std::string::npos);
}

TEST_CASE("sweep: a line joins values that are quantities", "[search][sweep]") {
  for (const char* quantity : {"8", "0.5", "50G", "400 Gb/s"}) CHECK(is_quantity(quantity));
  for (const char* name : {"bf16", "1f1b", "aws-p5", "", "true"}) CHECK_FALSE(is_quantity(name));
}

TEST_CASE("sweep: a column of a key that ends in a number has the name before it", "[search][sweep]") {
  const std::string page = sweep_page(sweep_of({"perturb.slow_rank.0=1,1.2"}), {});
  CHECK(page.find("  slow_rank.0  step s") != std::string::npos);
}

TEST_CASE("sweep: points have a band and a change against the scenario as it is", "[search][sweep]") {
  const Sweep sweep = sweep_of({"parallel.zero_stage=0,1"});
  const ForecastRun as_it_is = forecast(llama_7b({}).value()).value();
  CHECK(sweep.unchanged.step_time_s == as_it_is.forecast.step_time_s);
  for (const GridPoint& point : sweep.points) {
    CHECK(point.p5_s < point.step_time_s);
    CHECK(point.step_time_s < point.p95_s);
  }
  const auto own = static_cast<std::size_t>(llama_7b({}).value().parallel.zero_stage == 0 ? 0 : 1);
  const std::string page = sweep_page(sweep, {});
  CHECK(page.find("same") != std::string::npos);  // the scenario's own value is one of the points
  CHECK(sweep.points[own].step_time_s == sweep.unchanged.step_time_s);
  CHECK(page.find("change: tokens per second per GPU against the scenario as it is") != std::string::npos);
  CHECK(sweep_csv(sweep).find(",fits,p5_s,p95_s,change,refused\n") != std::string::npos);
}
