// Local SGD: replicas that train apart and average their parameters every few steps.
#include "sim/forecast/averaging.hpp"

#include <cmath>
#include <sstream>

#include <catch2/catch.hpp>

#include "sim/forecast/layout_forecasts.hpp"
#include "sim/network/sites.hpp"
#include "sim/report/terminal.hpp"
#include "sim/search/bound.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"
#include "tests/support/traffic.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Scenario averaging(int tp, int dp, int period) {
  Scenario scenario = small_scenario(tp, 1, dp);
  scenario.parallel.data_parallel = DataParallelKind::parameter_averaging;
  scenario.parallel.averaging_period = period;
  return scenario;
}

Forecast of(const Scenario& scenario, const ForecastOptions& options = {}) {
  return value_of(forecast(scenario, options)).forecast;
}

std::string error_of(const std::vector<std::string>& overrides) {
  return error_text(forecast(shipped_scenario("data-parallel-gpt2", overrides)));
}

}  // namespace

TEST_CASE("parameter averaging: a period's mean step is (H-1) local ones and one that averages, over H",
          "[requirements][forecast][oracle]") {
  const double local = of(averaging(1, 4, 0)).step_time_s;
  const Forecast every = of(averaging(1, 4, 1));
  CHECK(every.step_time_s > local);
  for (const int period : {1, 2, 10, 500}) {
    CAPTURE(period);
    const Forecast f = of(averaging(1, 4, period));
    CHECK(f.step_time_s == Approx(((period - 1) * local + every.step_time_s) / period).epsilon(1e-12));
    CHECK(f.averaging->local_step_s == local);
    CHECK(f.averaging->averaging_step_s == every.step_time_s);
    CHECK(f.averaging->replicas == 4);
    CHECK(f.tokens_per_s == Approx(f.tokens_per_step / f.step_time_s));
    CHECK(f.mfu * f.step_time_s == Approx(every.mfu * every.step_time_s));
    // Compute, waits, host and optimizer are still the whole step.
    double sum = f.host_s + f.optimizer_s + f.bubble_fraction * f.step_time_s;
    for (const auto& [kind, time_s] : f.compute_s) sum += time_s;
    for (const double exposed : f.exposed_s) sum += exposed;
    CHECK(sum == Approx(f.step_time_s));
  }
  // The bubble's seconds are the same mean.
  const auto bubble_s = [](int period) {
    Scenario scenario = small_scenario(1, 2, 4);
    scenario.parallel.data_parallel = DataParallelKind::parameter_averaging;
    scenario.parallel.averaging_period = period;
    const Forecast f = of(scenario);
    CHECK(f.bubble_fraction > 0.05);
    return f.bubble_fraction * f.step_time_s;
  };
  CHECK(bubble_s(10) == Approx((9 * bubble_s(0) + bubble_s(1)) / 10));
}

TEST_CASE("parameter averaging: no gradients between replicas, 2 (R-1)/R of the fp32 parameters to average",
          "[requirements][forecast][oracle]") {
  const Scenario scenario = averaging(1, 4, 8);
  const ForecastRun run = forecast(scenario).value();
  const std::vector<TrafficCount> counts = count_traffic(run.graph, 0);
  CHECK(total_of(counts, Traffic::gradients, Collective::all_reduce).calls == 0);
  const double parameters = 4.0 * static_cast<double>(parameter_count(scenario.model).total());
  CHECK(run.forecast.averaging->sent_bytes == Approx(2 * 0.75 * parameters));
  REQUIRE(run.forecast.bandwidth.size() == 1);
  CHECK(run.forecast.bandwidth.front().sent_bytes == Approx(2 * 0.75 * parameters / 8));
  // bf16 parameters without an fp32 copy are half of that.
  Scenario narrow = scenario;
  narrow.training.master_weights = false;
  CHECK(of(narrow).averaging->sent_bytes == Approx(2 * 0.75 * parameters / 2));
}

TEST_CASE("parameter averaging: bytes per parameter that each pass over the parameters moves",
          "[requirements][forecast][oracle]") {
  const auto bytes_each = [](const Scenario& scenario, const std::string& name) {
    const ForecastRun run = forecast(scenario).value();
    for (const CostedOperator& each : run.graph.operators)
      if (each.op.name == name)
        return static_cast<double>(std::get<ElementwiseShape>(each.op.shape).traffic.count) /
               static_cast<double>(parameter_count(scenario.model).total());
    return 0.0;
  };
  Scenario scenario = averaging(1, 4, 8);
  CHECK(bytes_each(scenario, "average cast") == Approx(4 + 2));  // reads the fp32 copy, writes the 16-bit one
  scenario.parallel.outer_optimizer = OuterOptimizer::nesterov;
  CHECK(bytes_each(scenario, "average cast") == 0);
  CHECK(bytes_each(scenario, "outer difference") == Approx(4 + 4 + 4));  // common and own parameters, their difference
  // The mean difference; common parameters and momentum, read and written; both copies of the replica.
  CHECK(bytes_each(scenario, "outer update") == Approx(4 + 2 * 4 + 2 * 4 + 4 + 2));
}

TEST_CASE("parameter averaging: a step apart is the step of one replica alone", "[requirements][forecast][oracle]") {
  const int tp = GENERATE(1, 2);
  Scenario one = small_scenario(tp, 1, 1);
  Scenario apart = averaging(tp, 4, 0);
  // What a step costs for each rank of the job is not of the replica.
  one.profile.host.step_overhead_per_rank = apart.profile.host.step_overhead_per_rank = 0;
  one.training.global_batch_size = apart.training.global_batch_size / 4;
  CHECK(of(apart).step_time_s == of(one).step_time_s);
  CHECK(of(apart).memory == of(one).memory);
  CHECK(of(apart, {.unfold = true}).step_time_s == of(apart).step_time_s);
  CHECK(of(averaging(tp, 4, 3), {.unfold = true}).step_time_s == of(averaging(tp, 4, 3)).step_time_s);
}

TEST_CASE("parameter averaging: the ranks of a shard group reduce gradients in every step, groups average their shards",
          "[requirements][forecast]") {
  Scenario scenario = averaging(1, 16, 10);
  scenario.parallel.zero_stage = 1;
  scenario.parallel.shard_group = 8;
  scenario.training.global_batch_size = 16;
  const ForecastRun run = forecast(scenario).value();
  double gradients = 0;
  for (const TrafficCount& each : count_traffic(run.graph, 0)) {
    if (each.traffic == Traffic::gradients) gradients += each.sent;
    if (each.traffic == Traffic::gradients) CHECK(each.nodes == 1);  // inside the node only
  }
  const double all = 4.0 * static_cast<double>(parameter_count(scenario.model).total());
  CHECK(gradients == Approx(7.0 / 8 * all).epsilon(1e-5));
  CHECK(run.forecast.averaging->replicas == 2);
  CHECK(run.forecast.averaging->sent_bytes == Approx(2 * 0.5 * all / 8).epsilon(1e-5));
}

TEST_CASE("parameter averaging: a search's bound is never above the step", "[requirements][forecast][search]") {
  const Scenario scenario = averaging(1, 4, 100);
  Layout layout;
  layout.tp = layout.pp = 1;
  layout.micro_batch_size = 1;
  const std::optional<LayoutBound> bound = BoundTable(scenario).bound(layout);
  REQUIRE(bound);
  CHECK(seconds(bound->step_time) > 0);
  CHECK(seconds(bound->step_time) <= of(scenario).step_time_s);
}

TEST_CASE("parameter averaging: a search ranks layouts by the mean step", "[forecast][search]") {
  LayoutForecasts layouts;
  for (const int period : {0, 1, 100}) {
    CAPTURE(period);
    const Scenario scenario = averaging(1, 4, period);
    const Forecast own = of(scenario);
    // As long as it may take: the step that averages is longer than the mean.
    const auto longest = Duration{std::llround(own.step_time_s * 1e12) + 1};
    const LayoutForecast found = value_of(layouts.forecast(scenario, 0, longest));
    CHECK(found.fits);
    CHECK_FALSE(found.given_up);
    CHECK(found.step.step_time_s == own.step_time_s);
    CHECK(found.step.tokens_per_s == own.tokens_per_s);
  }
}

TEST_CASE("parameter averaging: a replica with stages waits for its own ranks only",
          "[requirements][forecast][oracle]") {
  const int zero_stage = GENERATE(0, 1);
  Scenario one = small_scenario(1, 2, zero_stage == 0 ? 1 : 4);
  Scenario apart = small_scenario(1, 2, zero_stage == 0 ? 4 : 16);
  apart.parallel.data_parallel = DataParallelKind::parameter_averaging;
  apart.parallel.averaging_period = 0;
  apart.parallel.zero_stage = one.parallel.zero_stage = zero_stage;
  if (zero_stage == 1) apart.parallel.shard_group = 4;
  one.profile.host.step_overhead_per_rank = apart.profile.host.step_overhead_per_rank = 0;
  // A stage of several replicas is wider, so let every message and group leave its node in both.
  one.cluster.node.gpus = apart.cluster.node.gpus = one.cluster.node.gpus_per_host = apart.cluster.node.gpus_per_host =
      1;
  one.cluster.node.nics = apart.cluster.node.nics = 1;
  CHECK(of(apart).step_time_s == of(one).step_time_s);
  CHECK(of(apart, {.unfold = true}).step_time_s == of(apart).step_time_s);
  for (const TrafficCount& each : count_traffic(forecast(apart).value().graph, 0))
    if (each.traffic == Traffic::control) CHECK(each.ranks == (zero_stage == 0 ? 2 : 8));
}

namespace {

/// Two sites of two nodes, each a replica that shards its states: DiLoCo.
Scenario two_sites(Bandwidth rate, Duration latency) {
  Scenario scenario = averaging(1, 32, 100);
  scenario.training.global_batch_size = 64;
  scenario.parallel.zero_stage = 1;
  scenario.parallel.shard_group = 16;
  scenario.parallel.outer_optimizer = OuterOptimizer::nesterov;
  use_sites(scenario.cluster, {2, rate, latency});
  return scenario;
}

double parameters_of(const Scenario& scenario) { return static_cast<double>(parameter_count(scenario.model).total()); }

}  // namespace

TEST_CASE("DiLoCo: a period sends 2 (R-1)/R of the changes over the long link, at its rate",
          "[requirements][forecast][oracle][sites]") {
  using namespace literals;
  const int bits = GENERATE(32, 16, 8, 4);
  Scenario scenario = two_sites(Bandwidth{1'000'000'000}, 20_ms);
  scenario.parallel.averaging_bits = bits;
  const Averaging a = of(scenario).averaging.value();
  const double bytes = parameters_of(scenario) * bits / 8;
  CHECK(a.replicas == 2);
  CHECK(a.sent_bytes == Approx(bytes / 16).epsilon(1e-4));  // R = 2: S, of which each of 16 ranks has a part
  // All ranks of a site send their parts at once. A ring of two: two rounds, each one latency; 97.5 % of the line rate.
  CHECK(a.transfer_s == Approx(2 * 0.020 + bytes / (0.975 * 1e9)).epsilon(0.02));
  CHECK(a.waited_s == Approx(a.transfer_s).epsilon(0.02));
}

TEST_CASE("DiLoCo: the long link of a site is shared by its GPUs", "[forecast][oracle][sites]") {
  using namespace literals;
  const Forecast f = of(two_sites(Bandwidth{1'000'000'000}, 20_ms));
  const auto wan = std::ranges::find(f.bandwidth, "wan", &AxisBandwidth::link);
  REQUIRE(wan != f.bandwidth.end());
  CHECK(wan->axis == "dp");
  CHECK(wan->sent_bytes == Approx(f.averaging->sent_bytes / 100));  // one GPU, one step of a period
  CHECK(wan->available == Approx(1e9 / 16));                        // 16 GPUs of a site
  // Gradients in every step leave the site once for all of its 16 ranks.
  Scenario together = small_scenario(1, 1, 32);
  use_sites(together.cluster, {2, Bandwidth{1'000'000'000}, 20_ms});
  const ForecastRun run = value_of(forecast(together));
  const double sent = total_of(count_traffic(run.graph, 0), Traffic::gradients, Collective::all_reduce).sent;
  const auto between = std::ranges::find(run.forecast.bandwidth, "wan", &AxisBandwidth::link);
  REQUIRE(between != run.forecast.bandwidth.end());
  CHECK(between->sent_bytes == Approx(sent / 16));
  // Of a pipeline of 128 GPUs over both sites, the 32 of one stage send on the long link.
  Scenario pipeline = small_scenario(1, 4, 32);
  use_sites(pipeline.cluster, {2, Bandwidth{1'000'000'000}, 20_ms});
  const Forecast stages = of(pipeline);
  const auto messages = std::ranges::find_if(
      stages.bandwidth, [](const AxisBandwidth& row) { return row.link == "wan" && row.axis == "pp"; });
  REQUIRE(messages != stages.bandwidth.end());
  CHECK(messages->available == Approx(1e9 / 32));
}

TEST_CASE("DiLoCo: without sites of their own, replicas average over the fabric", "[forecast][sites]") {
  using namespace literals;
  const Averaging slow = of(two_sites(Bandwidth{1'000'000'000}, 20_ms)).averaging.value();
  Scenario near = two_sites(Bandwidth{1'000'000'000}, 20_ms);
  near.cluster = averaging(1, 32, 100).cluster;
  CHECK(of(near).averaging->transfer_s < slow.transfer_s / 10);
  CHECK(of(near).averaging->local_step_s == Approx(slow.local_step_s).epsilon(1e-3));
}

TEST_CASE("Streaming DiLoCo: parts of the model, beside steps", "[requirements][forecast][oracle][sites]") {
  using namespace literals;
  const Scenario whole = two_sites(Bandwidth{4'000'000'000}, 2_ms);
  const Averaging blocking = of(whole).averaging.value();
  Scenario streaming = whole;
  streaming.parallel.averaging_fragments = 4;
  streaming.parallel.averaging_overlap = 5;
  const Forecast f = of(streaming);
  const Averaging a = f.averaging.value();
  CHECK(a.steps == 20);
  CHECK(f.step_time_s == Approx((80 * a.local_step_s + 20 * a.averaging_step_s) / 100).epsilon(1e-12));
  CHECK(a.local_step_s == blocking.local_step_s);
  CHECK(a.sent_bytes == Approx(blocking.sent_bytes).epsilon(1e-4));  // the same bytes, divided otherwise
  // The same bytes, 19 times more latencies: two rounds of 2 ms each.
  CHECK(a.transfer_s == Approx(blocking.transfer_s + 19 * 0.004).epsilon(0.02));
  CHECK(of(streaming, {.unfold = true}).step_time_s == f.step_time_s);

  SECTION("a part that needs less than its steps is hidden") {
    Scenario fast = streaming;
    fast.parallel.averaging_bits = 4;
    const Averaging hidden = of(fast).averaging.value();
    REQUIRE(hidden.transfer_s < 20 * hidden.local_step_s);
    CHECK(hidden.waited_s < 0.01 * hidden.transfer_s);
    CHECK(hidden.averaging_step_s < 1.05 * hidden.local_step_s);
  }
  SECTION("one that needs more delays its steps by what it needs more") {
    Scenario slow = whole;
    use_sites(slow.cluster, {2, Bandwidth{100'000'000}, 2_ms});
    slow.parallel.averaging_overlap = 5;
    Scenario slower = slow;
    use_sites(slower.cluster, {2, Bandwidth{50'000'000}, 2_ms});
    const Averaging first = of(slow).averaging.value();
    const Averaging second = of(slower).averaging.value();
    REQUIRE(first.transfer_s > 5 * first.local_step_s);
    CHECK(5 * (second.averaging_step_s - first.averaging_step_s) ==
          Approx(second.transfer_s - first.transfer_s).epsilon(1e-3));
  }
}

TEST_CASE("DiLoCo: two fp32 copies of what a rank updates, and the part in flight",
          "[requirements][forecast][oracle]") {
  using namespace literals;
  Scenario scenario = two_sites(Bandwidth{1'000'000'000}, 20_ms);
  scenario.parallel.averaging_bits = 8;
  scenario.parallel.averaging_fragments = 4;
  Scenario plain = scenario;
  plain.parallel.outer_optimizer = OuterOptimizer::none;
  plain.parallel.averaging_bits = 0;
  const double own = parameters_of(scenario) / 16;
  const Bytes more = of(scenario).memory.front().optimizer - of(plain).memory.front().optimizer;
  CHECK(static_cast<double>(more.count) == Approx(own * (8 + 1.0 / 4)).epsilon(1e-5));
}

TEST_CASE("parameter averaging: steps of packed documents are mixed as all others",
          "[requirements][forecast][oracle]") {
  Scenario scenario = averaging(1, 4, 10);
  scenario.training.documents = Documents{.law = LengthLaw::lognormal, .mean = 300, .sigma = 1, .steps = 3};
  const auto packed = [&](int period) {
    scenario.parallel.averaging_period = period;
    return of(scenario).packed.value();
  };
  const PackedForecast local = packed(0);
  const PackedForecast every = packed(1);
  const PackedForecast mean = packed(10);
  CHECK(mean.balanced_s == Approx(0.9 * local.balanced_s + 0.1 * every.balanced_s));
  CHECK(mean.p5_s == Approx(0.9 * local.p5_s + 0.1 * every.p5_s));
  CHECK(mean.p95_s == Approx(0.9 * local.p95_s + 0.1 * every.p95_s));
  const Forecast f = of(scenario);
  CHECK(f.packed->useful_tokens_per_s == Approx(f.packed->useful_share * f.tokens_per_s));
}

TEST_CASE("parameter averaging: what it cannot be", "[requirements][forecast][error]") {
  const std::string mode = "parallel.data_parallel=parameter_averaging";
  CHECK(error_of({"parallel.averaging_period=5"})
            .find("parallel.averaging_period = 5: needs parallel.data_parallel = parameter_averaging") !=
        std::string::npos);
  CHECK(error_of({mode, "parallel.zero_stage=1"})
            .find("parallel.zero_stage = 1: divides one copy over all ranks, which leaves nothing to average "
                  "(allowed: 0, or a smaller parallel.shard_group)") != std::string::npos);
  CHECK(error_of({"parallel.outer_optimizer=nesterov"})
            .find("parallel.outer_optimizer = nesterov: needs parallel.data_parallel = parameter_averaging") !=
        std::string::npos);
  CHECK(error_of({mode, "parallel.averaging_bits=4"})
            .find("parallel.averaging_bits = 4: is too few for parameters (allowed: 0 16 32; or "
                  "parallel.outer_optimizer = nesterov, which exchanges changes)") != std::string::npos);
  CHECK(error_of({mode, "parallel.averaging_bits=6"}).find("is unknown (allowed: 0 4 8 16 32)") != std::string::npos);
  CHECK(
      error_of({mode, "parallel.averaging_period=10", "parallel.averaging_fragments=3", "parallel.averaging_overlap=4"})
          .find("parallel.averaging_fragments = 3: parts of 4 steps each do not fit into a period of 10 steps "
                "(parallel.averaging_period)") != std::string::npos);
  CHECK(error_of({mode, "parallel.dp=2", "parallel.cp=2"}).find("needs cp and ep 1") != std::string::npos);
}

TEST_CASE("parameter averaging: the page says period, times and bytes, and claims no loss", "[requirements][report]") {
  const Scenario scenario = averaging(1, 4, 50);
  const ForecastRun run = forecast(scenario).value();
  std::string page;  // without its line breaks
  std::istringstream words(terminal_page(scenario, run.plan, run.forecast, {}));
  for (std::string word; words >> word;) page += word + ' ';
  CHECK(page.find("every 50 steps over 4 replicas:") != std::string::npos);
  CHECK(page.find("are waited for; the loss is not forecast") != std::string::npos);
}

TEST_CASE("a layout whose step is a mean is given up if that mean is longer than allowed", "[forecast][search]") {
  const bool packs = GENERATE(false, true);
  const auto packed = [](const char* packing) {
    return shipped_scenario(
        "llama3-8b-packed",
        {"cluster.world_size=8", "training.seq_length=8192", "training.global_batch_size=16", "parallel.cp=2",
         "parallel.zero_stage=3", "training.recompute=full",
         std::string(R"(training.documents={"law":"lognormal","mean":1500,"steps":3,"packing":)") + packing + "}"});
  };
  const std::vector<Scenario> jobs = packs ? std::vector{packed(R"("best_fit")"), packed(R"("dynamic_cp")")}
                                           : std::vector{averaging(1, 4, 1), averaging(1, 4, 2), averaging(2, 4, 500)};
  for (const Scenario& job : jobs) {
    LayoutForecasts layouts;
    const Forecast whole = value_of(layouts.forecast(job, 0, {})).step;
    const Duration step = from_seconds(whole.step_time_s);
    const LayoutForecast allowed = value_of(layouts.forecast(job, 0, step));
    CHECK_FALSE(allowed.given_up);
    CHECK(allowed.step.step_time_s == whole.step_time_s);
    const Duration less{packs ? step.picoseconds - 1 : step.picoseconds - step.picoseconds / 100'000};
    CHECK(value_of(layouts.forecast(job, 0, less)).given_up);
  }
}
