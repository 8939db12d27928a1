/// What a slow GPU, a halved rail and a lost spine do to the step of a published run: docs/folding.md explains each.
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"
#include "sim/report/settings_text.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
namespace {

Forecast forecast_of(const std::vector<std::string>& settings, bool effects = false,
                     NetworkKind network = NetworkKind::isolated) {
  return forecast(shipped_scenario("llama3-405b-16k", settings), {.perturbation_effects = effects, .network = network})
      .value()
      .forecast;
}

double step(const std::vector<std::string>& settings) { return forecast_of(settings).step_time_s; }

}  // namespace

TEST_CASE("perturb: a slow GPU slows the step by the work of its pipeline, for any rank", "[perturb]") {
  const Forecast healthy = forecast_of({});
  const Forecast slow = forecast_of({"perturb.slow_rank.2085=1.3"});
  // Its stage of the pipeline computes 1.3 times as long, and 1F1B lets everybody wait for the slowest stage; what was
  // its bubble and its exposed communication does not grow with it.
  double compute = healthy.optimizer_s;
  for (const auto& [kind, seconds] : healthy.compute_s) compute += seconds;
  const double growth = slow.step_time_s - healthy.step_time_s;
  CHECK(growth < 0.3 * compute * 1.05);
  CHECK(growth > 0.3 * compute * 0.5);
  CHECK(slow.bubble_fraction * slow.step_time_s > healthy.bubble_fraction * healthy.step_time_s);
  CHECK(slow.classes == 4 * healthy.classes);
  // Ten slow GPUs of one stage cost no more than one: they are slow at the same time.
  CHECK(step({"perturb.slow_rank.2080-2089=1.3"}) == Approx(slow.step_time_s).epsilon(0.002));
}

TEST_CASE("perturb: a halved NIC costs the additional exposed time of its ring; all rails cost the same", "[perturb]") {
  const double healthy = step({});
  const double nic = step({"perturb.slow_nic.0.3=0.5"});
  const double rail = step({"perturb.lost_rails=[3]"});
  CHECK(nic > healthy * 1.001);
  CHECK(rail >= nic);  // the rings of two rails run at half speed in every stage
  CHECK(rail < healthy * 1.5);
}

TEST_CASE("perturb: lost spines slow only the traffic that crosses them", "[perturb]") {
  const double healthy = step({});
  // Data-parallel groups lie inside pods of 3,072; only messages between stages cross the 7:1 tier.
  const double pod = step({"perturb.lost_uplinks.pod=0.25"});
  CHECK(pod > healthy);
  CHECK(pod < healthy * 1.05);
  CHECK(step({"perturb.lost_uplinks.pod=0.5"}) > pod);
}

TEST_CASE("perturb: the report names every part with the step without it", "[perturb]") {
  const Forecast both = forecast_of({"perturb.slow_rank.37=1.3", "perturb.lost_rails=[3]"}, true);
  REQUIRE(both.perturbations.size() == 2);
  CHECK(both.undisturbed_step_s == step({}));
  CHECK(both.perturbations[0].what == "rank 37 computes 1.3 times as long");
  CHECK(both.perturbations[0].step_without_s == step({"perturb.lost_rails=[3]"}));
  CHECK(both.perturbations[1].what == "rail 3 is gone");
  CHECK(both.perturbations[1].step_without_s == step({"perturb.slow_rank.37=1.3"}));
}

TEST_CASE("perturb: the report says within how many percent the speeds of ranks lie", "[perturb]") {
  const Scenario spread = shipped_scenario("data-parallel-gpt2", {"perturb.speed_spread=0.02"});
  const ForecastRun run = forecast(spread, {.perturbation_effects = true}).value();
  REQUIRE(run.forecast.perturbations.size() == 1);
  CHECK(run.forecast.perturbations[0].what == "every rank has a speed of its own, within 2 %");
}

TEST_CASE("perturb: of many parts the report names the largest alone and the others together", "[perturb]") {
  const auto slow = [](int rank) { return fmt::format("perturb.slow_rank.{}={}", rank, 1.1 + 0.001 * rank); };
  std::vector<std::string> all;
  for (const int rank : {0, 100, 5, 200, 300}) all.push_back(slow(rank));
  all.emplace_back("perturb.slow_nic.0.3=0.95");  // the smallest: its traffic takes 1.05 times as long
  all.emplace_back("perturb.lost_rails=[3]");     // nothing is larger than what is lost
  const Forecast forecast = forecast_of(all, true);
  REQUIRE(forecast.perturbations.size() == 5);
  CHECK(forecast.perturbations[0].what == "rank 100 computes 1.2 times as long");
  CHECK(forecast.perturbations[1].what == "rank 200 computes 1.3 times as long");
  CHECK(forecast.perturbations[2].what == "rank 300 computes 1.4 times as long");
  CHECK(forecast.perturbations[3].what == "rail 3 is gone");
  CHECK(forecast.perturbations[4].what == "3 more, not larger than these");
  CHECK(forecast.perturbations[4].step_without_s == step({slow(100), slow(200), slow(300), "perturb.lost_rails=[3]"}));
  CHECK(forecast.perturbations[2].step_alone_s == step({slow(300)}));
  CHECK(forecast.perturbations[3].step_alone_s == step({"perturb.lost_rails=[3]"}));
  CHECK_FALSE(forecast.perturbations[3].step_without_s.has_value());
}

TEST_CASE("perturb: of many slow ranks the tensor groups are slow, at nearly the same step", "[perturb][many]") {
  std::vector<std::string> slow;
  for (int i = 0; i < 32; ++i) slow.push_back(fmt::format("perturb.slow_rank.{}={}", 509 * i + 5, 1.1 + 0.003 * i));
  const Forecast exact = forecast_of(slow);
  slow.emplace_back("perturb.slow_rank.3=1");  // one entry more, which slows nothing
  const Forecast grouped = forecast_of(slow);
  CHECK(exact.classes > 7 * grouped.classes);
  CHECK(grouped.step_time_s == Approx(exact.step_time_s).epsilon(4e-5));
  const Scenario scenario = shipped_scenario("llama3-405b-16k", slow);
  CHECK_THAT(note_texts(scenario, grouped).back(),
             Catch::StartsWith("33 entries of perturb.slow_rank: each tensor group"));
}

TEST_CASE("perturb: many slow ranks folded and unfolded agree in all figures", "[perturb][many]") {
  std::vector<std::string> settings{"cluster.world_size=512", "parallel.dp=4", "training.global_batch_size=64"};
  for (int i = 0; i < 40; ++i)
    settings.push_back(fmt::format("perturb.slow_rank.{}={}", 37 * i % 256, 1.1 + 0.003 * (i % 2)));
  const Scenario scenario = shipped_scenario("llama3-405b-16k", settings);
  const auto run = [&](bool unfold) { return forecast(scenario, {.unfold = unfold}).value().forecast; };
  const Forecast folded = run(false);
  const Forecast unfolded = run(true);
  CHECK(folded.classes < unfolded.classes);
  CHECK(folded.step_time_s == unfolded.step_time_s);
  CHECK(folded.compute_s == unfolded.compute_s);
  CHECK(folded.exposed_s == unfolded.exposed_s);
  CHECK(folded.bubble_fraction == unfolded.bubble_fraction);
}

TEST_CASE("perturb: on the largest machines many parts are only undone together", "[perturb][many]") {
  const auto parts_at = [](int gpus) {
    std::vector<std::string> settings{"cluster.topology=dgx-h100", fmt::format("cluster.world_size={}", gpus),
                                      fmt::format("parallel.dp={}", gpus / 128),
                                      fmt::format("training.global_batch_size={}", gpus / 8)};
    settings.emplace_back("perturb.lost_rails=[0, 1, 2, 3, 4]");
    return forecast_of(settings, true);
  };
  CHECK(parts_at(262'144).perturbations.size() == 5);
  const Forecast largest = parts_at(524'288);
  REQUIRE(largest.perturbations.size() == 1);
  CHECK(largest.perturbations[0].what == "5 perturbations together (each alone: of at most 262144 ranks)");
  CHECK(largest.perturbations[0].step_without_s == largest.undisturbed_step_s);
}

TEST_CASE("perturb: with shared links the step without a perturbation has shared links too", "[perturb]") {
  const Forecast slow = forecast_of({"perturb.slow_nic.0.3=0.5"}, true, NetworkKind::fluid);
  REQUIRE(slow.perturbations.size() == 1);
  CHECK(slow.undisturbed_step_s == forecast_of({}, false, NetworkKind::fluid).step_time_s);
  CHECK(slow.undisturbed_step_s > step({}));
}

TEST_CASE("perturb: a spread of speeds over a million ranks is refused before it takes memory",
          "[perturb][many][error]") {
  const Scenario scenario = shipped_scenario(
      "llama3-405b-16k", {"cluster.topology=dgx-h100", "cluster.world_size=1048576", "parallel.dp=8192",
                          "training.global_batch_size=131072", "perturb.speed_spread=0.02"});
  CHECK(to_string(forecast(scenario).error())
            .find("perturb.speed_spread = 0.02: leaves no two of 1048576 ranks alike, and each takes "
                  "32 KB (allowed: on at most 262144 ranks)") != std::string::npos);
}
