#include "sim/reliability/closed_forms.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("expected time and goodput of a segment", "[oracle][reliability]") {
  CheckpointRegime llama{.mtbf_s = 11135, .checkpoint_s = 60, .restart_s = 600};
  CHECK(segment_time_s(3600, llama) == Approx(4573.1).epsilon(1e-5));
  CHECK(segment_goodput(3600, llama) == Approx(0.787212).epsilon(1e-6));
  llama.failures_in_restart = false;
  CHECK(segment_goodput(3600, llama) == Approx(0.788316).epsilon(1e-6));

  CHECK(segment_goodput(1800, {.mtbf_s = 11135, .checkpoint_s = 30, .restart_s = 600}) ==
        Approx(0.857519).epsilon(1e-6));
  CHECK(segment_goodput(600, {.mtbf_s = 11135, .checkpoint_s = 5, .restart_s = 300}) == Approx(0.939384).epsilon(1e-6));
  CHECK(segment_goodput(7200, {.mtbf_s = 28800, .checkpoint_s = 300, .restart_s = 1800}) ==
        Approx(0.789501).epsilon(1e-6));
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
