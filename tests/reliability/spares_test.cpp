#include "sim/reliability/spares.hpp"

#include <cmath>

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("spares: Erlang's loss formula", "[reliability][oracle]") {
  // B(n, a) = (a^n / n!) / sum over k of a^k / k!.
  CHECK(erlang_loss(0, 3) == 1);
  CHECK(erlang_loss(1, 1) == Approx(0.5));
  CHECK(erlang_loss(3, 2) == Approx((8.0 / 6) / (1 + 2 + 2 + 8.0 / 6)));
  CHECK(erlang_loss(4, 0) == 0);
}

TEST_CASE("spares: the cheapest number has a dearer neighbour on each side", "[reliability][oracle]") {
  // 1,000 nodes; each fails once in 100 days and is repaired for one: ten in repair on average.
  FailureModel model;
  const FailureKind kind{.per = RateUnit::node, .law = {LawKind::exponential, 100 * 86400.0, 1}};
  model.kinds = {kind};
  const Machine machine{8000, 8};
  const RecoveryPolicy recovery{.repair = {LawKind::exponential, 86400, 1}};
  CHECK(mean_in_repair(model, machine, recovery) == Approx(10));
  const int spares = cheapest_spares(model, machine, recovery, 100);
  const auto cost = [](int s) { return (1000 + s) / (1 - erlang_loss(s + 1, 10)); };
  CHECK(cost(spares) <= cost(spares - 1));
  CHECK(cost(spares) <= cost(spares + 1));
  CHECK(spares > 10);
  CHECK(spares < 25);
  CHECK(cheapest_spares(model, machine, recovery, 12) == 12);  // more are not allowed
  // They scale with the job: 80 GPUs have 0.1 node in repair.
  CHECK(cheapest_spares(model, {80, 8}, recovery, 100) <= 1);
}
