#include "sim/reliability/closed_forms.hpp"

#include <cmath>

#include <catch2/catch.hpp>

using namespace tracecast;

// A segment takes x = work + checkpoint without failures, which come at times t with density e^(-t/M)/M. One at t < x costs t and a
// restart, then the segment begins again:
//   E = e^(-x/M) x + integral from 0 to x of (t + restart + E) e^(-t/M)/M dt  =>  E = (M + restart) (e^(x/M) - 1)
// A restart of R seconds is itself such a segment without a restart: M (e^(R/M) - 1) in place of R if failures interrupt it, which
// makes Daly's E = M e^(R/M) (e^(x/M) - 1). Here the integral is a sum.
TEST_CASE("expected time and goodput of a segment", "[oracle][reliability]") {
  const auto [work, mtbf, checkpoint, restart] = GENERATE(table<double, double, double, double>(
      {{3600, 11135, 60, 600}, {1800, 11135, 30, 600}, {600, 11135, 5, 300}, {7200, 28800, 300, 1800}}));
  const bool in_restart = GENERATE(true, false);
  const auto expected = [mtbf = mtbf](double length, double cost) {
    constexpr int kParts = 100'000;
    double lost = 0;  // of one attempt, failed ones only
    double failed = 0;
    for (int i = 0; i < kParts; ++i) {
      const double t = (i + 0.5) * length / kParts;
      const double chance = std::exp(-t / mtbf) / mtbf * length / kParts;
      failed += chance;
      lost += (t + cost) * chance;
    }
    return length + lost / (1 - failed);
  };
  const double restart_time = in_restart ? expected(restart, 0) : restart;
  const double time = expected(work + checkpoint, restart_time);
  const CheckpointRegime regime{mtbf, checkpoint, restart, in_restart};
  CHECK(segment_time_s(work, regime) == Approx(time).epsilon(1e-6));
  CHECK(segment_goodput(work, regime) == Approx(work / time).epsilon(1e-6));
}

TEST_CASE("the best interval: Young, Daly and exact", "[oracle][reliability]") {
  const auto [delta, mu, young, daly, exact] =
      GENERATE(table<double, double, double, double, double>({{60, 11135, 1155.9, 1116.3, 1116.3},
                                                              {30, 11135, 817.4, 797.5, 797.5},
                                                              {300, 28800, 4156.9, 3959.3, 3959.4},
                                                              {600, 3600, 2078.5, 1697.7, 1699.2},
                                                              {5, 11135, 333.7, 330.4, 330.4}}));
  CHECK(young_interval_s(delta, mu) == Approx(young).margin(0.05));
  CHECK(daly_interval_s(delta, mu) == Approx(daly).margin(0.05));
  CHECK(optimal_interval_s(delta, mu) == Approx(exact).margin(0.05));

  // It is the minimum: longer and shorter intervals take more time per second of work, with either restart.
  const bool in_restart = GENERATE(true, false);
  const CheckpointRegime regime{mu, delta, 600, in_restart};
  const double best = segment_goodput(optimal_interval_s(delta, mu), regime);
  CHECK(best > segment_goodput(1.02 * optimal_interval_s(delta, mu), regime));
  CHECK(best > segment_goodput(0.98 * optimal_interval_s(delta, mu), regime));
}

TEST_CASE("Daly's interval is the mean time between failures when checkpoints take longer than two of them",
          "[oracle][reliability]") {
  CHECK(daly_interval_s(200, 100) == 100);
  CHECK(daly_interval_s(199, 100) < 100.5);
}
