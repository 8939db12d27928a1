/// Runs that were slowed in simulation, with noise on what is measured: is the cause found first?
#include "sim/forecast/diagnosis.hpp"

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::small_scenario;

namespace {

struct NamedPerturbation {
  std::string name;
  void (*apply)(Scenario&, double);
  std::vector<double> sizes;
};

const std::vector<NamedPerturbation> kPerturbations{
    {"slow_rank",
     [](Scenario& s, double x) {
       s.perturbation.slow_ranks.push_back({{5, 5}, x});
     },
     {1.15, 1.4}},
    {"lower_clock", [](Scenario& s, double x) { s.profile.clock = x; }, {0.85, 0.7}},
    {"slow_network",
     [](Scenario& s, double x) {
       s.cluster.node.nic_rate.bytes_per_second =
           std::llround(static_cast<double>(s.cluster.node.nic_rate.bytes_per_second) * x);
     },
     {0.5, 0.25}},
    {"slow_nic",
     [](Scenario& s, double x) {
       s.cluster.faults.slow_nics.push_back({1, 3, x});
     },
     {0.2}},
    {"no_overlap", [](Scenario& s, double) { s.profile.overlap = false; }, {1}},
    {"recompute_full", [](Scenario& s, double) { s.training.recompute = Recompute::full; }, {1}},
    {"slow_host", [](Scenario& s, double x) { s.profile.host.launch *= x; }, {3, 6}},
    {"late_data", [](Scenario& s, double x) { s.profile.host.step_overhead += x; }, {0.1, 0.3}},
    {"routing",
     [](Scenario& s, double x) {
       if (s.model.moe) s.training.expert_imbalance = x;
     },
     {1.5, 2}},
};

/// A pipeline, FSDP, and experts; large enough for computation.
std::vector<Scenario> healthy_runs() {
  std::vector<Scenario> runs{small_scenario(2, 2, 4), small_scenario(1, 1, 16), small_scenario(1, 1, 16)};
  for (Scenario& s : runs) {
    s.model.hidden_size = 4096;
    s.model.num_attention_heads = 32;
    s.model.head_dim = 128;
    s.model.ffn_hidden_size = 14336;
    s.training.seq_length = 4096;
  }
  runs[0].parallel.zero_stage = 1;
  runs[1].parallel.zero_stage = 3;
  runs[1].training.global_batch_size = 32;
  runs[2].parallel.zero_stage = 1;
  runs[2].parallel.ep = 8;
  runs[2].training.global_batch_size = 64;
  runs[2].model.moe = MixtureOfExperts{.experts = 64, .topk = 4, .ffn_hidden = 2048};
  return runs;
}

/// `every_rank`: as a run is recorded, not one for each class.
ForecastRun with_spans(const Scenario& scenario, bool every_rank = false) {
  const ForecastOptions options{.unfold = every_rank, .record_spans = true};
  return test::run(scenario, options);
}

/// Every part of every rank is measured with an error of 1 %.
StepEvidence measured(const Scenario& scenario, std::uint64_t seed) {
  const ForecastRun run = with_spans(scenario, true);
  StepEvidence evidence;
  evidence.record = record_of(run.graph, run.timeline, scenario.name, StepOrigin::executed);
  RandomStream random(seed, 0, 0);
  const auto noisy = [&](Duration& time) {
    time.picoseconds = std::llround(static_cast<double>(time.picoseconds) * (1 + 0.01 * random.normal()));
  };
  Duration step = run.timeline.step_time;
  noisy(step);
  evidence.step_s = seconds(step);
  for (StepRank& rank : evidence.record->ranks) {
    for (Duration* const part : {&rank.time.compute, &rank.time.bubble, &rank.time.host, &rank.time.optimizer})
      noisy(*part);
    for (Duration& part : rank.time.exposed) noisy(part);
  }
  return evidence;
}

/// A ring over whole nodes is as slow as its slowest NIC, so a step may not tell one slow NIC from all: either is right if the other
/// is indistinguishable.
bool finds(const Diagnosis& diagnosis, const std::string& name) {
  const std::string& first = diagnosis.causes.front().name;
  const auto of_nics = [](const std::string& each) { return each == "slow_nic" || each == "slow_network"; };
  if (!of_nics(first) || !of_nics(name)) return first == name;
  const auto end = diagnosis.causes.begin() + diagnosis.indistinguishable;
  return std::any_of(diagnosis.causes.begin(), end, [&](const DiagnosedCause& cause) { return cause.name == name; });
}

}  // namespace

TEST_CASE("diagnosis: nine of ten causes are found first where ranks were measured", "[oracle][forecast][diagnosis]") {
  test::EverySeventh selection;
  int cases = 0;
  int found = 0;
  for (const Scenario& healthy : healthy_runs()) {
    const double healthy_s = with_spans(healthy).forecast.step_time_s;
    for (const NamedPerturbation& perturbation : kPerturbations)
      for (const double size : perturbation.sizes) {
        if (selection.leaves_out()) continue;
        Scenario slow = healthy;
        perturbation.apply(slow, size);
        const StepEvidence evidence = measured(slow, static_cast<std::uint64_t>(cases));
        if (evidence.step_s < 1.05 * healthy_s) continue;  // within the noise and the model's own error
        const Result<Diagnosis> result = diagnose(healthy, evidence, {});
        REQUIRE(result.has_value());
        ++cases;
        INFO(perturbation.name << " of " << size << ": " << result->causes.front().what);
        const bool right = finds(*result, perturbation.name);
        found += right ? 1 : 0;
        CHECK_NOFAIL(right);
      }
  }
  CHECK(cases >= test::cases(15));
  CHECK(10 * found >= 9 * cases);
}

TEST_CASE("diagnosis: the size and the rank of a slow GPU", "[forecast][diagnosis]") {
  const Scenario healthy = healthy_runs().front();
  Scenario slow = healthy;
  slow.perturbation.slow_ranks.push_back({{6, 6}, 1.25});
  const Diagnosis d = diagnose(healthy, measured(slow, 7), {}).value();
  CHECK(d.causes.front().name == "slow_rank");
  CHECK(d.causes.front().what.starts_with("rank 6 computes 1.2"));
  CHECK(d.causes.front().size == Approx(0.25).epsilon(0.2));
  CHECK(d.causes.front().likelihood > 0.9);
  CHECK(d.indistinguishable == 1);
}

TEST_CASE("diagnosis: every fitted cause takes the measured time, and likelihoods sum to one",
          "[property][forecast][diagnosis]") {
  const Scenario healthy = healthy_runs().front();
  StepEvidence evidence;
  evidence.step_s = 1.2 * with_spans(healthy).forecast.step_time_s;
  const Diagnosis d = diagnose(healthy, evidence, {}).value();
  double sum = 0;
  for (const DiagnosedCause& cause : d.causes) {
    sum += cause.likelihood;
    if (cause.name == "slow_rank" || cause.name == "slow_host" || cause.name == "lower_clock")
      CHECK(cause.step_s == Approx(evidence.step_s).epsilon(1e-3));
  }
  CHECK(sum == Approx(1));
  CHECK(d.ranks_known == 0);
  CHECK(d.indistinguishable > 1);  // the step time alone says little
}

TEST_CASE("diagnosis: a run that is as fast as its forecast has no cause", "[forecast][diagnosis]") {
  const Scenario healthy = healthy_runs().front();
  const ForecastRun run = with_spans(healthy);
  StepEvidence evidence;
  evidence.step_s = run.forecast.step_time_s;
  const Diagnosis d = diagnose(healthy, evidence, {}).value();
  REQUIRE(d.causes.size() == 1);
  CHECK(d.causes.front().name == "forecast");
}

TEST_CASE("diagnosis: a run with a scale for each row may have fallen back to 16 bits", "[forecast][diagnosis]") {
  const std::string layers = "model.num_layers=8";
  const Scenario scaled =
      shipped_scenario("p5-llama3-70b-64", {layers, "training.dtype=fp8", "training.row_scales=true"});
  StepEvidence evidence;
  evidence.step_s = forecast(shipped_scenario("p5-llama3-70b-64", {layers}), {}).value().forecast.step_time_s;
  const Diagnosis d = diagnose(scaled, evidence, {}).value();
  CHECK(std::ranges::count(d.causes, "no_narrow_precision", &DiagnosedCause::name) == 1);
}

TEST_CASE("diagnosis: a cause that takes a part of the measured time does not explain it", "[forecast][diagnosis]") {
  const Scenario healthy = healthy_runs().front();
  StepEvidence evidence;
  evidence.step_s = 2 * with_spans(healthy).forecast.step_time_s;
  const Diagnosis d = diagnose(healthy, evidence, {}).value();
  const auto explains = [&](const char* name) {
    INFO(name);
    const auto cause = std::ranges::find(d.causes, name, &DiagnosedCause::name);
    REQUIRE(cause != d.causes.end());
    return cause->explains;
  };
  for (const char* part : {"recompute_full", "recompute_selective"}) CHECK_FALSE(explains(part));
  for (const char* whole : {"slow_rank", "late_data"}) CHECK(explains(whole));
}

TEST_CASE("diagnosis: of a recording of one stage of a pipeline that rank is compared", "[forecast][diagnosis]") {
  const Scenario healthy = healthy_runs().front();
  Scenario slow = healthy;
  slow.perturbation.slow_ranks.push_back({{0, 0}, 1.5});
  StepEvidence evidence = measured(slow, 3);
  evidence.record->ranks.resize(1);
  std::erase_if(evidence.record->spans, [](const StepSpan& span) { return span.rank > 0; });
  CHECK_FALSE(diagnose(healthy, evidence, {}));  // another layout
  evidence.some_ranks = true;
  CHECK(diagnose(healthy, evidence, {}).value().causes.front().name == "slow_rank");
}

TEST_CASE("diagnosis: routing may be more uneven than the scenario's law", "[forecast][diagnosis][moe]") {
  Scenario healthy = healthy_runs().back();
  healthy.training.expert_routing = ExpertRouting::skewed;
  healthy.training.expert_skew = 0.5;
  StepEvidence evidence;
  // The step jumps where the fullest expert needs one more tile (at 1.1 by 0.6 %): there no size takes the time asked for.
  evidence.step_s = 1.106 * with_spans(healthy).forecast.step_time_s;
  const Diagnosis d = diagnose(healthy, evidence, {}).value();
  const auto routing = std::ranges::find(d.causes, "routing", &DiagnosedCause::name);
  REQUIRE(routing != d.causes.end());
  CHECK(routing->step_s == Approx(evidence.step_s).epsilon(1e-3));
  CHECK(routing->size > 0);
}

TEST_CASE("diagnosis: a cause of one rank names the stage that it is simulated on", "[forecast][diagnosis]") {
  const Scenario healthy = healthy_runs().front();
  const double healthy_s = with_spans(healthy).forecast.step_time_s;
  const Result<Diagnosis> result = diagnose(healthy, {.step_s = 1.2 * healthy_s}, {});
  REQUIRE(result.has_value());
  const auto slow = std::ranges::find(result->causes, "slow_rank", &DiagnosedCause::name);
  REQUIRE(slow != result->causes.end());
  CHECK(slow->what.starts_with("one rank of pipeline stage 1 (of 0 to 1) computes "));
}

TEST_CASE("diagnosis: attention by FlashAttention 2 in place of another kernel", "[forecast][diagnosis]") {
  const Scenario healthy = shipped_scenario("llama3-405b-1024");
  Scenario slow = healthy;
  slow.training.attention_kernel = "fa2";
  const Result<Diagnosis> result = diagnose(healthy, measured(slow, 1), {});
  REQUIRE(result.has_value());
  CHECK(result->causes.front().name == "attention_kernel");
  const Result<Diagnosis> own = diagnose(slow, {.step_s = 2 * result->measured_s}, {});
  REQUIRE(own.has_value());
  CHECK(std::ranges::find(own->causes, "attention_kernel", &DiagnosedCause::name) == own->causes.end());
}

TEST_CASE("diagnosis: milliseconds for seconds are refused", "[forecast][diagnosis][error]") {
  const Scenario healthy = healthy_runs().front();
  const double healthy_s = with_spans(healthy).forecast.step_time_s;
  CHECK(diagnose(healthy, {.step_s = 30 * healthy_s}, {}).has_value());
  const Result<Diagnosis> result = diagnose(healthy, {.step_s = 1000 * healthy_s}, {});
  REQUIRE_FALSE(result.has_value());
  CHECK(to_string(result.error()).find("1000 times the forecast of ") != std::string::npos);
  CHECK(to_string(result.error()).ends_with("(allowed: 1/4 to 100 times; is it in seconds?)"));
}
