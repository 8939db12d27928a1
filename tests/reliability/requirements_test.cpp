// Requirements on failures and restarts, one test each, tagged by row.
#include <filesystem>

#include <catch2/catch.hpp>

#include "sim/io/failure_file.hpp"
#include "sim/io/files.hpp"
#include "sim/reliability/checkpoint_layout.hpp"
#include "sim/reliability/goodput.hpp"
#include "tests/reliability/job_fixtures.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

double mean_goodput(const JobSpec& spec, const StepTimes& steps, int histories) {
  GoodputOptions options;
  options.min_histories = options.max_histories = histories;
  options.threads = 2;
  return simulate_goodput(spec, steps, options).value().goodput.mean;
}

/// Steps of one second that train a million tokens; one replica less leaves that much less.
FixedStepTimes million_token_steps(int replicas = 1) {
  FixedStepTimes steps;
  steps.healthy = {from_seconds(1), 1'000'000};
  steps.replicas = replicas;
  return steps;
}

}  // namespace

TEST_CASE("a loss spike at 72 G tokens rolls back and repeats its steps", "[row-0-20][requirements][reliability]") {
  JobSpec spec = quiet_job();
  spec.checkpoint = every_steps(1000, {.load = s(60)});
  spec.course.target_tokens = 80'000'000'000;
  const History calm = run(spec, million_token_steps());
  CHECK(calm.wall == s(80'000));
  spec.course.spikes_at_tokens = {72'000'000'000};
  spec.course.spike_notice_steps = 250;
  spec.course.spike_rollback_steps = 100;
  const History spiked = run(spec, million_token_steps());
  // Noticed at step 72,250; 100 steps before the spike is 71,900, the checkpoint before that has 71,000 steps.
  CHECK(of(spiked, TimeCategory::lost) == s(1250));
  CHECK(of(spiked, TimeCategory::load) == s(60));
  CHECK(spiked.wall == calm.wall + s(1250 + 60));
  CHECK(spiked.goodput() < calm.goodput());
}

TEST_CASE("the reaction to a loss spike: none, a short rollback, a long rollback",
          "[row-0-21][requirements][reliability]") {
  JobSpec spec = quiet_job();
  spec.checkpoint = every_steps(100);
  spec.course.target_tokens = 10'000'000'000;
  const JobTime ignored = run(spec, million_token_steps()).wall;
  spec.course.spikes_at_tokens = {5'050'000'000};
  spec.course.spike_notice_steps = 20;
  const JobTime back_to_last = run(spec, million_token_steps()).wall;
  spec.course.spike_rollback_steps = 500;
  const JobTime back_500 = run(spec, million_token_steps()).wall;
  CHECK(back_to_last == ignored + s(70));  // 5,070 to 5,000
  CHECK(back_500 == ignored + s(570));     // 5,070 to 4,500
}

TEST_CASE("continuing with D-1 replicas beats a full restart if restarts are expensive",
          "[row-0-22][requirements][reliability]") {
  JobSpec spec = quiet_job(32);
  FailureKind node = every(32 * 86'400.0);
  node.per = node.scope = RateUnit::node;
  spec.failures.kinds = {node};
  spec.horizon = s(30 * 86'400.0);
  spec.checkpoint = every_steps(600, {.stall = s(5), .load = s(60)});
  spec.recovery.scheduler = s(1800);
  spec.recovery.repair = {LawKind::fixed, 6 * 3600, 1};
  const FixedStepTimes steps = million_token_steps(32);
  const double restarted = mean_goodput(spec, steps, 200);
  spec.recovery.elastic = Elastic::shrink_batch;
  spec.recovery.reconfigure = s(60);
  const double elastic = mean_goodput(spec, steps, 200);
  CHECK(elastic > restarted + 0.1);  // the other waits six hours for the node, this one works on with 31 of 32
}

TEST_CASE("a wrong resume causes a rollback to before it", "[row-0-23][requirements][reliability]") {
  // The first resume after step 300 is broken (dropout); it is seen 200 steps on, and the job goes back to step 300.
  JobSpec spec = quiet_job();
  spec.checkpoint = every_steps(300);
  spec.course = {.spikes_at_tokens = {301'000'000}, .spike_notice_steps = 199, .target_tokens = 1'000'000'000};
  const History history = run(spec, million_token_steps());
  CHECK(of(history, TimeCategory::lost) == s(200));
  CHECK(history.wall == s(1200));
}

TEST_CASE("one hanging node stops the job until it is noticed", "[row-0-24][requirements][reliability]") {
  JobSpec spec = quiet_job(1024);
  FailureKind hang = once(1000.5, Effect::hang);
  hang.scope = RateUnit::node;
  spec.failures.kinds = {hang};
  spec.horizon = s(1700);
  spec.checkpoint = every_steps(100);
  spec.recovery.collective_timeout = s(600);
  spec.recovery.spares = 1;
  const History history = run(spec, one_second_steps(1024));
  CHECK(of(history, TimeCategory::detection) == s(600));
  CHECK(of(history, TimeCategory::productive) == s(1000 + 99.5));
  CHECK(of(history, TimeCategory::lost) == s(0.5));
}

TEST_CASE("a watchdog that polls every 1, 10 and 30 minutes", "[row-0-25][requirements][reliability]") {
  const auto with_poll = [](double minutes) {
    JobSpec spec = quiet_job();
    spec.failures.kinds = {every(6 * 3600, Effect::hang)};
    spec.horizon = s(20 * 86'400.0);
    spec.checkpoint = every_steps(600);
    spec.recovery.collective_timeout = s(7200);
    spec.recovery.watchdog_poll = s(60 * minutes);
    spec.recovery.watchdog_threshold = s(60 * minutes);
    return mean_goodput(spec, one_second_steps(), 200);
  };
  const double one = with_poll(1), ten = with_poll(10), thirty = with_poll(30);
  // A poll and a threshold of x minutes notice after 1.5 x on average, out of 6 h of work and that.
  const auto expected = [](double minutes) { return (6 * 60 - 5) / (6 * 60 + 1.5 * minutes); };
  CHECK(one == Approx(expected(1)).margin(0.005));
  CHECK(ten == Approx(expected(10)).margin(0.005));
  CHECK(thirty == Approx(expected(30)).margin(0.005));
}

TEST_CASE("shards of any layout sum to the same bytes; another layout adds a resharding read",
          "[row-0-26][requirements][reliability]") {
  const Model model = shipped_model("llm-jp-175b");
  const ShardLayout from{4, 12, 8};
  CHECK(reshard(model, from, from).amplification() == 1);
  CHECK(reshard(model, from, {8, 6, 8}).amplification() > 1);
  // 96 layers of 12 h h + 13 h, a table of 50,688 x h, 2,048 positions and the last norm; h = 12,288.
  constexpr std::int64_t kParameters = 174'609'555'456;
  for (const ShardLayout& layout : {from, ShardLayout{8, 6, 8}, ShardLayout{2, 49, 4}}) {
    std::int64_t parameters = 0;
    for (int pp = 0; pp < layout.pp; ++pp)
      for (int tp = 0; tp < layout.tp; ++tp)
        for (int dp = 0; dp < layout.dp; ++dp) parameters += count(shard(model, layout, pp, tp, dp));
    CHECK(parameters == kParameters);
  }
}

TEST_CASE("a batch ramp changes the steps over time, and the total time is their sum",
          "[row-1-23][requirements][reliability]") {
  FixedStepTimes steps = million_token_steps();
  steps.table[{.global_batch = 16}] = {from_seconds(0.25), 250'000};
  steps.table[{.global_batch = 32}] = {from_seconds(0.5), 500'000};
  JobSpec spec = quiet_job();
  spec.course.ramp = {{0, 16}, {1'000'000'000, 32}};
  spec.course.target_tokens = 3'000'000'000;
  const History history = run(spec, steps);
  CHECK(history.steps == 4000 + 4000);
  CHECK(history.wall == s(4000 * 0.25 + 4000 * 0.5));
}

TEST_CASE("automatic resume is a restart policy", "[row-3-51][requirements][reliability]") {
  const FailureFile file = read_failure_file(source_dir() / "scenarios/failures/llama3-54-days.json").value();
  const auto with = [&](const RecoveryPolicy& recovery) {
    JobSpec spec;
    spec.machine = {16384, 8};
    spec.failures = file.model;
    spec.recovery = recovery;
    spec.recovery.spares = enough_spares(spec.failures, spec.machine, recovery);
    spec.checkpoint = every_steps(400);
    spec.horizon = s(54 * 86'400.0);
    return mean_goodput(spec, one_second_steps(128), 64);
  };
  RecoveryPolicy by_hand = file.recovery;
  by_hand.crash_detection = s(3600);  // the job is looked at once an hour
  by_hand.diagnosis = s(1800);
  CHECK(with(file.recovery) > with(by_hand) + 0.2);
}

TEST_CASE("saving through rank 0 takes longer than saving shards", "[row-4-13][requirements][reliability]") {
  CheckpointSettings settings;
  settings.storage_write = settings.storage_read = {100'000'000'000};
  settings.rank_storage = {2'000'000'000};
  const CheckpointShape shape{Bytes{14 * 7'000'000'000}, 64, 64};
  settings.mode = CheckpointMode::sync;
  const JobTime sharded = write_time(settings, shape);
  settings.mode = CheckpointMode::rank0;
  const JobTime one = write_time(settings, shape);
  CHECK(one == job_time(14 * 7e9 / 2e9));  // bytes / the rate of one rank
  CHECK(sharded == job_time(14 * 7e9 / 100e9));
}
