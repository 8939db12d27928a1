#include "sim/reliability/closed_forms.hpp"

#include <cmath>
#include <tuple>

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {
constexpr double kHour = 3600;
constexpr double kDay = 86400;
}  // namespace

TEST_CASE("T-G1: mean time to failure goes down with scale", "[oracle][reliability]") {
  // Llama 3: 419 unexpected interruptions of 16,384 GPUs in 54 days.
  const double per_gpu_s = 16384 * 54 * kDay / 419;
  CHECK(per_gpu_s / kHour == Approx(50677).epsilon(1e-5));
  CHECK(mean_time_to_failure_s(16384, 1 / per_gpu_s) / kHour == Approx(3.093).epsilon(2e-4));
  CHECK(mean_time_to_failure_s(8, 1 / per_gpu_s) / kHour == Approx(6334.6).epsilon(1e-5));
  CHECK(1000 * kDay * 8 / per_gpu_s == Approx(3.789).epsilon(2e-4));
  // RSC-1: 6.50 failures per 1000 node-days of 8 GPUs.
  const double rsc1 = 6.50 / (1000 * kDay);
  CHECK(mean_time_to_failure_s(2048, rsc1) / kHour == Approx(1.80).epsilon(5e-3));
  CHECK(mean_time_to_failure_s(16384, rsc1) / kHour == Approx(0.23).epsilon(3e-2));
}

TEST_CASE("T-G1: other clusters' rates bracket the 419 interruptions of Llama 3", "[oracle][reliability]") {
  const double node_days = 2048 * 54;
  const double gpu_days = 16384 * 54;
  const double rsc1 = node_days * 6.50 / 1000;
  const double rsc2 = node_days * 2.34 / 1000;
  const double acme = gpu_days * 281 / (4704.0 * 180);  // infrastructure failures only
  CHECK(rsc1 == Approx(718.8).epsilon(1e-3));
  CHECK(rsc2 == Approx(258.8).epsilon(1e-3));
  CHECK(acme == Approx(293.6).epsilon(1e-3));
  CHECK(rsc2 < 419);
  CHECK(acme < 419);
  CHECK(419 < rsc1);
}

TEST_CASE("T-G3: expected time and goodput of a segment", "[oracle][reliability]") {
  CheckpointRegime llama{.mtbf_s = 11135, .checkpoint_s = 60, .restart_s = 600};
  CHECK(segment_time_s(3600, llama) == Approx(4573.1).epsilon(1e-5));
  CHECK(segment_goodput(3600, llama) == Approx(0.787212).epsilon(1e-6));
  CHECK(first_order_goodput(3600, llama) == Approx(0.7678).epsilon(1e-4));
  llama.failures_in_restart = false;
  CHECK(segment_goodput(3600, llama) == Approx(0.788316).epsilon(1e-6));

  CHECK(segment_goodput(1800, {.mtbf_s = 11135, .checkpoint_s = 30, .restart_s = 600}) ==
        Approx(0.857519).epsilon(1e-6));
  CHECK(segment_goodput(600, {.mtbf_s = 11135, .checkpoint_s = 5, .restart_s = 300}) == Approx(0.939384).epsilon(1e-6));
  CHECK(segment_goodput(7200, {.mtbf_s = 28800, .checkpoint_s = 300, .restart_s = 1800}) ==
        Approx(0.789501).epsilon(1e-6));
}

TEST_CASE("first-order goodput approaches the exact one when failures are rare", "[oracle][reliability]") {
  const CheckpointRegime rare{.mtbf_s = 1e7, .checkpoint_s = 10, .restart_s = 100};
  CHECK(first_order_goodput(3600, rare) == Approx(segment_goodput(3600, rare)).epsilon(1e-5));
  CHECK(first_order_async_goodput(3600, 500, rare) == Approx(first_order_goodput(3600, rare) - 500 / 1e7));
}

TEST_CASE("T-G4: best interval after Young, Daly and exactly", "[oracle][reliability]") {
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

TEST_CASE("T-G5: probability that the spares run out", "[oracle][reliability]") {
  const double rate = 1 / (6334.6 * kHour);
  const double day = expected_in_repair(2048, rate, 24 * kHour);
  CHECK(day == Approx(7.759).epsilon(1e-4));
  CHECK(shortage_poisson(day, 8) == Approx(0.374).epsilon(2e-3));
  CHECK(shortage_poisson(day, 16) == Approx(2.76e-3).epsilon(2e-3));
  const double four_hours = expected_in_repair(2048, rate, 4 * kHour);
  CHECK(four_hours == Approx(1.293).epsilon(3e-4));
  CHECK(shortage_poisson(four_hours, 4) == Approx(1.04e-2).epsilon(5e-3));
  CHECK(shortage_poisson(four_hours, 8) == Approx(8.8e-6).epsilon(5e-3));
  // The binomial sum by hand: 3 nodes, each down 1/3 of the time; more than one down: 3 (1/9)(2/3) + 1/27.
  CHECK(shortage_binomial(3, 0.5, 1, 1) == Approx(7.0 / 27));
  CHECK(shortage_binomial(3, 0.5, 1, 3) == 0);
  // Many nodes that are rarely down: Poisson.
  CHECK(shortage_binomial(2048, rate, 4 * kHour, 4) == Approx(shortage_poisson(four_hours, 4)).epsilon(1e-2));
}

TEST_CASE("waiting share is Erlang's loss formula", "[oracle][reliability]") {
  // One place: a/(1+a). Three: (a^3/6) / (1 + a + a^2/2 + a^3/6), a = 2: (8/6)/(1+2+2+8/6) = 4/19.
  CHECK(waiting_share(0.25, 0) == Approx(0.2));
  CHECK(waiting_share(2, 2) == Approx(4.0 / 19));
}

TEST_CASE("elastic throughput", "[oracle][reliability]") {
  CHECK(elastic_throughput(128, 0.64, 1e-4, 50) == Approx(1 - 0.005 - 0.005));
}

TEST_CASE("T-G6: expected slowest of n noisy ranks", "[oracle][reliability]") {
  const auto [n, expected] = GENERATE(table<int, double>(
      {{1, 0.0}, {2, 0.5642}, {8, 1.424}, {64, 2.344}, {512, 3.044}, {4096, 3.626}, {16384, 3.971}}));
  CHECK(expected_maximum_of_normals(n) == Approx(expected).margin(6e-4));
}
