#include "sim/reliability/spares.hpp"

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "sim/reliability/goodput.hpp"
#include "tests/reliability/job_fixtures.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

/// (a^n / n!) / sum over k of a^k / k!, by recursion over the servers.
double erlang_loss(int servers, double load) {
  double loss = 1;
  for (int n = 1; n <= servers; ++n) loss = load * loss / (n + load * loss);
  return loss;
}

/// A failure of this scope whose groups are down `in_repair` at a time on average, each node for a day.
FailureKind node_failures(const Machine& machine, int group, double in_repair) {
  FailureKind kind = every(machine.nodes() / (group * in_repair) * 86'400.0);
  kind.per = kind.scope = group > 1 ? RateUnit::rack : RateUnit::node;
  return kind;
}

const RecoveryPolicy kDayOfRepair{.repair = {LawKind::exponential, 86'400, 1}};

}  // namespace

TEST_CASE("spares: if nodes fail alone, the wait is Erlang's loss formula", "[reliability][oracle]") {
  const double load = GENERATE(0.5, 3.0, 900.0);
  const Machine machine{80'000, 8};
  FailureModel model;
  model.kinds = {node_failures(machine, 1, load)};
  for (const int spares : {0, 1, 5, 30}) {
    CAPTURE(load, spares);
    CHECK(waiting_share(model, machine, kDayOfRepair, spares) == Approx(erlang_loss(spares + 1, load)));
  }
}

TEST_CASE("spares: racks that fail as one need more of them, as simulated histories do", "[reliability][oracle]") {
  const Machine machine{8 * 72, 8};
  FailureModel model;
  model.nodes_per_rack = 18;
  model.kinds = {node_failures(machine, 1, 1.0), node_failures(machine, 18, 0.05)};
  // By hand, no spares and racks alone: P(k) is the same for the 18 numbers that a rack leaves, times 18/k: P(k) = a/k P(0).
  FailureModel racks = model;
  racks.kinds.erase(racks.kinds.begin());
  double waiting = 0;
  for (int k = 1; k <= 18; ++k) waiting += 0.05 / k;
  CHECK(waiting_share(racks, machine, kDayOfRepair, 0) == Approx(waiting / (1 + waiting)));

  JobSpec spec = quiet_job(72);
  spec.failures = model;
  spec.recovery = kDayOfRepair;
  spec.recovery.failures_in_restart = false;
  spec.horizon = s(300 * 86'400.0);
  GoodputOptions options{.min_histories = 400, .max_histories = 400, .threads = 2};
  for (const int spares : {4, 12}) {
    spec.recovery.spares = spares;
    const Goodput goodput = simulate_goodput(spec, one_second_steps(72), options).value();
    CAPTURE(spares);
    CHECK(goodput.share[static_cast<std::size_t>(TimeCategory::waiting)] ==
          Approx(waiting_share(model, machine, kDayOfRepair, spares)).epsilon(0.05));
  }
  // 16 racks, of which one fails in 25 days: some of its nodes are worth a spare, if the others are in repair alone or not.
  const Machine large{8 * 288, 8};
  model.kinds = {node_failures(large, 1, 0.7), node_failures(large, 18, 0.04)};
  FailureModel alone;
  alone.kinds = {node_failures(large, 1, 0.7 + 18 * 0.04)};
  CHECK(mean_in_repair(alone, large, kDayOfRepair) == Approx(mean_in_repair(model, large, kDayOfRepair)));
  const auto paid = [&](int spares) { return large.nodes() + spares; };
  CHECK(cheapest_spares(alone, large, kDayOfRepair, 100, paid) < 6);
  CHECK(cheapest_spares(model, large, kDayOfRepair, 100, paid) > 9);
}

TEST_CASE("spares: the cheapest number has a dearer neighbour on each side", "[reliability][oracle]") {
  // 1,000 nodes; each fails once in 100 days and is repaired for one: ten in repair on average.
  FailureModel model;
  const FailureKind kind{.per = RateUnit::node, .law = {LawKind::exponential, 100 * 86400.0, 1}};
  model.kinds = {kind};
  const Machine machine{8000, 8};
  const RecoveryPolicy recovery{.repair = {LawKind::exponential, 86400, 1}};
  CHECK(mean_in_repair(model, machine, recovery) == Approx(10));
  const auto paid = [](int s) { return 1000 + s; };
  const int spares = cheapest_spares(model, machine, recovery, 100, paid);
  const auto cost = [](int s) { return (1000 + s) / (1 - erlang_loss(s + 1, 10)); };
  CHECK(cost(spares) <= cost(spares - 1));
  CHECK(cost(spares) <= cost(spares + 1));
  CHECK(spares > 10);
  CHECK(spares < 25);
  CHECK(cheapest_spares(model, machine, recovery, 12, paid) == 12);  // more are not allowed
  // They scale with the job: 80 GPUs have 0.1 node in repair.
  CHECK(cheapest_spares(model, {80, 8}, recovery, 100, [](int s) { return 10 + s; }) <= 1);
  // Spares that are paid for already are worth having, and the next one is not.
  CHECK(cheapest_spares(model, {80, 8}, recovery, 100, [](int s) { return 13 + std::max(0, s - 3); }) == 3);
}
