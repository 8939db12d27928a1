#include "kernels/recording.hpp"

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

#include "kernels/cuda/operand_bytes.hpp"
#include "sim/cost/costs.hpp"
#include "sim/io/files.hpp"
#include "sim/plan/plan.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;

TEST_CASE("samples: quartiles interpolate between order statistics", "[kernels][oracle]") {
  // Of 1..9 the quartiles are 3, 5 and 7 (R, type 7); a normal distribution with them has a deviation of 4 / 1.349.
  const Samples odd = summarise({9, 1, 8, 2, 7, 3, 6, 4, 5});
  CHECK(odd.lower_quartile == 3);
  CHECK(odd.median == 5);
  CHECK(odd.spread == Approx(4 / 1.349 / 5));
  CHECK(odd.count == 9);
  CHECK(summarise({1, 2}).lower_quartile == 1.25);
  CHECK(summarise({4}).spread == 0);
  // One disturbed repeat in nine moves neither quartile nor spread.
  CHECK(summarise({900, 1, 8, 2, 7, 3, 6, 4, 5}).lower_quartile == 3);
}

TEST_CASE("suite: the quick one has every operator of the small CPU scenarios but the optimizer's sizes", "[kernels]") {
  const Suite quick = make_suite("quick", shipped_scenario("cpu-one-rank")).value();
  const auto known = [&quick](const Operator& op) {
    return std::any_of(quick.operators.begin(), quick.operators.end(), [&](const SuiteOperator& other) {
      return other.op.kind == op.kind && other.op.pass == op.pass && other.op.shape == op.shape;
    });
  };
  for (const char* name : {"cpu-one-rank", "cpu-dp2", "cpu-tp2"}) {
    Suite step;
    REQUIRE(add_scenario(step, shipped_scenario(name)));
    for (const SuiteOperator& each : step.operators) {
      INFO(name << " " << each.op.name);
      CHECK((each.op.kind == OperatorKind::optimizer || known(each.op)));
    }
  }
  CHECK(make_suite("full", shipped_scenario("cpu-one-rank"))->operators.size() > quick.operators.size());
}

TEST_CASE("suite: the full one of a GPU has multiplications of every kind and pass, and nothing that is rejected",
          "[kernels][cuda]") {
  const Result<Suite> full = make_suite("full", shipped_scenario("gpu-1b"));
  REQUIRE(full);
  std::set<std::pair<OperatorKind, Pass>> seen;
  for (const SuiteOperator& each : full->operators) {
    const Scenario& scenario = full->scenarios[each.scenario];
    const Plan plan =
        make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size).value();
    INFO(scenario.name << " " << each.op.name);
    CHECK(cuda::refusal(each.op, widths_of(scenario.model, plan)) == "");
    seen.insert({each.op.kind, each.op.pass});
  }
  for (const OperatorKind kind : {OperatorKind::gemm, OperatorKind::grouped_gemm})
    for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) CHECK(seen.contains({kind, pass}));
}

TEST_CASE("suite: each work once, collectives of every kind over sizes", "[kernels]") {
  Suite suite;
  REQUIRE(add_scenario(suite, shipped_scenario("cpu-one-rank")));
  const std::size_t once = suite.operators.size();
  REQUIRE(add_scenario(suite, shipped_scenario("cpu-one-rank")));
  CHECK(suite.operators.size() == once);
  CHECK(suite.scenarios.size() == 2);
  const std::vector<CollectiveCall> calls = collective_sizes(Bytes{1 << 14});
  CHECK(calls.size() == 3 * kCollectiveKinds);  // 1, 4 and 16 KiB
  CHECK(calls[1].size == Bytes{4096});
}

TEST_CASE("recording: what was measured comes back, what was not is near it", "[kernels]") {
  Suite suite = make_suite("quick", shipped_scenario("cpu-one-rank")).value();
  suite.collectives = collective_sizes(Bytes{4096});
  // A machine of 20 GFLOP/s and 4 GB/s.
  SuiteSamples samples;
  const auto seconds_of = [](const Operator& op) {
    if (const auto* shape = std::get_if<ElementwiseShape>(&op.shape))
      return static_cast<double>(shape->traffic.count) / 4e9;
    return flops(op).count / 20e9;
  };
  for (const SuiteOperator& each : suite.operators) samples.operators.push_back({seconds_of(each.op), 1, 0.02, 20});
  for (std::size_t i = 0; i < suite.collectives.size(); ++i) samples.collectives.push_back({1e-5, 1e-5, 0.1, 20});
  const Profile profile = recorded_cpu_profile(suite, samples, {"a core", "this test", 2, Bytes{1 << 30}});
  CHECK(profile.peak_flops.at(Precision::fp32) == Approx(20e9));
  CHECK(profile.memory_bandwidth == Approx(4e9));
  CHECK_FALSE(profile.overlap);
  CHECK(profile.measured_collectives.size() == suite.collectives.size());
  CHECK(profile.measured_collectives.front().ranks == 2);
  const Costs costs(profile);
  for (const SuiteOperator& each : suite.operators) {
    const OperatorCost cost = costs.of(each.op);
    CHECK(cost.provenance == Provenance::measured);
    CHECK(seconds(cost.duration) == Approx(seconds_of(each.op)).epsilon(1e-6));
  }
  Operator other = suite.operators.front().op;
  other = {OperatorKind::gemm, Pass::forward, Precision::fp32, "new", GemmShape{128, 1024, 320}};
  CHECK(costs.of(other).provenance == Provenance::interpolated);
  CHECK(seconds(costs.of(other).duration) == Approx(seconds_of(other)).epsilon(0.1));
  CHECK(leave_one_out_residual(profile) < 0.1);
  CHECK(leave_one_out_residual(profile) == Approx(profile.grouped_gemm.fit.residual));
  // And as a file.
  const TemporaryFolder folder;
  REQUIRE(write_file(folder.path() / "recorded.json", to_json(profile)));
  CHECK(read_profile(folder.path() / "recorded.json").value() == profile);
}
