/// Many histories: means against closed forms, and what must hold for every history.
#include "sim/reliability/goodput.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "sim/reliability/closed_forms.hpp"
#include "tests/reliability/job_fixtures.hpp"
#include "tests/support/cases.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Goodput simulate(const JobSpec& spec, const StepTimes& steps, int histories, int threads = 2) {
  GoodputOptions options;
  options.min_histories = options.max_histories = histories;
  options.threads = threads;
  const Result<Goodput> goodput = simulate_goodput(spec, steps, options);
  REQUIRE(goodput.has_value());
  return *goodput;
}

double share(const Goodput& goodput, TimeCategory what) { return goodput.share[static_cast<std::size_t>(what)]; }

/// Share of time that a job waits for a node when it needs all its nodes and does not age while it waits: the
/// number in repair is Poisson truncated at spares + 1, and the job waits while it is there. Erlang's loss
/// formula with spares + 1 servers; it holds for every law of the repair time with that mean (M/G/c/c).
double waiting_share(double mean_in_repair, int spares) {
  double loss = 1;  // by recursion over the number of servers
  for (int servers = 1; servers <= spares + 1; ++servers)
    loss = mean_in_repair * loss / (servers + mean_in_repair * loss);
  return loss;
}

/// Everything at once: every effect, Weibull and fixed laws, racks, tiers, spares, elastic or not, a batch ramp.
JobSpec eventful_job(Elastic elastic) {
  JobSpec spec = quiet_job(16);
  spec.failures.nodes_per_rack = 4;
  spec.horizon = s(40'000);
  const Law short_while{LawKind::exponential, 120, 1};
  for (const Effect effect :
       {Effect::crash, Effect::hang, Effect::corruption, Effect::loss_spike, Effect::slow_gpu, Effect::slow_link,
        Effect::lost_rail, Effect::slow_uplink, Effect::slow_storage, Effect::link_flap, Effect::planned}) {
    FailureKind kind = every(4000, effect);
    kind.magnitude = 0.5;
    kind.lasts = effect == Effect::link_flap ? Law{LawKind::exponential, 20, 1} : short_while;
    kind.latency = {LawKind::exponential, 300, 1};
    kind.notice_steps = 20;
    kind.rollback_steps = 30;
    spec.failures.kinds.push_back(kind);
  }
  FailureKind node = every(16 * 3000);
  node.law = {LawKind::weibull, 16 * 3000, 0.7};
  node.per = node.scope = RateUnit::node;
  node.replace_probability = 0.7;
  FailureKind rack = every(4 * 20'000);
  rack.per = rack.scope = RateUnit::rack;
  spec.failures.kinds.push_back(node);
  spec.failures.kinds.push_back(rack);
  spec.checkpoint.interval_steps = 50;
  spec.checkpoint.tiers = {{.name = "memory", .every = 1, .stall = s(0.5), .load = s(2), .survives = Survives::restart},
                           {.name = "peer", .every = 1, .persist = s(3), .load = s(4), .survives = Survives::one_node},
                           {.name = "storage", .every = 4, .stall = s(1), .persist = s(30), .load = s(20)}};
  RecoveryPolicy& r = spec.recovery;
  r = {.crash_detection = s(10),
       .collective_timeout = s(60),
       .watchdog_poll = s(30),
       .watchdog_threshold = s(20),
       .diagnosis = s(15),
       .scheduler = s(5),
       .container = s(7),
       .communicators = s(3),
       .warm_up = s(1),
       .spares = 3,
       .spare_swap = s(9),
       .spare_mtbf = s(5000),
       .repair = {LawKind::weibull, 3000, 2},
       .elastic = elastic,
       .reconfigure = s(4)};
  spec.course.ramp = {{0, 8}, {5'000'000, 16}};
  return spec;
}

/// Steps that get slower with everything that is wrong.
struct FullStepTimes final : StepTimes {
  Result<StepTime> of(const MachineState& state) const override {
    const double slow = 100.0 / state.gpu_speed_percent + 50.0 / state.link_speed_percent +
                        25.0 / state.uplink_speed_percent + 0.1 * state.lost_rails - 0.75;
    const std::int64_t tokens = state.global_batch * 100 * (16 - state.lost_replicas) / 16;
    return StepTime{from_seconds(slow * (state.global_batch == 8 ? 0.7 : 1.1)), tokens};
  }
};

}  // namespace

TEST_CASE("simulated goodput of a segment is the closed form, within three standard errors", "[oracle][reliability]") {
  const bool in_restart = GENERATE(true, false);
  const auto [mu, tau, delta, restart] = GENERATE(table<double, int, double, double>({{11135, 3600, 60, 600},
                                                                                      {11135, 1800, 30, 600},
                                                                                      {11135, 600, 5, 300},
                                                                                      {28800, 7200, 300, 1800},
                                                                                      {900, 600, 60, 120}}));
  CAPTURE(mu, tau, delta, restart, in_restart);
  const int segments = 20;
  JobSpec spec = quiet_job();
  spec.failures.kinds = {every(mu)};
  spec.course.target_tokens = segments * tau * 1000LL;
  spec.checkpoint = every_steps(tau, {.stall = s(delta)});
  spec.recovery.scheduler = s(restart);
  spec.recovery.failures_in_restart = in_restart;
  const Goodput goodput = simulate(spec, one_second_steps(), 3000);
  const CheckpointRegime regime{mu, delta, restart, in_restart};
  const CheckpointRegime last{mu, 0, restart, in_restart};  // training ends with the last step, not with a checkpoint
  const double expected = (segments - 1) * segment_time_s(tau, regime) + segment_time_s(tau, last);
  CHECK(goodput.wall_s.mean == Approx(expected).margin(3 * goodput.wall_s.standard_error));
  CHECK(goodput.wall_s.standard_error < 0.005 * expected);
}

TEST_CASE("waiting share is Erlang's loss formula", "[oracle][reliability]") {
  // One place: a/(1+a). Three: (a^3/6) / (1 + a + a^2/2 + a^3/6), a = 2: (8/6)/(1+2+2+8/6) = 4/19.
  CHECK(waiting_share(0.25, 0) == Approx(0.2));
  CHECK(waiting_share(2, 2) == Approx(4.0 / 19));
}

TEST_CASE("the share of time without enough nodes is Erlang's, for any law of the repair", "[oracle][reliability]") {
  const int spares = GENERATE(0, 2);
  const LawKind law = GENERATE(LawKind::exponential, LawKind::fixed, LawKind::weibull);
  const double repair = 20'000;
  const double mean_in_repair = 1.5;
  JobSpec spec = quiet_job(32);
  FailureKind kind = every(32 * repair / mean_in_repair);
  kind.per = kind.scope = RateUnit::node;
  spec.failures.kinds = {kind};
  spec.recovery.spares = spares;
  spec.recovery.repair = {law, repair, 2};
  spec.recovery.failures_in_restart = false;  // a part does not age while the job waits
  spec.horizon = s(400 * repair);
  const Goodput goodput = simulate(spec, one_second_steps(32), 200);
  const double expected = waiting_share(mean_in_repair, spares);
  // Work since the beginning is lost at every failure, so only waiting tells. Its error: 400 repairs x 200 histories.
  CAPTURE(spares, to_string(law), expected);
  CHECK(share(goodput, TimeCategory::waiting) == Approx(expected).epsilon(0.012));
}

TEST_CASE("a single idle spare that can fail is available for life / (life + repair) of the time",
          "[oracle][reliability]") {
  // One crash at the end of each history, long after the beginning: it waits a mean repair time with the probability
  // that the spare is away, r/(m + r), for the spare and its own node are repaired alike (exponential, no memory).
  const double life = 3000, repair = 1000;
  JobSpec spec = quiet_job(4);
  FailureKind crash = once(50'000);
  crash.per = RateUnit::job;
  crash.scope = RateUnit::node;
  spec.failures.kinds = {crash};
  spec.recovery.spares = 1;
  spec.recovery.spare_mtbf = s(life);
  spec.recovery.repair = {LawKind::exponential, repair, 1};
  spec.checkpoint = every_steps(10);
  spec.horizon = s(60'000);
  const Goodput goodput = simulate(spec, one_second_steps(4), 4000);
  // The first of two repairs (the spare's, the node's) ends the wait: half the mean.
  const double expected = repair / (life + repair) * repair / 2;
  CHECK(share(goodput, TimeCategory::waiting) * 60'000 == Approx(expected).epsilon(0.1));
}

TEST_CASE("the mean time to failure follows the model and falls with scale", "[oracle][reliability]") {
  const int nodes = GENERATE(16, 256, 2048);
  JobSpec spec = quiet_job(nodes);
  FailureKind kind = every(6334.6 * 3600);
  kind.per = RateUnit::node;
  spec.failures.kinds = {kind};
  spec.horizon = s(54 * 86400.0);
  const Goodput goodput = simulate(spec, one_second_steps(nodes), 400);
  const double expected = 54 * 24 * nodes / 6334.6;  // 419 at 2048 nodes
  CHECK(goodput.interruptions.mean == Approx(expected).margin(3 * goodput.interruptions.standard_error));
  CHECK(goodput.interruptions.standard_error == Approx(std::sqrt(expected / 400)).epsilon(0.15));
  CHECK(interruption_rate_s(spec.failures, spec.machine, {}) * 54 * 86400 == Approx(expected));
}

TEST_CASE("every tick is counted exactly once", "[property][reliability]") {
  const Elastic elastic = GENERATE(Elastic::off, Elastic::shrink_batch);
  const bool in_restart = GENERATE(true, false);
  JobSpec spec = eventful_job(elastic);
  spec.recovery.failures_in_restart = in_restart;
  spec.recovery.elastic_rollback = in_restart;
  std::vector<int> seen(spec.failures.kinds.size());
  for (std::uint32_t i = 0; i < 100; ++i) {
    CAPTURE(to_string(elastic), in_restart, i);
    const Result<History> history = simulate_history(spec, FullStepTimes{}, 7, i, true);
    REQUIRE(history.has_value());
    REQUIRE(history->wall == spec.horizon);
    REQUIRE(total(history->waterfall) == history->wall);
    for (const JobTime& part : history->waterfall) REQUIRE(part >= JobTime{});
    // The spans are an account of their own: they follow each other without gap, and agree with the waterfall.
    Waterfall spans{};
    JobTime now;
    for (const JobSpan& span : history->spans) {
      REQUIRE(span.begin == now);
      REQUIRE(span.end > span.begin);
      now = span.end;
      spans[static_cast<std::size_t>(span.category)] += span.end - span.begin;
    }
    REQUIRE(now == history->wall);
    const auto by_spans = [&](TimeCategory what) { return spans[static_cast<std::size_t>(what)]; };
    for (const TimeCategory what : {TimeCategory::detection, TimeCategory::diagnosis, TimeCategory::waiting,
                                    TimeCategory::restart, TimeCategory::load, TimeCategory::planned})
      REQUIRE(by_spans(what) == of(*history, what));
    REQUIRE(by_spans(TimeCategory::productive) + by_spans(TimeCategory::checkpoint) ==
            of(*history, TimeCategory::productive) + of(*history, TimeCategory::degraded) +
                of(*history, TimeCategory::lost) + of(*history, TimeCategory::checkpoint));
    for (std::size_t kind = 0; kind < seen.size(); ++kind) seen[kind] += history->events[kind];
  }
  for (const int count : seen) CHECK(count > 50);
}

TEST_CASE("one thread, three threads and a repeated seed give the same result", "[differential][reliability]") {
  const JobSpec spec = eventful_job(Elastic::shrink_batch);
  const Goodput one = simulate(spec, FullStepTimes{}, 50, 1);
  const Goodput three = simulate(spec, FullStepTimes{}, 50, 3);
  CHECK(one.goodputs == three.goodputs);
  CHECK(one.share == three.share);
  CHECK(one.events == three.events);
}

TEST_CASE("with common draws, more failures never give more goodput on average", "[property][reliability]") {
  JobSpec spec = eventful_job(Elastic::off);
  const JobSpec base = spec;
  std::vector<double> before;
  for (const double factor : {0.25, 0.5, 1.0, 1.5, 2.0, 4.0}) {
    spec.failures = scaled(base.failures, factor, {});
    const Goodput now = simulate(spec, FullStepTimes{}, test::cases(1000));
    if (!before.empty()) {
      std::vector<double> rise(before.size());
      for (std::size_t i = 0; i < rise.size(); ++i) rise[i] = now.goodputs[i] - before[i];
      const Estimate e = estimate(rise, 0.95);
      CAPTURE(factor, e.mean, e.standard_error);
      CHECK(e.mean <= 3 * e.standard_error);
    }
    before = now.goodputs;
  }
}

TEST_CASE("elastic throughput is the closed form when failures are rare", "[oracle][reliability]") {
  JobSpec spec = quiet_job(64);
  FailureKind kind = every(64 * 20'000.0);
  kind.per = kind.scope = RateUnit::node;
  spec.failures.kinds = {kind};
  spec.horizon = s(4e6);
  spec.recovery.elastic = Elastic::shrink_batch;
  spec.recovery.repair = {LawKind::exponential, 40'000, 1};
  spec.recovery.reconfigure = s(50);
  const Goodput goodput = simulate(spec, one_second_steps(64), 200);
  // Each failure reconfigures twice, out and in, and loses half a step. Nodes in repair: a little below Poisson's 2,
  // for those that are out fail no more: (64 - x) / (64 x 20000) = x / 40000.
  const double down = 64.0 / 33;
  const double rate = (64 - down) / (64 * 20'000.0);
  const double expected = 1 - down / 64 - rate * (100 + 0.5);
  CHECK(goodput.goodput.mean == Approx(expected).margin(3 * goodput.goodput.standard_error + 2e-4));
}

TEST_CASE("the best simulated interval agrees with Young, Daly and Lambert", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.failures.kinds = {every(11135)};
  spec.horizon = s(54 * 86400.0);
  spec.checkpoint = every_steps(1000, {.stall = s(60)});
  spec.recovery.scheduler = s(600);
  const GoodputOptions options{.min_histories = 200, .threads = 2};
  const Result<BestInterval> best = best_interval(spec, one_second_steps(), 700, options);
  REQUIRE(best.has_value());
  const double exact = optimal_interval_s(60, 11135);  // 1116 s
  CHECK(static_cast<double>(best->at_least) <= exact * 1.1);
  CHECK(static_cast<double>(best->at_most) >= exact / 1.1);
  CHECK(static_cast<double>(best->interval_steps) == Approx(exact).epsilon(0.25));
  CHECK(best->trials.size() >= 11);
}

TEST_CASE("best interval: all that are not significantly worse, from the shortest to the longest",
          "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.failures.kinds = {every(11135)};
  spec.horizon = s(2 * 86400.0);
  spec.checkpoint = every_steps(1000, {.stall = s(60)});
  GoodputOptions options{.threads = 1};
  // Two histories give no estimate: no interval is worse.
  options.min_histories = 2;
  const BestInterval vague = best_interval(spec, one_second_steps(), 700, options).value();
  CHECK(vague.at_least == vague.trials.front().interval_steps);
  CHECK(vague.at_most == vague.trials.back().interval_steps);
  // Many say a lot: the shortest and the longest are worse, and the best is in the range.
  options.min_histories = 300;
  const BestInterval sharp = best_interval(spec, one_second_steps(), 700, options).value();
  CHECK(sharp.at_least > sharp.trials.front().interval_steps);
  CHECK(sharp.at_most < sharp.trials.back().interval_steps);
  CHECK(sharp.at_least <= sharp.interval_steps);
  CHECK(sharp.at_most >= sharp.interval_steps);
}

TEST_CASE("the interval of a mean is Student's, and histories are added until it is narrow enough",
          "[oracle][reliability]") {
  // t(0.975, 2) = 4.30265; mean 2, standard deviation 1.
  const Estimate e = estimate({1, 2, 3}, 0.95);
  CHECK(e.mean == 2);
  CHECK(e.high - e.mean == Approx(4.30265 / std::sqrt(3)).epsilon(1e-5));

  JobSpec spec = quiet_job();
  spec.failures.kinds = {every(5000)};
  spec.horizon = s(1e5);
  spec.checkpoint = every_steps(500, {.stall = s(10)});
  GoodputOptions options{.half_width = 0.005};
  const Goodput narrow = *simulate_goodput(spec, one_second_steps(), options);
  CHECK(narrow.narrow_enough);
  CHECK((narrow.goodput.high - narrow.goodput.low) / 2 <= 0.005);
  CHECK(narrow.histories < 10'000);
  options.max_histories = 70;
  options.half_width = 1e-9;
  const Goodput wide = *simulate_goodput(spec, one_second_steps(), options);
  CHECK_FALSE(wide.narrow_enough);
  CHECK(wide.histories == 70);
}

TEST_CASE("shares of histories of different length are weighted by their length", "[oracle][reliability]") {
  // (1 x 1 + 0.5 x 3) / 4; the mean of the shares alone would be 0.75.
  const std::vector<double> values = ratio_values({1, 0.5}, {1, 3});
  CHECK(estimate(values, 0.95).mean == Approx(0.625));
  CHECK(values[0] == Approx(0.625 + 0.5 * 0.375));
  CHECK(ratio_values({0.9, 0.5, 0.7}, {2, 2, 2}) == std::vector<double>{0.9, 0.5, 0.7});
  CHECK_FALSE(estimate({0.5}, 0.95).has_interval());
}

TEST_CASE("histories to a number of tokens: goodput times their mean length is the work", "[oracle][reliability]") {
  JobSpec spec = quiet_job();
  spec.failures.kinds = {every(1500)};
  spec.recovery.scheduler = s(100);
  spec.course.target_tokens = 1000 * 1000;  // 1000 s of work, which most histories begin more than once
  const Goodput goodput = simulate(spec, one_second_steps(), 2000);
  CHECK(goodput.at_target == 2000);
  CHECK(goodput.goodput.mean * goodput.wall_s.mean == Approx(1000));
  CHECK(share(goodput, TimeCategory::productive) * goodput.wall_s.mean == Approx(1000));
  // W = (mu + restart) (e^(work / mu) - 1): Daly's segment without a checkpoint, failures in restarts aside.
  const CheckpointRegime regime{1500, 0, 100, true};
  CHECK(goodput.wall_s.mean == Approx(segment_time_s(1000, regime)).margin(3 * goodput.wall_s.standard_error));
  // The interval of the ratio, against 40 groups of 50 histories.
  std::vector<double> groups;
  for (std::size_t begin = 0; begin < 2000; begin += 50) {
    const auto from = static_cast<std::ptrdiff_t>(begin);
    const std::vector<double> shares(goodput.goodputs.begin() + from, goodput.goodputs.begin() + from + 50);
    const std::vector<double> walls(goodput.walls_s.begin() + from, goodput.walls_s.begin() + from + 50);
    groups.push_back(estimate(ratio_values(shares, walls), 0.95).mean);
  }
  CHECK(goodput.goodput.standard_error == Approx(estimate(groups, 0.95).standard_error).epsilon(0.3));
}
