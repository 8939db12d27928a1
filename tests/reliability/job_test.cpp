/// One history at a time: failures at known instants, times by hand, exact to the tick.
#include "sim/reliability/job.hpp"

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "sim/reliability/checkpoint_store.hpp"
#include "tests/reliability/job_fixtures.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("without failures and checkpoints all time is productive", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  FixedStepTimes steps = one_second_steps();
  steps.healthy.time = Duration{4'123'456'789'000};
  spec.course.target_tokens = 1'000'000;
  const History done = run(spec, steps);
  CHECK(done.wall == JobTime{4'123'456'789 * 1000});
  CHECK(done.tokens == 1'000'000);
  CHECK(done.goodput() == 1);
  spec.horizon = s(10);
  const History cut = run(spec, steps);
  CHECK(cut.wall == s(10));
  CHECK(cut.steps == 2);
  CHECK(cut.goodput() == 1);
}

TEST_CASE("checkpoints stall after every interval, and not after the last step", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.course.target_tokens = 100'000;
  spec.checkpoint = every_steps(10, {.stall = s(2)});
  const History history = run(spec, one_second_steps());
  CHECK(history.checkpoints == 9);
  CHECK(history.wall == s(100 + 9 * 2));
  CHECK(of(history, TimeCategory::checkpoint) == s(18));
}

TEST_CASE("one crash costs detection, diagnosis, restart, load and the work since the checkpoint",
          "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.failures.kinds = {once(27.25)};
  spec.horizon = s(54);
  spec.checkpoint = every_steps(10, {.stall = s(1), .load = s(4)});
  spec.recovery.crash_detection = s(2);
  spec.recovery.diagnosis = s(3);
  spec.recovery.scheduler = s(0.5);
  spec.recovery.container = s(0.25);
  spec.recovery.communicators = s(0.125);
  spec.recovery.warm_up = s(0.125);
  const History history = run(spec, one_second_steps());
  // Checkpoints end at 11 and 22; 5.25 s of work since; then 2 + 3 + 1 + 4 = 10 s until 37.25; 10 steps, stall until
  // 48.25, and 5.75 s more.
  CHECK(of(history, TimeCategory::lost) == s(5.25));
  CHECK(of(history, TimeCategory::detection) == s(2));
  CHECK(of(history, TimeCategory::diagnosis) == s(3));
  CHECK(of(history, TimeCategory::restart) == s(1));
  CHECK(of(history, TimeCategory::load) == s(4));
  CHECK(of(history, TimeCategory::checkpoint) == s(3));
  CHECK(of(history, TimeCategory::productive) == s(20 + 10 + 5.75));
  CHECK(history.interruptions == 1);
  CHECK(history.events == std::vector<int>{1});
}

TEST_CASE("without checkpoints a crash loses all progress", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.failures.kinds = {once(30)};
  spec.horizon = s(50);
  const History history = run(spec, one_second_steps());
  CHECK(of(history, TimeCategory::lost) == s(30));
  CHECK(history.steps == 20);
}

TEST_CASE("an asynchronous checkpoint is safe only when it has been written", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.horizon = s(40);
  spec.checkpoint = every_steps(10, {.stall = s(1), .persist = s(5)});
  // The second checkpoint is taken at 22 and safe at 27.
  spec.failures.kinds = {once(26.999)};
  CHECK(run(spec, one_second_steps()).waterfall[static_cast<std::size_t>(TimeCategory::lost)] == s(26.999 - 2 - 10));
  spec.failures.kinds = {once(27)};
  CHECK(run(spec, one_second_steps()).waterfall[static_cast<std::size_t>(TimeCategory::lost)] == s(27 - 2 - 20));
}

TEST_CASE("a checkpoint waits for the one before it to be written", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.course.target_tokens = 31'000;
  spec.checkpoint = every_steps(10, {.stall = s(1), .persist = s(14)});
  // First taken at 11, safe at 25. Second due at 21: waits 4, stalls 1: 26, safe at 40. Third due at 36: until 41.
  const History history = run(spec, one_second_steps());
  CHECK(of(history, TimeCategory::checkpoint) == s(1 + 5 + 5));
  CHECK(history.wall == s(42));
}

TEST_CASE("tiers: the newest copy that survives", "[oracle][reliability]") {
  JobSpec spec = quiet_job(4);
  spec.failures.nodes_per_rack = 2;
  spec.recovery.spares = 8;
  spec.checkpoint.interval_steps = 5;
  spec.checkpoint.tiers = {{.name = "memory", .every = 1, .load = s(1), .survives = Survives::restart},
                           {.name = "peer", .every = 2, .load = s(2), .survives = Survives::one_node},
                           {.name = "storage", .every = 4, .load = s(3), .survives = Survives::anything}};
  FailureKind kind = once(98);
  const auto [scope, steps, load] = GENERATE(
      table<RateUnit, int, double>({{RateUnit::job, 95, 1}, {RateUnit::node, 95, 2}, {RateUnit::rack, 85, 3}}));
  kind.scope = scope;
  spec.failures.kinds = {kind};
  spec.horizon = s(98 + load);
  const History history = run(spec, one_second_steps(4));
  // Checkpoints number 0, 1, … after 5, 10, … steps: memory has all, peer 5, 15, … 95, storage 5, 25, … 85.
  CHECK(history.steps == steps);
  CHECK(of(history, TimeCategory::lost) == s(98 - steps));
  CHECK(of(history, TimeCategory::load) == s(load));
}

TEST_CASE("hangs: the collective's timeout, by default PyTorch's, or the watchdog, whichever is earlier",
          "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.failures.kinds = {once(1000, Effect::hang)};
  spec.horizon = s(2000);
  CHECK(of(run(spec, one_second_steps()), TimeCategory::detection) == s(600));
  spec.recovery.watchdog_poll = s(60);
  spec.recovery.watchdog_threshold = s(120);
  const JobTime watched = of(run(spec, one_second_steps()), TimeCategory::detection);
  CHECK(watched > s(120));
  CHECK(watched <= s(180));
  spec.recovery.collective_timeout = s(100);
  CHECK(of(run(spec, one_second_steps()), TimeCategory::detection) == s(100));
}

TEST_CASE("without a spare the job waits for the repair, with one for the swap", "[oracle][reliability]") {
  JobSpec spec = quiet_job(2);
  FailureKind kind = once(100);
  kind.scope = RateUnit::node;
  spec.failures.kinds = {kind};
  spec.horizon = s(150);
  spec.recovery.repair = {LawKind::fixed, 30, 1};
  spec.recovery.spare_swap = s(7);
  CHECK(of(run(spec, one_second_steps(2)), TimeCategory::waiting) == s(37));
  spec.recovery.spares = 1;
  CHECK(of(run(spec, one_second_steps(2)), TimeCategory::waiting) == s(7));
  spec.recovery.spare_state = SpareState::hot;
  spec.recovery.scheduler = s(20);
  spec.recovery.communicators = s(3);
  CHECK(of(run(spec, one_second_steps(2)), TimeCategory::restart) == s(3));
}

TEST_CASE("a rack failure takes down all its nodes: one spare is not enough", "[oracle][reliability]") {
  JobSpec spec = quiet_job(4);
  spec.failures.nodes_per_rack = 2;
  FailureKind kind = once(100);
  kind.scope = RateUnit::rack;
  spec.failures.kinds = {kind};
  spec.horizon = s(180);
  spec.recovery.repair = {LawKind::fixed, 30, 1};
  spec.recovery.spares = 1;
  CHECK(of(run(spec, one_second_steps(4)), TimeCategory::waiting) == s(30));
  spec.recovery.spares = 2;
  CHECK(of(run(spec, one_second_steps(4)), TimeCategory::waiting) == s(0));
}

TEST_CASE("a failure during restart begins the outage anew; during diagnosis it joins the outage",
          "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.failures.kinds = {once(50), once(60)};
  spec.horizon = s(98);
  spec.recovery.scheduler = s(20);
  // Restart from 50, spoilt at 60, again until 80.
  History history = run(spec, one_second_steps());
  CHECK(of(history, TimeCategory::restart) == s(30));
  CHECK(history.interruptions == 2);
  spec.recovery.diagnosis = s(15);
  // Diagnosis 50 to 65 holds the second failure; restart until 85.
  history = run(spec, one_second_steps());
  CHECK(of(history, TimeCategory::restart) == s(20));
  CHECK(of(history, TimeCategory::diagnosis) == s(15));
  CHECK(history.interruptions == 1);
  // Parts that do not age while the job stands: the second failure comes 10 s of running later.
  spec.recovery.failures_in_restart = false;
  history = run(spec, one_second_steps());
  CHECK(history.interruptions == 2);
  CHECK(of(history, TimeCategory::lost) == s(50 + 10));
}

TEST_CASE("silent corruption rolls back to a copy from before it", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  FailureKind kind = once(35, Effect::corruption);
  kind.latency = {LawKind::fixed, 27.5, 1};
  spec.failures.kinds = {kind};
  spec.horizon = s(69);
  spec.checkpoint = every_steps(10);
  spec.recovery.diagnosis = s(1);
  const History history = run(spec, one_second_steps());
  // Noticed at 62.5; the copies of 40, 50 and 60 are corrupt.
  CHECK(of(history, TimeCategory::lost) == s(32.5));
  CHECK(history.steps == 35);  // 30, and 5 of the 5.5 s after 63.5
}

TEST_CASE("a crash that rolls back to before a corruption removes it", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  FailureKind corruption = once(35, Effect::corruption);
  corruption.latency = {LawKind::fixed, 20, 1};
  spec.failures.kinds = {corruption, once(38)};
  spec.horizon = s(60);
  spec.checkpoint = every_steps(10);
  const History history = run(spec, one_second_steps());
  CHECK(of(history, TimeCategory::lost) == s(8));
  CHECK(history.interruptions == 1);
}

TEST_CASE("a loss spike at a token count costs (q + z) steps and a restart", "[oracle][reliability]") {
  const int q = 100, z = 300;
  JobSpec spec = quiet_job();
  spec.course.target_tokens = 2'000'000;
  spec.checkpoint = every_steps(1, {.keep = 1000});  // free, after every step: the cost is the spike's alone
  spec.course.spikes_at_tokens = {720'000};
  spec.course.spike_notice_steps = z;
  spec.course.spike_rollback_steps = q;
  spec.recovery.scheduler = s(60);
  const History history = run(spec, one_second_steps());
  CHECK(of(history, TimeCategory::lost) == s(q + z));
  CHECK(history.wall == s(2000 + q + z + 60));
  CHECK(history.interruptions == 1);
}

TEST_CASE("degraded time uses the step time of the engine", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  FailureKind kind = once(10.5, Effect::slow_gpu);
  kind.magnitude = 0.8;
  kind.lasts = {LawKind::fixed, 9, 1};
  spec.failures.kinds = {kind};
  spec.course.target_tokens = 20'000;
  FixedStepTimes steps = one_second_steps();
  steps.table[{.gpu_speed_percent = 80}] = {from_seconds(1.2), 1000};
  const History history = run(spec, steps);
  // The step that is running ends at 11; slow from there until the one that is running at 19.5 ends: 8 of them, 20.6.
  CHECK(of(history, TimeCategory::degraded) == s(8 * 0.2));
  CHECK(history.wall == s(20 + 1.6));
  CHECK(of(history, TimeCategory::productive) == s(20));
}

TEST_CASE("a state without a known step time is an error", "[error][reliability]") {
  JobSpec spec = quiet_job();
  FailureKind kind = once(10, Effect::lost_rail);
  kind.lasts = {LawKind::fixed, 9, 1};
  spec.failures.kinds = {kind};
  spec.course.target_tokens = 20'000;
  const Result<History> history = simulate_history(spec, one_second_steps(), 1, 0);
  REQUIRE_FALSE(history.has_value());
  CHECK(to_string(history.error()) == "the step time of this state of the machine is not known");
}

TEST_CASE("a link flap within the retry budget stalls, a longer one is a hang", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  FailureKind kind = once(10.5, Effect::link_flap);
  kind.lasts = {LawKind::fixed, 20, 1};
  spec.failures.kinds = {kind};
  spec.horizon = s(20 + 10);
  spec.recovery.collective_timeout = s(5);
  History history = run(spec, one_second_steps());
  CHECK(of(history, TimeCategory::degraded) == s(19.5));
  CHECK(history.interruptions == 0);
  spec.recovery.flap_budget = s(20);
  spec.horizon = s(20);
  history = run(spec, one_second_steps());
  CHECK(of(history, TimeCategory::detection) == s(5));
  CHECK(history.interruptions == 1);
}

TEST_CASE("slow storage lengthens checkpoints and loads", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  FailureKind kind = once(18, Effect::slow_storage);
  kind.magnitude = 0.5;
  kind.lasts = {LawKind::fixed, 5, 1};
  spec.failures.kinds = {kind};
  spec.course.target_tokens = 31'000;
  spec.checkpoint = every_steps(10, {.stall = s(1)});
  CHECK(of(run(spec, one_second_steps()), TimeCategory::checkpoint) == s(1 + 2 + 1));
  spec.checkpoint.tiers.front().survives = Survives::one_node;  // memory of the nodes
  CHECK(of(run(spec, one_second_steps()), TimeCategory::checkpoint) == s(1 + 1 + 1));
}

TEST_CASE("a planned stop saves first and loses nothing", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  FailureKind kind = once(180.5, Effect::planned);
  kind.lasts = {LawKind::fixed, 100, 1};
  spec.failures.kinds = {kind};
  spec.checkpoint = every_steps(1000, {.stall = s(1), .persist = s(3), .load = s(2)});
  spec.recovery.scheduler = s(10);
  spec.course.target_tokens = 200'000;
  const History history = run(spec, one_second_steps());
  CHECK(of(history, TimeCategory::lost) == s(0));
  CHECK(of(history, TimeCategory::planned) == s(100));
  CHECK(of(history, TimeCategory::checkpoint) == s(4));
  CHECK(history.interruptions == 0);
  CHECK(history.wall == s(200 + 4 + 100 + 10 + 2));
}

TEST_CASE("batch ramp: the training time is the sum over its parts", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.course.ramp = {{0, 16}, {100'000, 32}, {500'000, 64}};
  spec.course.target_tokens = 1'000'000;
  FixedStepTimes steps;
  steps.table[{.global_batch = 16}] = {from_seconds(1), 1000};
  steps.table[{.global_batch = 32}] = {from_seconds(1.5), 2000};
  steps.table[{.global_batch = 64}] = {from_seconds(2), 4000};
  const History history = run(spec, steps);
  CHECK(history.wall == s(100 * 1 + 200 * 1.5 + 125 * 2));
  CHECK(history.goodput() == 1);
}

TEST_CASE("impossible jobs are an error", "[error][reliability]") {
  JobSpec spec = quiet_job();
  CHECK(to_string(check(spec).error()) == "the job needs a duration or a number of tokens");
  spec.horizon = s(1);
  spec.checkpoint.interval_steps = 1;
  CHECK(to_string(check(spec).error()) == "checkpoints need at least one level that keeps them");
  spec.checkpoint.tiers = {{.every = 0}};
  CHECK(to_string(check(spec).error()) ==
        "a checkpoint level must take part in every n-th checkpoint with n >= 1, and keep a copy");
  spec.checkpoint = {};
  spec.failures.kinds = {every(0)};
  CHECK(to_string(check(spec).error()) == "'crash' needs a mean time between failures");
  spec.failures.kinds = {every(1)};
  spec.failures.kinds[0].magnitude = 0;
  CHECK(to_string(check(spec).error()) == "'crash' must leave a speed in (0, 1]");
  spec.failures.kinds[0].magnitude = 1;
  spec.horizon = s(100'000);
  CHECK(check(spec).has_value());
  spec.horizon = s(200'000);
  CHECK(to_string(check(spec).error()) ==
        "2.315 days have 2e+05 failures (allowed: at most 100000 in a history: fewer days, or rarer failures)");
  spec.horizon = s(1000);
  spec.recovery.spares = 5;
  spec.recovery.spare_mtbf = s(0.001);  // 5 million failures of spares
  CHECK(to_string(check(spec).error()) ==
        "0.01157 days have 5e+06 failures (allowed: at most 100000 in a history: fewer days, or rarer failures)");
}

TEST_CASE("restart grows with the job, and a warm or hot spare saves its part of it",
          "[row-4-11][oracle][reliability]") {
  RecoveryPolicy r;
  r.scheduler = s(30);
  r.container = s(60);
  r.start_per_1k_ranks = s(6);
  r.communicators = s(1);
  r.communicators_per_1k_ranks = s(0.5);
  r.communicators_exponent = 1.5;
  r.warm_up = s(10);
  const Machine machine{16'000, 8};
  const double communicators = 1 + 0.5 * 64;  // 16^1.5
  CHECK(communicator_time(r, machine) == s(communicators));
  CHECK(restart_time(r, machine, SpareState::cold) == s(30 + 60 + 16 * 6 + communicators + 10));
  CHECK(restart_time(r, machine, SpareState::warm) == s(16 * 6 + communicators + 10));
  CHECK(restart_time(r, machine, SpareState::hot) == s(communicators + 10));
}

TEST_CASE("causes per job with a power of size: none at 64 GPUs, many at 100,000", "[oracle][reliability]") {
  FailureKind bug = every(86'400);
  bug.growth_from_gpus = 16'384;
  FailureModel model;
  const auto per_day = [&](int gpus) {
    model.kinds = {bug};
    return interruption_rate_s(model, {gpus, 8}, {}) * 86'400;
  };
  CHECK(per_day(64) == Approx(1));  // growth 0: the same for a job of any size
  bug.growth = 1;
  CHECK(per_day(64) == Approx(1.0 / 256));
  CHECK(per_day(16'384) == Approx(1));
  CHECK(per_day(98'304) == Approx(6));
  bug.growth = 0.5;
  CHECK(per_day(65'536) == Approx(2));
}

TEST_CASE("a fraction of a part fails as much less often as it is smaller than one", "[oracle][reliability]") {
  FailureKind kind = every(86'400);
  kind.per = RateUnit::node;
  kind.parts_per_unit = 0.02;
  FailureModel model;
  model.kinds = {kind};
  const int nodes = GENERATE(1, 2, 4, 60, 100);
  const Machine machine{8 * nodes, 8};
  CHECK(parts(kind, model, machine) == (nodes == 100 ? 2 : 1));
  CHECK(rate_s(kind, model, machine) * 86'400 == Approx(0.02 * nodes));
  CHECK(law_on(kind, model, machine).mean_s * 0.02 * nodes == Approx(86'400.0 * (nodes == 100 ? 2 : 1)));
}

TEST_CASE("a job has its part of a switch, and the whole of what stops the switch", "[oracle][reliability]") {
  FailureModel model;
  model.nodes_per_switch = 16;
  FailureKind cable = every(86'400), whole = every(86'400);
  cable.per = whole.per = whole.scope = RateUnit::switch_group;
  const int nodes = GENERATE(1, 8, 17);
  const Machine machine{8 * nodes, 8};
  CHECK(exact_parts(cable, model, machine) == nodes / 16.0);
  CHECK(exact_parts(whole, model, machine) == (nodes == 17 ? 2 : 1));
  CHECK(rate_s(cable, model, machine) * 86'400 == Approx(nodes / 16.0));
}

TEST_CASE("a job on one node does not stop for links between nodes", "[reliability]") {
  FailureModel model;
  for (const Component component : {Component::gpu, Component::network, Component::nic, Component::nvlink}) {
    FailureKind kind = every(1);
    kind.component = component;
    model.kinds.push_back(kind);
  }
  CHECK(without_unused_network(model, {16, 8}) == model);
  const FailureModel one = without_unused_network(model, {8, 8});
  REQUIRE(one.kinds.size() == 2);
  CHECK(one.kinds.back().component == Component::nvlink);
}

TEST_CASE("spares: the nodes in repair exceed them in a thousandth of the time", "[oracle][reliability]") {
  FailureKind node = every(1000 * 86'400.0);
  node.per = node.scope = RateUnit::node;
  FailureModel model;
  model.nodes_per_rack = 18;
  model.kinds = {node};
  RecoveryPolicy day;
  day.repair = {LawKind::fixed, 86'400, 1};
  // Poisson with mean 2: P(N > 7) = 0.0011, P(N > 8) = 0.0002. With mean 0.008: P(N > 0) = 0.008, P(N > 1) = 3e-5.
  CHECK(enough_spares(model, {16'000, 8}, day) == 8);
  CHECK(enough_spares(model, {64, 8}, day) == 1);
  // Spares that fail once a day while they are idle, and are repaired for a day, are in repair for half of that time.
  day.spare_mtbf = s(850 * 86'400.0);
  CHECK(enough_spares(model, {16'000, 8}, day) == 8);
  day.spare_mtbf = s(86'400);
  const auto shortage = [](int spares) {
    const double mean = 2 + (spares - 2) / 2.0;
    double term = std::exp(-mean), sum = term;
    for (int nodes = 1; nodes <= spares; ++nodes) sum += term *= mean / nodes;
    return 1 - sum;
  };
  const int spares = enough_spares(model, {16'000, 8}, day);
  CHECK(shortage(spares) <= 1e-3);
  CHECK(shortage(spares - 1) > 1e-3);
  day.spare_mtbf = {};
  // A rack that fails takes 18 nodes: mean 2000/18 racks / 1000 = 0.112, P(N > 2) = 0.0002, so 36 spares more.
  FailureKind rack = node;
  rack.per = rack.scope = RateUnit::rack;
  model.kinds = {node, rack};
  CHECK(enough_spares(model, {16'000, 8}, day) == 8 + 2 * 18);
  model.kinds.front().replace_probability = 0;
  CHECK(enough_spares(model, {16'000, 8}, day) == 2 * 18);
  day.repair.mean_s = 1e300;
  CHECK(enough_spares(model, {16'000, 8}, day) == 1'000'000);  // the most there may be
}

TEST_CASE("a repair that takes longer than there are ticks lasts to the end of the history", "[oracle][reliability]") {
  CHECK(kNever + s(1) == kNever);
  CHECK(3 * s(9e9) == kNever);
  RecoveryPolicy r;
  r.start_per_1k_ranks = s(86'400);
  CHECK(restart_time(r, {500'000, 8}, SpareState::cold) == s(500 * 86'400.0));
  JobSpec spec = quiet_job();
  spec.horizon = s(1000);
  spec.failures.kinds = {once(400)};
  spec.recovery.diagnosis = s(9e9);
  spec.recovery.scheduler = s(9e9);
  const History history = simulate_history(spec, one_second_steps(), 1, 0).value();
  CHECK(of(history, TimeCategory::diagnosis) == s(600));
  CHECK(history.wall == s(1000));
  spec.checkpoint = every_steps(1'000'000'000'000);  // never reached
  spec.failures.kinds = {};
  CHECK(simulate_history(spec, one_second_steps(), 1, 0).value().checkpoints == 0);
}

TEST_CASE("more tokens than 64 bits count are an error", "[error][reliability]") {
  FixedStepTimes steps = one_second_steps();
  steps.healthy.tokens = 1'000'000'000'000;
  JobSpec spec = quiet_job();
  spec.horizon = s(86'400 * 365);
  CHECK(to_string(simulate_history(spec, steps, 1, 0).error()) ==
        "365 days of steps of 1 s train more than 9e18 tokens (allowed: fewer days)");
}

TEST_CASE("checkpoints run in cycles as they run one by one", "[property][reliability]") {
  // With recorded spans every step is simulated; without, whole cycles of checkpoints at once.
  RandomStream random(7, 0, 0);
  for (int trial = 0; trial < 200; ++trial) {
    JobSpec spec = quiet_job(16);
    FailureKind node = every(3000 + 20'000 * random.uniform());
    node.scope = RateUnit::node;
    spec.failures.kinds = {node,
                           every(20'000, Effect::hang),
                           every(30'000, Effect::corruption),
                           every(15'000, Effect::slow_storage),
                           every(25'000, Effect::planned),
                           every(40'000, Effect::loss_spike)};
    spec.failures.kinds[2].latency = {LawKind::exponential, 600, 1};
    spec.failures.kinds[3].lasts = {LawKind::exponential, 900, 1};
    spec.failures.kinds[3].magnitude = 0.3;
    spec.failures.kinds[5].rollback_steps = 40;
    spec.failures.kinds[5].notice_steps = 25;
    spec.recovery.spares = 2;
    spec.recovery.scheduler = s(20);
    const auto tier = [&](int every, double stall, double persist, Survives survives, int keep) {
      return CheckpointTier{.name = "level",
                            .every = every,
                            .keep = keep,
                            .stall = s(stall * random.uniform()),
                            .persist = s(persist * random.uniform()),
                            .load = s(5),
                            .survives = survives};
    };
    spec.checkpoint.interval_steps = 1 + static_cast<int>(random.below(40));
    spec.checkpoint.tiers = {tier(1, 0.5, 0, Survives::restart, 2), tier(2, 0, 3, Survives::one_node, 2),
                             tier(3, 1, 40, Survives::anything, 50)};
    spec.course.target_tokens = 80'000'000;
    spec.course.ramp = {{0, 8}, {20'000'000, 16}};
    spec.horizon = s(200'000);
    FixedStepTimes steps = one_second_steps(16);
    steps.table[{.global_batch = 8}] = {from_seconds(0.5), 400};
    steps.table[{.global_batch = 16}] = {from_seconds(0.9), 1000};
    const History single = simulate_history(spec, steps, 1, static_cast<std::uint32_t>(trial), true).value();
    const History cycles = simulate_history(spec, steps, 1, static_cast<std::uint32_t>(trial)).value();
    CAPTURE(trial, spec.checkpoint.interval_steps);
    REQUIRE(cycles.wall == single.wall);
    CHECK(cycles.waterfall == single.waterfall);
    CHECK(cycles.tokens == single.tokens);
    CHECK(cycles.checkpoints == single.checkpoints);
    CHECK(cycles.events == single.events);
  }
}

TEST_CASE("storage keeps the newest copies, and ever fewer older ones", "[oracle][reliability]") {
  const auto newest_up_to = [](Survives survives, std::int64_t steps) {
    CheckpointStore store({1, {{.keep = 3, .survives = survives}}});
    for (int step = 1; step <= 10; ++step) store.take({0, step, {}, {}}, s(step), 1);
    return store.best({.failed_at = s(20), .steps_at_most = steps}).progress.steps;
  };
  // Copies 0 to 9 have steps 1 to 10. Three newest: 8, 9, 10. Then every second of three: 7, 5. Then every fourth: 1.
  CHECK(newest_up_to(Survives::anything, 10) == 10);
  CHECK(newest_up_to(Survives::anything, 8) == 8);
  CHECK(newest_up_to(Survives::anything, 7) == 7);
  CHECK(newest_up_to(Survives::anything, 6) == 5);
  CHECK(newest_up_to(Survives::anything, 4) == 1);
  CHECK(newest_up_to(Survives::restart, 8) == 8);
  CHECK(newest_up_to(Survives::restart, 7) == 0);
}
