// Requirements on what is searched, logged and claimed.
#include <algorithm>
#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "sim/model/scaling.hpp"
#include "sim/report/perfetto.hpp"
#include "sim/report/report_page.hpp"
#include "sim/search/planner.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

std::size_t times_in(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("the search tries micro-batches and recomputations, ranks what fits and counts what does not",
          "[row-0-18][requirements][search]") {
  const Scenario scenario = shipped_scenario("llama2-7b-abci", {"cluster.world_size=32", "parallel.dp=0"});
  SearchSpace space = default_space(scenario, 32);
  space.tp = {1, 2};
  space.pp = {1, 2};
  space.vpp = {1};
  space.micro_batch_size = {1, 2, 8};
  space.recompute = {Recompute::none, Recompute::selective, Recompute::full};
  space.zero_stage = {0, 1};
  const SearchResult result = search(scenario, space, {.best = 100, .threads = 1});
  CHECK(result.counts.out_of_memory > 0);
  REQUIRE(result.best.size() > 3);
  CHECK(std::ranges::is_sorted(result.best, {}, &Evaluation::step_time_s));
  CHECK(std::ranges::is_sorted(result.best, std::greater{}, &Evaluation::mfu));  // TFLOP/s = MFU x peak
  for (const Evaluation& each : result.best) CHECK(each.memory <= scenario.profile.memory);
  CHECK(result.counts.layouts == result.counts.impossible + result.counts.out_of_memory + result.counts.pruned +
                                     result.counts.given_up + result.counts.simulated);
}

TEST_CASE("the best layout of one model depends on what joins its GPUs", "[row-0-33][requirements][search]") {
  // Llama 3 70B on 32 H100, batches of 32: nodes joined by an NVLink switch of 200 GB/s per GPU, and by NICs of 400 Gb/s. With NICs,
  // gathers and reductions of ZeRO-3 share 50 GB/s and are exposed. Over one communicator, they are with both; without an SM
  // margin, multiplications lose more beside them than the pipeline's bubble takes, with both as well.
  const auto best_at = [](Bandwidth nic_rate) {
    Scenario scenario = shipped_scenario("p5-llama3-70b-32", {"cluster.topology=dgx-h100"});
    scenario.cluster.node.nic_rate = nic_rate;
    scenario.parallel.separate_gather_group = true;
    scenario.training.sm_margin = true;
    scenario.training.global_batch_size = 32;  // so few that the bubble of a pipeline counts
    SearchSpace space = default_space(scenario, 32);
    space.tp = {8};
    space.pp = {1, 2};
    space.vpp = {1};
    space.micro_batch_size = {1};
    space.recompute = {Recompute::none};
    space.zero_stage = {1, 3};
    return search(scenario, space, {.best = 1, .threads = 1}).best.at(0).layout;
  };
  const Layout fast = best_at(200_GBps);
  const Layout slow = best_at(50_GBps);
  CHECK(fast.zero_stage == 3);
  CHECK(fast.pp == 1);
  CHECK(slow.zero_stage == 1);
  CHECK(slow.pp == 2);
}

TEST_CASE("every rank is a row of the exported trace, and there is one view of all",
          "[row-0-34][requirements][report]") {
  const Scenario scenario = test::small_scenario(2, 2, 2);
  const Result<ForecastRun> run = forecast(scenario, {.unfold = true, .record_spans = true});
  REQUIRE(run);
  const std::vector<TracedRank> ranks = traced_ranks(*run, {}).value();
  CHECK(ranks.size() == 8);
  std::string trace;
  REQUIRE(write_trace(run->graph, run->timeline, ranks, "small", [&](std::string_view piece) {
    trace += piece;
    return true;
  }));
  CHECK(times_in(trace, "\"process_name\"") == 8);
  // The view of all: the page draws a row for each, and its summary is the mean over them.
  CHECK(times_in(predict_html(scenario, *run, {"", ""}), "\"spans\":\"") == 8);
  double compute = 0;
  for (const RankTime& time : run->timeline.ranks) compute += seconds(time.compute) / 8;
  double told = 0;
  for (const auto& [kind, s] : run->forecast.compute_s) told += s;
  CHECK(told == Approx(compute).epsilon(0.002));
}

TEST_CASE("too large a batch needs more tokens, where a critical batch is given", "[row-4-9][requirements][model]") {
  // At the critical batch twice the tokens and twice the least steps; (S / S_min - 1) (E / E_min - 1) = 1 everywhere.
  for (const double batch : {1e5, 1e6, 4e6, 6.4e7}) {
    const double tokens = tokens_with_batch(1e12, batch, 4e6);
    const double examples = tokens / 1e12;
    const double steps = (tokens / batch) / (1e12 / 4e6);  // the least number of steps is E_min / B_critical
    CHECK((examples - 1) * (steps - 1) == Approx(1));
  }
  CHECK(tokens_with_batch(1e12, 4e6, 4e6) == Approx(2e12));
  // Off by default: the days are those of the tokens alone, whatever the batch.
  const std::string batch = "training.global_batch_size=2048";
  const Scenario off = shipped_scenario("llama2-7b-abci", {batch});
  CHECK(off.training.critical_batch_tokens == 0);
  CHECK(tokens_to_train(off.training) == static_cast<double>(off.training.train_tokens));
  const Scenario on = shipped_scenario("llama2-7b-abci", {batch, "training.critical_batch_tokens=4194304"});
  const auto sequences = static_cast<double>(on.training.seq_length) * 2048;
  CHECK(tokens_to_train(on.training) == Approx(tokens_to_train(off.training) * (1 + sequences / 4194304)));
  // A step is what it was.
  CHECK(forecast(on).value().forecast.step_time_s == forecast(off).value().forecast.step_time_s);
}

TEST_CASE("compute, parameters and tokens are reported, and nothing about the loss", "[row-1-1][requirements][model]") {
  // C = 6 N D and D = 20 N leave one free number: any of the three gives the others.
  const ModelBudget budget = compute_optimal(5.88e23);
  CHECK(compute_of(budget.parameters, budget.tokens, ComputeRule::six_nd) == Approx(5.88e23));
  CHECK(budget.tokens == Approx(20 * budget.parameters));
  CHECK(budget.parameters == Approx(std::sqrt(5.88e23 / 120)));
}
