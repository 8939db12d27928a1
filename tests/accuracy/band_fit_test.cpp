// Widths of bands, fitted to errors of left-out runs.
#include "tools/accuracy/band_fit.hpp"

#include <cmath>

#include <catch2/catch.hpp>

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

/// Errors 1 to 100 times `scale`, of one source.
std::vector<BandSample> even_errors(const std::string& source, double scale, Novelty novelty) {
  std::vector<BandSample> samples;
  for (int i = 1; i <= 100; ++i)
    samples.push_back({.source = source, .error = scale * i, .deviation = 0, .novelty = novelty});
  return samples;
}

}  // namespace

TEST_CASE("band fit: nine of ten errors are inside, for what is known and for what is not", "[oracle][accuracy]") {
  // The 90 % quantiles of 1 to 100 % of 0.1, 0.15 and 0.3 are 0.09, 0.135 and 0.27.
  std::vector<BandSample> samples = even_errors("a", 0.001, {});
  for (BandSample& sample : even_errors("b", 0.0015, {.stack = true})) samples.push_back(sample);
  for (BandSample& sample : even_errors("c", 0.003, {.experts = true})) samples.push_back(sample);
  const RunBand band = fit_run_band(samples);
  CHECK(band.dense == Approx(0.09).margin(0.003));
  CHECK(band.dense + band.stack == Approx(0.135).margin(0.005));
  CHECK(band.experts == Approx(0.27).margin(0.008));
}

TEST_CASE("band fit: each architecture that was left out counts the same, however many runs it has",
          "[oracle][accuracy]") {
  std::vector<BandSample> samples = even_errors("a", 0.0005, {});
  for (int source = 0; source < 20; ++source)
    for (BandSample& sample : even_errors("many " + std::to_string(source), 0.001, {.architecture = true})) {
      sample.architecture = "Ampere";
      samples.push_back(sample);
    }
  for (BandSample& sample : even_errors("few", 0.003, {.architecture = true})) {
    sample.architecture = "CDNA3";
    samples.push_back(sample);
  }
  // 0.24 has all of Ampere's errors below it and 80 % of CDNA3's: nine of ten. Of all runs 91 % are below 0.095.
  const RunBand band = fit_run_band(samples);
  CHECK(band.dense + band.architecture == Approx(0.24).margin(0.01));
}

TEST_CASE("band fit: a part of the runs that has not this GPU or software makes it new", "[accuracy]") {
  RowForecast row;
  row.architecture = "Hopper";
  row.stack = "nemo";
  KnownRuns known;
  CHECK(known.novelty_of(row).architecture);
  CHECK(known.novelty_of(row).stack);
  known.add(row);
  CHECK_FALSE(known.novelty_of(row).architecture);
  CHECK_FALSE(known.novelty_of(row).stack);
  row.moe = true;  // dense runs say nothing about runs with experts
  CHECK(known.novelty_of(row).architecture);
}

TEST_CASE("band fit: where runs with experts have few sources, dense runs without factors stand in", "[accuracy]") {
  std::vector<RowForecast> uncalibrated(100);
  for (std::size_t i = 0; i < uncalibrated.size(); ++i) {
    uncalibrated[i].source = "dense " + std::to_string(i % 20);
    uncalibrated[i].measured_s = 1;
    uncalibrated[i].predicted_s = std::exp(-0.003 * static_cast<double>(i + 1));
  }
  // One run, forecast to 1 %, says little about the next ones.
  std::vector<BandSample> samples = even_errors("a", 0.001, {});
  samples.push_back({.source = "b", .error = 0.01, .deviation = 0, .novelty = {.experts = true}});
  const RunBand narrow = fit_run_band(samples);
  CHECK(narrow.experts == Approx(0.01).margin(0.005));
  for (const BandSample& sample : stand_ins_for_experts(samples, uncalibrated)) samples.push_back(sample);
  const RunBand wide = fit_run_band(samples);
  CHECK(wide.experts == Approx(0.27).margin(0.02));
  CHECK(wide.dense == Approx(narrow.dense).margin(1e-3));
  // Ten sources are enough.
  for (int source = 0; source < 10; ++source)
    for (const BandSample& sample : even_errors(std::to_string(source), 0.001, {.experts = true}))
      samples.push_back(sample);
  CHECK(stand_ins_for_experts(samples, uncalibrated).empty());
}

TEST_CASE("band fit: where few architectures were left out, their runs without factors stand in for more",
          "[accuracy]") {
  std::vector<RowForecast> uncalibrated(100);
  for (std::size_t i = 0; i < uncalibrated.size(); ++i) {
    uncalibrated[i].source = "s";
    uncalibrated[i].architecture = i % 2 == 0 ? "Ampere" : "Hopper";
    uncalibrated[i].measured_s = 1;
    uncalibrated[i].predicted_s = std::exp(-0.003 * static_cast<double>(i + 1));
  }
  std::vector<BandSample> samples = even_errors("a", 0.001, {});
  const auto leave_out = [&](const std::string& architecture) {
    for (BandSample& sample : even_errors("a", 0.001, {.architecture = true})) {
      sample.architecture = architecture;
      samples.push_back(sample);
    }
  };
  leave_out("Ampere");
  leave_out("Hopper");
  CHECK(fit_run_band(samples).architecture < 0.005);
  // Two of ten architectures have all their errors below 0.1, and eight those of runs without factors, seven eighths of them below 0.26.
  const RunBand wide = fit_run_band(samples, stand_ins_for_architectures(samples, uncalibrated));
  CHECK(wide.dense + wide.architecture == Approx(0.2625).margin(0.01));
  CHECK(wide.dense == fit_run_band(samples).dense);
  for (int other = 0; other < 8; ++other) leave_out(std::to_string(other));
  CHECK(stand_ins_for_architectures(samples, uncalibrated).empty());
}

TEST_CASE("band fit: deviations of kernels count as far as errors do not contradict them", "[accuracy]") {
  const auto share = [](double small, double large, double deviation) {
    std::vector<BandSample> samples;
    for (int source = 0; source < 20; ++source)
      for (int i = 1; i <= 50; ++i) {
        samples.push_back({.source = std::to_string(source), .error = small * i / 50, .deviation = 0.01});
        samples.push_back({.source = std::to_string(source), .error = large * i / 50, .deviation = deviation});
      }
    return fit_run_band(samples).kernels;
  };
  // Runs whose kernels are as uncertain as others determine nothing; those with 12 % are no worse, or worse.
  CHECK(share(0.1, 0.1, 0.01) == 1);
  CHECK(share(0.1, 0.1, 0.12) <= 0.2);
  CHECK(share(0.05, 0.22, 0.12) >= 0.8);
}
