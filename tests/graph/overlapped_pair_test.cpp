// DualPipe's pairs: a forward and a backward hide each other's exchanges of tokens.
#include "sim/graph/overlapped_pair.hpp"

#include <map>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/plan/sharding.hpp"
#include "sim/search/bound.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::exposed;
using tracecast::test::run;
using tracecast::test::small_scenario;

namespace {

/// Four stages of two layers with experts, on a network that makes their exchanges matter.
Scenario experts(const std::string& schedule, int ep) {
  Scenario s = small_scenario(1, 4, 8);
  MixtureOfExperts moe{.experts = 32, .topk = 4, .ffn_hidden = 2048};
  s.model.moe = moe;
  s.model.mtp_layers = 0;
  s.training.seq_length = 4096;
  s.training.global_batch_size = 8LL * 16;
  s.parallel.ep = ep;
  s.parallel.pp_schedule = schedule;
  s.parallel.zero_stage = 1;
  s.training.cuda_graphs = true;  // the host, which would wait for the router's counts, is not what is tested
  return s;
}

/// How often each operation is issued: its stream and what it does.
std::map<std::tuple<int, int, int>, int> issued(const ForecastRun& result) {
  std::map<std::tuple<int, int, int>, int> counts;
  for (const auto& program : result.graph.programs)
    for (const ProgramItem& item : program)
      for (const Op& op : result.graph.templates[static_cast<std::size_t>(item.template_index)].ops)
        if (op.payload >= 0) ++counts[{static_cast<int>(op.type), op.stream, op.payload}];
  return counts;
}

}  // namespace

TEST_CASE("dualpipe: most of the exchanges are hidden, none of the work is lost", "[graph][moe]") {
  const ForecastRun pairs = run(experts("dualpipe", 8));
  // ZeRO-3 keeps the passes of a pair apart; 1F1B has none.
  const ForecastRun one_by_one = run(experts("1f1b", 8));
  CHECK(exposed(one_by_one, Traffic::expert_parallel) > 0.08 * one_by_one.forecast.step_time_s);
  CHECK(exposed(pairs, Traffic::expert_parallel) < 0.6 * exposed(one_by_one, Traffic::expert_parallel));
  CHECK(pairs.forecast.compute_s.at("grouped_gemm") == Approx(one_by_one.forecast.compute_s.at("grouped_gemm")));
  CHECK(run(experts("dualpipe", 8), {.unfold = true}).timeline.step_time == pairs.timeline.step_time);
}

TEST_CASE("dualpipe: parts of a pass are cut where tokens arrive, and run in turns", "[graph][moe]") {
  const ForecastRun pairs = run(experts("dualpipe", 8));
  const ForecastRun plain = run(experts("dualpipe", 1));
  CHECK_FALSE(interleaves_pairs(plain.plan.parallel));
  CHECK(interleaves_pairs(pairs.plan.parallel));
  const auto items = [](const ForecastRun& result) { return result.graph.programs[0].size(); };
  // Rank 0 of four has M/2 - P + 1 rounds of two pairs, and one more on the way out. A pass of two layers with two
  // exchanges each has five parts.
  const int passes = 2 * (2 * (16 / 2 - 4 + 1) + 1);
  CHECK(items(pairs) - items(plain) == static_cast<std::size_t>(passes * (5 - 1)));
  // Every operation as often as when the passes are not cut: compared with a schedule of the same passes.
  Scenario apart = experts("dualpipe", 8);
  apart.parallel.pp_schedule = "chimera";
  std::map<int, int> exchanges;
  for (const auto& [what, count] : issued(pairs)) exchanges[std::get<1>(what)] += count;
  std::map<int, int> expected;
  for (const auto& [what, count] : issued(run(apart))) expected[std::get<1>(what)] += count;
  CHECK(exchanges[static_cast<int>(Lane::expert)] == expected[static_cast<int>(Lane::expert)]);
}

TEST_CASE("combined-1f1b: exchanges hide behind another micro-batch, also without a pipeline", "[graph][moe]") {
  const int pp = GENERATE(1, 4);
  CAPTURE(pp);
  const auto of = [&](const std::string& schedule, int ep) {
    Scenario s = experts(schedule, ep);
    s.parallel.pp = pp;
    return s;
  };
  const ForecastRun combined = run(of("combined-1f1b", 8));
  const ForecastRun one_by_one = run(of("1f1b", 8));
  CHECK(exposed(combined, Traffic::expert_parallel) < 0.5 * exposed(one_by_one, Traffic::expert_parallel));
  CHECK(combined.forecast.step_time_s < one_by_one.forecast.step_time_s);
  CHECK(combined.forecast.compute_s.at("grouped_gemm") == Approx(one_by_one.forecast.compute_s.at("grouped_gemm")));
  CHECK(run(of("combined-1f1b", 8), {.unfold = true}).timeline.step_time == combined.timeline.step_time);
}

TEST_CASE("combined-1f1b: with nothing to hide and no pipeline it takes what 1f1b takes", "[graph][moe]") {
  const auto step = [](const std::string& schedule) {
    Scenario s = experts(schedule, 1);
    s.parallel.pp = 1;
    return run(s).forecast.step_time_s;
  };
  CHECK(step("combined-1f1b") == Approx(step("1f1b")).epsilon(1e-6));
}

TEST_CASE("experts: waiting for the router's counts costs nothing if launches do not", "[graph][moe]") {
  // DualPipe is left out: a host that waits posts its receives later, and messages of the other direction begin later. That moves the
  // pairs of combined-1f1b by 0.1 %.
  for (const char* schedule : {"1f1b", "combined-1f1b"}) {
    CAPTURE(schedule);
    const auto step = [&](bool graphs, double launch, bool unfold) {
      Scenario s = experts(schedule, 8);
      s.training.cuda_graphs = graphs;  // the host waits for nothing
      s.profile.host.launch = s.profile.host.graph_launch = launch;
      return run(s, {.unfold = unfold}).timeline.step_time;
    };
    const double waiting = seconds(step(false, 0, false)), graphed = seconds(step(true, 0, false));
    CHECK(waiting == Approx(graphed).epsilon(schedule == std::string("1f1b") ? 1e-12 : 2e-3));
    // 100 us an operation: what the host would have issued ahead now follows the router.
    CHECK(step(false, 100e-6, false) > step(true, 100e-6, false));
    CHECK(step(false, 100e-6, true) == step(false, 100e-6, false));
  }
}

TEST_CASE("dualpipe: the planner's bound leaves out the exchanges that a pair may hide", "[graph][search][moe]") {
  Layout layout;
  layout.pp = 4;
  layout.ep = 8;
  layout.zero_stage = 1;
  for (const char* schedule : {"dualpipe", "combined-1f1b", "1f1b"}) {
    CAPTURE(schedule);
    const Scenario scenario = experts(schedule, 8);
    layout.pp_schedule = schedule;
    const std::optional<LayoutBound> bound = BoundTable(scenario).bound(layout);
    REQUIRE(bound.has_value());
    const double simulated = run(scenario).forecast.step_time_s;
    CHECK(seconds(bound->step_time) <= simulated);
    CHECK(seconds(bound->step_time) > 0.6 * simulated);
  }
}
