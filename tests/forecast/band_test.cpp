// The 90 % band of a forecast: what it is made of.
#include <cmath>

#include <catch2/catch.hpp>

#include "sim/forecast/evidence.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/sensitivities.hpp"
#include "sim/io/files.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;

namespace {

/// One node, tensor parallel, everything recomputed: no pipeline, so that nobody waits.
Scenario scenario() {
  const auto root = source_dir();
  const DataPaths data{root / "scenarios", root / "topologies", root / "kernels/profiles"};
  return read_scenario(root / "scenarios/published/korthikanti-22b-full.json", data).value();
}

/// Nothing is uncertain but the whole run.
Scenario certain() {
  Scenario s = scenario();
  for (auto& [precision, model] : s.profile.gemm) model.fit.residual = 0;
  s.profile.grouped_gemm.fit.residual = 0;
  for (AttentionModel& model : s.profile.attention) model.fit.residual = 0;
  for (auto& [kind, model] : s.profile.memory_bound) model.fit.residual = 0;
  s.profile.in_training.fit.residual = 0;
  s.cluster.tuning.residual = 0;
  s.profile.host = {};
  return s;
}

/// Of whole runs like this one.
double runs() { return kRunBand.half_width(novelty_of(scenario()), 0) / kNinetyPercent; }

Forecast forecast_of(const Scenario& s) { return forecast(s).value().forecast; }
double sigma(const Forecast& f) { return std::log(f.band.p95_s / f.band.p50_s) / kNinetyPercent; }

}  // namespace

TEST_CASE("band: contains the step time, symmetric in ratio, and wider than the spread of runs", "[oracle][band]") {
  const Forecast f = forecast_of(scenario());
  CHECK(f.band.p50_s == f.step_time_s);
  CHECK(f.band.p5_s * f.band.p95_s == Approx(f.band.p50_s * f.band.p50_s));
  CHECK(sigma(f) > runs());
  CHECK(sigma(f) < 0.2);
  CHECK(f.band.p5_s < 1.42);  // what was measured
  CHECK(f.band.p95_s > 1.42);
}

TEST_CASE("band: without spread of kernels and links the spread of whole runs remains", "[oracle][band]") {
  CHECK(sigma(forecast_of(certain())) == Approx(runs()).epsilon(1e-6));
}

TEST_CASE("band: a kind of kernels counts with its share of the step, its errors fully correlated", "[oracle][band]") {
  Scenario s = certain();
  constexpr double kResidual = 0.2;
  for (auto& [precision, model] : s.profile.gemm) model.fit.residual = kResidual;
  s.training.flash_attention = true;  // unfused attention is batched GEMMs, of the same fit but another kind
  const Forecast f = forecast_of(s);
  const double busy = f.step_time_s * (1 - f.bubble_fraction);
  // Mean absolute to standard deviation of a normal distribution: sqrt(pi / 2).
  const double gemm = kKernelsTogether * std::sqrt(std::acos(-1.0) / 2) * kResidual * f.compute_s.at("gemm") / busy;
  CHECK(gemm > 0.05);
  CHECK(sigma(f) == Approx(std::hypot(kRunBand.kernels * gemm, runs())).epsilon(0.01));
}

TEST_CASE("band: links count with their exposed time", "[band]") {
  Scenario wide = certain();
  wide.cluster.tuning.residual = 0.5;
  const Forecast f = forecast_of(wide);
  const double busy = f.step_time_s * (1 - f.bubble_fraction);
  double variance = 0;  // a kind of traffic errs as a whole, and no part of it cancels
  for (const double exposed_s : f.exposed_s) variance += 0.25 * exposed_s * exposed_s / busy / busy;
  CHECK(variance > 1e-4);
  CHECK(sigma(f) == Approx(std::hypot(kRunBand.kernels * std::sqrt(variance), runs())).epsilon(1e-6));
  wide.parallel.tp = 1;  // no exchange at all
  wide.parallel.sequence_parallel = false;
  wide.cluster.world_size = 1;
  CHECK(sigma(forecast_of(wide)) == Approx(runs()).epsilon(1e-6));
}

TEST_CASE("band: time that a rank waits for its pipeline has no error of its own", "[oracle][band]") {
  Scenario s = certain();
  s.parallel.tp = 4;
  s.parallel.pp = 2;
  constexpr double kResidual = 0.2;
  for (auto& [precision, model] : s.profile.gemm) model.fit.residual = kResidual;
  s.training.flash_attention = true;
  const Forecast f = forecast_of(s);
  CHECK(f.bubble_fraction > 0.1);
  const double busy = f.step_time_s * (1 - f.bubble_fraction);
  const double gemm = kKernelsTogether * std::sqrt(std::acos(-1.0) / 2) * kResidual * f.compute_s.at("gemm") / busy;
  CHECK(sigma(f) == Approx(std::hypot(kRunBand.kernels * gemm, runs())).epsilon(1e-3));
}

TEST_CASE("band: the host counts with its share of the step", "[oracle][band]") {
  Scenario s = certain();
  s.profile.host.step_overhead = 0.4;
  const Forecast f = forecast_of(s);
  const double host = kHostSpread * f.host_s / (f.step_time_s * (1 - f.bubble_fraction));
  CHECK(host > 0.03);
  CHECK(sigma(f) == Approx(std::hypot(kRunBand.kernels * host, runs())).epsilon(1e-6));
}

TEST_CASE("band: wider for a GPU architecture and for software of which no run was measured", "[oracle][band]") {
  const RunBand band{.dense = 0.1, .experts = 0.2, .architecture = 0.03, .stack = 0.04, .kernels = 2};
  CHECK(band.half_width({}, 0) == Approx(0.1));
  CHECK(band.half_width({.experts = true}, 0) == Approx(0.2));
  CHECK(band.half_width({.architecture = true, .stack = true}, 0) == Approx(0.17));
  // 2 x 1.6449 x 0.05 = 0.16449 beside 0.1
  CHECK(band.half_width({}, 0.05) == Approx(std::hypot(0.16449, 0.1)));

  Scenario s = scenario();
  s.stack = "megatron-lm";
  const Novelty own = novelty_of(s);
  CHECK_FALSE((own.experts || own.architecture || own.stack));
  const double usual = sigma(forecast_of(s));
  s.stack = "";
  CHECK(novelty_of(s).stack);
  const double unknown = sigma(forecast_of(s));
  CHECK(unknown > usual);
  s.profile.architecture = "Rubin";
  CHECK(novelty_of(s).architecture);
  CHECK(sigma(forecast_of(s)) > unknown);
}

TEST_CASE("evidence: the closest runs are those of the same kind, GPU and software", "[oracle][band]") {
  Scenario s = scenario();
  s.stack = "megatron-lm";
  const std::vector<Likeness> closest = closest_runs(s, 4);
  REQUIRE(closest.size() == 4);
  CHECK(closest[0].run->stack == "megatron-lm");
  CHECK(closest[0].run->gpu == "a100");
  CHECK_FALSE(closest[0].run->experts);
  for (std::size_t i = 1; i < closest.size(); ++i) CHECK(closest[i].distance >= closest[i - 1].distance);
  // The run itself is in the table: 22B on 8 A100, fp16, 2,048 tokens.
  CHECK(closest[0].distance < 0.1);
  CHECK(closest[0].run->ranks == 8);
}
