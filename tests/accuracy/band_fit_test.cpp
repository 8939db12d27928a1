// Widths of bands, fitted to errors of left-out runs.
#include "tools/accuracy/band_fit.hpp"

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
