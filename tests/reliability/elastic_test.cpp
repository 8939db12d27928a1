/// Jobs that go on without a replica: failures at known instants, times by hand, exact to the tick.
#include <catch2/catch.hpp>

#include "tests/reliability/job_fixtures.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

/// Four replicas of a node, of which one is lost at 100.5; the others go on after 5 s.
JobSpec losing_a_node() {
  JobSpec spec = quiet_job(4);
  FailureKind kind = once(100.5);
  kind.scope = RateUnit::node;
  spec.failures.kinds = {kind};
  spec.recovery.elastic = Elastic::shrink_batch;
  spec.recovery.reconfigure = s(5);
  spec.horizon = s(195);
  return spec;
}

}  // namespace

TEST_CASE("elastic continuation trains (D-1)/D of the batch until the node is back", "[oracle][reliability]") {
  JobSpec spec = losing_a_node();
  spec.failures.kinds.front().per = RateUnit::node;
  spec.failures.kinds.front().parts_per_unit = 0.25;
  spec.recovery.repair = {LawKind::fixed, 45.25, 1};
  spec.recovery.scheduler = s(1000);  // nobody restarts
  const History history = run(spec, one_second_steps(4));
  // 100 steps; half a step lost; 5 s; from 105.5 on 750 tokens a step until the step in which the node is back
  // (145.75) ends: 41 steps, 146.5; 5 s; then 43 whole steps and half of one.
  CHECK(of(history, TimeCategory::lost) == s(0.5));
  CHECK(of(history, TimeCategory::restart) == s(10));
  CHECK(of(history, TimeCategory::degraded) == s(41 * 0.25));
  CHECK(history.tokens == 100'000 + 41 * 750 + 43'000);
  // With it leaves the replica that shares its experts. Without any that could go on, the job waits for the node.
  spec.replicas_together = 2;
  CHECK(run(spec, one_second_steps(4)).tokens == 100'000 + 41 * 500 + 43'000);
  spec.replicas_together = 4;
  CHECK(of(run(spec, one_second_steps(4)), TimeCategory::degraded) == s(0));
}

TEST_CASE("a replica restarts alone after a failure that takes no node, the whole job without replica_restart",
          "[oracle][reliability]") {
  JobSpec spec = quiet_job(4);
  FailureKind kind = once(100.5);
  kind.scope = RateUnit::job;
  spec.failures.kinds = {kind};
  spec.recovery.elastic = Elastic::shrink_batch;
  spec.recovery.replica_restart = true;
  spec.recovery.reconfigure = s(5);
  spec.recovery.scheduler = s(40);
  spec.recovery.communicators_per_1k_ranks = s(250);
  spec.machine = {16, 4};
  spec.horizon = s(195);
  const History history = run(spec, one_second_steps(4));
  // 100 steps, half of one lost, 5 s. The replica of 4 GPUs needs 40 + 250 x 0.004 = 41 s from 100.5 on: it is back at
  // 141.5, after 36 steps of 750 tokens from 105.5 on. 5 s; then 48 whole steps until 195.
  CHECK(of(history, TimeCategory::lost) == s(0.5));
  CHECK(of(history, TimeCategory::restart) == s(10));
  CHECK(history.tokens == 100'000 + 36 * 750 + 48'000);
  CHECK(history.interruptions == 1);
  // Two that leave together are 8 GPUs: 42 s, 37 steps of 500 tokens, and 47 whole steps.
  JobSpec pairs = spec;
  pairs.replicas_together = 2;
  CHECK(run(pairs, one_second_steps(4)).tokens == 100'000 + 37 * 500 + 47'000);
  // Without it, 16 GPUs start again for 44 s and the replicas go on from the last checkpoint, the beginning.
  spec.recovery.replica_restart = false;
  const History all = run(spec, one_second_steps(4));
  CHECK(of(all, TimeCategory::restart) == s(44));
  CHECK(of(all, TimeCategory::lost) == s(100.5));
}

TEST_CASE("two nodes of replicas that leave together cost the job one group, nodes of both groups stop it",
          "[oracle][reliability]") {
  JobSpec spec = losing_a_node();
  FailureKind second = spec.failures.kinds.front();
  second.law = once(130.5).law;
  spec.failures.kinds.push_back(second);
  spec.replicas_together = 2;
  const auto steps = one_second_steps(4);
  int went_on = 0, stopped = 0;
  for (std::uint32_t index = 0; index < 20; ++index) {
    const History history = simulate_history(spec, steps, 1, index, false).value();
    (of(history, TimeCategory::waiting) == s(0) ? went_on : stopped) += 1;
  }
  CHECK(went_on > 0);
  CHECK(stopped > 0);
}

TEST_CASE("a spare brings the replica back after the swap", "[oracle][reliability]") {
  JobSpec spec = losing_a_node();
  spec.recovery.spares = 1;
  spec.recovery.spare_swap = s(20);
  spec.recovery.repair = {LawKind::fixed, 1000, 1};
  const History history = run(spec, one_second_steps(4));
  // From 105.5 on 15 steps without the replica, which the spare replaces from 120.5 on; 5 s; 69 whole steps until 195.
  CHECK(of(history, TimeCategory::restart) == s(10));
  CHECK(history.tokens == 100'000 + 15 * 750 + 69'000);
}

TEST_CASE("a node that is repaired during the swap brings the replica back, and the swapped node is a spare",
          "[oracle][reliability]") {
  JobSpec spec = losing_a_node();
  spec.recovery.spares = 1;
  spec.recovery.spare_swap = s(60);
  spec.recovery.repair = {LawKind::fixed, 30, 1};
  // From 105.5 on 25 steps without the replica, whose node is repaired at 130.5; 5 s; 59 whole steps until 195. Nothing
  // happens at 160.5.
  const History history = run(spec, one_second_steps(4));
  CHECK(of(history, TimeCategory::restart) == s(10));
  CHECK(history.tokens == 100'000 + 25 * 750 + 59'000);
}

TEST_CASE("a job that cannot shrink further takes the node that was to bring a replica back", "[oracle][reliability]") {
  JobSpec spec = quiet_job(2);
  FailureKind first = once(100.5), second = once(120.5);
  first.scope = second.scope = RateUnit::node;
  spec.failures.kinds = {first, second};
  spec.recovery.elastic = Elastic::shrink_batch;
  spec.recovery.spares = 1;
  spec.recovery.spare_swap = s(30);
  spec.horizon = s(200);
  // The spare on its way arrives at 130.5. It takes the place of the second node, for another 30 s. Repairs take an hour.
  CHECK(of(run(spec, one_second_steps(2)), TimeCategory::waiting) == s(10 + 30));
}

TEST_CASE("elastic continuation: spares beyond those that are in repair change nothing", "[property][reliability]") {
  JobSpec spec = quiet_job(32);
  FailureKind node = every(32 * 10'000.0);
  node.per = node.scope = RateUnit::node;
  spec.failures.kinds = {node};
  spec.recovery.elastic = Elastic::shrink_batch;
  spec.recovery.reconfigure = s(5);
  spec.recovery.spare_swap = s(3600);
  spec.recovery.repair = {LawKind::exponential, 20'000, 1};
  spec.horizon = s(3e6);
  spec.recovery.spares = 20;  // 2 are in repair on average: 20 never are
  const History few = run(spec, one_second_steps(32));
  spec.recovery.spares = 1000;
  const History many = run(spec, one_second_steps(32));
  CHECK(few.interruptions > 200);
  CHECK(few.waterfall == many.waterfall);
}

TEST_CASE("elastic continuation rolls back if only the lost node had a shard", "[oracle][reliability]") {
  JobSpec spec = quiet_job(4);
  FailureKind kind = once(105.5);
  kind.scope = RateUnit::node;
  spec.failures.kinds = {kind};
  spec.recovery.elastic = Elastic::shrink_batch;
  spec.recovery.elastic_rollback = true;
  spec.checkpoint = every_steps(10, {.load = s(2)});
  spec.horizon = s(200);
  const History history = run(spec, one_second_steps(4));
  CHECK(of(history, TimeCategory::lost) == s(5.5));
  CHECK(of(history, TimeCategory::load) == s(2));
}
