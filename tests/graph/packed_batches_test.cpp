/// Steps of packed documents: times of the graph's attention, the step of the slowest rank, folding.
#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "sim/cost/attention.hpp"
#include "sim/cost/costs.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using tracecast::test::run;
using tracecast::test::small_scenario;

namespace {

Documents fixed(std::int64_t tokens) {
  Documents documents;
  documents.mean = tokens;
  documents.steps = 2;
  return documents;
}

/// Sequences of one document or of two halves.
Documents halves_and_wholes(std::int64_t sequence, int steps) {
  Documents documents;
  documents.law = LengthLaw::histogram;
  documents.histogram = {{std::to_string(sequence), 1}, {std::to_string(sequence / 2), 4}};
  documents.packing = Packing::first_fit;
  documents.steps = steps;
  return documents;
}

}  // namespace

TEST_CASE("packed attention: equal documents are a batch of short sequences", "[oracle][cost][packing]") {
  const Scenario scenario = small_scenario(1, 1, 8);
  const Costs costs(scenario.profile);
  const Pass pass = GENERATE(Pass::forward, Pass::backward);
  const std::int64_t window = GENERATE(0, 600);
  Operator whole{OperatorKind::attention, pass, Precision::bf16, "attention", {}};
  whole.shape = AttentionShape{2, 4096, 4096, 32, 8, 128, 128, true, window};
  Operator batch = whole;
  batch.shape = AttentionShape{8, 1024, 1024, 32, 8, 128, 128, true, window};
  const std::vector<std::int32_t> documents(8, 1024);
  CHECK(seconds(costs.over_documents(whole, documents, 4096)) ==
        Approx(seconds(costs.of(batch).duration)).epsilon(1e-9));
  // The same sequences as one document each.
  CHECK(seconds(costs.over_documents(whole, std::vector<std::int32_t>{4096, 4096}, 4096)) ==
        Approx(seconds(costs.of(whole).duration)).epsilon(1e-9));
}

TEST_CASE("packed steps: equal documents take the step of short sequences", "[oracle][graph][packing]") {
  const int tp = GENERATE(1, 2);
  const int pp = GENERATE(1, 2);
  Scenario short_sequences = small_scenario(tp, pp, 2);
  short_sequences.training.micro_batch_size = 4;
  short_sequences.training.global_batch_size *= 4;
  Scenario packed = small_scenario(tp, pp, 2);
  packed.training.seq_length = 4096;
  packed.training.documents = fixed(1024);
  const Forecast expected = run(short_sequences).forecast;
  const Forecast actual = run(packed).forecast;
  CHECK(actual.step_time_s == Approx(expected.step_time_s).epsilon(1e-8));
  CHECK(actual.mfu == Approx(expected.mfu).epsilon(1e-8));
  CHECK(actual.hfu == Approx(expected.hfu).epsilon(1e-8));
  CHECK(actual.packed->attended == 0.25);
  CHECK(actual.packed->useful_share == 1);
  CHECK(actual.packed->p95_s == actual.step_time_s);
  CHECK(actual.packed->balanced_s == actual.step_time_s);
}

TEST_CASE("packed steps: without a mask, or with one document each, nothing changes", "[oracle][graph][packing]") {
  Scenario scenario = small_scenario(1, 2, 2);
  const Forecast plain = run(scenario).forecast;
  scenario.training.documents = fixed(1024);
  CHECK(run(scenario).forecast.step_time_s == Approx(plain.step_time_s).epsilon(1e-9));
  scenario.training.documents = fixed(100);
  scenario.training.documents->mask = false;
  const Forecast unmasked = run(scenario).forecast;
  CHECK(unmasked.step_time_s == plain.step_time_s);
  CHECK(unmasked.mfu == plain.mfu);
}

TEST_CASE("packed steps: a step waits for the rank with the longest documents", "[oracle][graph][packing]") {
  // One micro-batch per rank: if one rank has a whole sequence, each of its operations ends no earlier than the other rank's,
  // so the step is that of ranks which all have whole sequences; else that of ranks which all have halves.
  Scenario scenario = small_scenario(1, 1, 2);
  scenario.training.global_batch_size = 2;
  scenario.training.seq_length = 16384;
  const auto step_of = [&](const Documents& documents) {
    Scenario each = scenario;
    each.training.documents = documents;
    return run(each).forecast;
  };
  const double whole = step_of(fixed(16384)).step_time_s;
  const double halves = step_of(fixed(8192)).step_time_s;
  REQUIRE(whole > 1.01 * halves);
  scenario.training.documents = halves_and_wholes(16384, 40);
  const ForecastRun mixed = run(scenario);
  int slow = 0;
  for (int step = 0; step < 40; ++step)
    slow += mixed.plan.packed->pack(step, 0).size() == 1 || mixed.plan.packed->pack(step, 1).size() == 1 ? 1 : 0;
  REQUIRE(slow > 2);
  REQUIRE(slow < 38);
  CHECK(mixed.forecast.step_time_s == Approx((slow * whole + (40 - slow) * halves) / 40).epsilon(1e-8));
  CHECK(mixed.forecast.packed->p95_s == Approx(whole).epsilon(1e-8));
  CHECK(mixed.forecast.packed->p5_s == Approx(halves).epsilon(1e-8));
  CHECK(mixed.forecast.packed->balanced_s < mixed.forecast.step_time_s);
  CHECK(mixed.forecast.packed->balanced_s > halves);
}

TEST_CASE("packed steps: micro-batches of one rank take their own times", "[oracle][engine][packing]") {
  StepGraph graph;
  graph.streams = {{"compute"}};
  graph.microbatches = 3;
  graph.operators.resize(2);
  Template work;
  for (const std::int32_t payload : {0, 1}) {
    Op op;
    op.payload = payload;
    op.duration = 10_us;
    work.ops.push_back(op);
  }
  graph.templates = {work};
  graph.programs = {{{0, 0}, {0, 1}, {0, 2}}};
  // Operator 1 takes 1, 2 and 4 us in the step at hand; operator 0 always 10. The rank is slower by a half.
  graph.varying = {1, 3, {-1, 0}, {{7_us, 7_us, 7_us, 1_us, 2_us, 4_us}}};
  Rank rank;
  rank.first_batch = 0;
  rank.slowdown = kNoSlowdown + kNoSlowdown / 2;
  graph.ranks = {rank};
  const EngineOptions options{.record_spans = GENERATE(false, true)};
  const Timeline timeline = simulate(graph, {}, options).value();
  CHECK(timeline.step_time == Duration{(30_us + 7_us).picoseconds * 3 / 2});
}

TEST_CASE("packed steps: folded and unfolded runs agree to the picosecond", "[folding][graph][packing]") {
  const int tp = GENERATE(1, 2);
  const int pp = GENERATE(1, 2);
  const int zero_stage = GENERATE(0, 3);
  Scenario scenario = small_scenario(tp, pp, 4);
  scenario.training.global_batch_size = 16;
  scenario.training.seq_length = 4096;
  scenario.parallel.zero_stage = pp == 1 ? zero_stage : 0;
  scenario.training.documents = halves_and_wholes(4096, 3);
  ForecastOptions options{.network = GENERATE(NetworkKind::isolated, NetworkKind::fluid)};
  const ForecastRun folded = run(scenario, options);
  options.unfold = true;
  const ForecastRun unfolded = run(scenario, options);
  CHECK(folded.graph.ranks.size() == static_cast<std::size_t>(4 * pp));
  CHECK(unfolded.graph.ranks.size() == static_cast<std::size_t>(4 * pp * tp));
  CHECK(folded.forecast.step_time_s == unfolded.forecast.step_time_s);
  CHECK(folded.forecast.packed->p5_s == unfolded.forecast.packed->p5_s);
  CHECK(folded.forecast.packed->p95_s == unfolded.forecast.packed->p95_s);
  CHECK(folded.forecast.packed->balanced_s == unfolded.forecast.packed->balanced_s);
  CHECK(folded.forecast.exposed_s == unfolded.forecast.exposed_s);
  CHECK(folded.forecast.bubble_fraction == unfolded.forecast.bubble_fraction);
  CHECK(folded.forecast.compute_s == unfolded.forecast.compute_s);
}

TEST_CASE("packed steps: the number of threads and recorded spans change nothing", "[property][graph][packing]") {
  Scenario scenario = small_scenario(1, 2, 4);
  scenario.training.seq_length = 4096;
  scenario.training.documents = halves_and_wholes(4096, 3);
  ForecastOptions options{.network = NetworkKind::isolated, .transfers_slow_compute = false};
  const Forecast one = run(scenario, options).forecast;
  options.threads = 3;
  CHECK(run(scenario, options).forecast.step_time_s == one.step_time_s);
  options.record_spans = true;
  const ForecastRun recorded = run(scenario, options);
  CHECK(recorded.forecast.step_time_s == one.step_time_s);
  REQUIRE_FALSE(recorded.timeline.spans.empty());
  // The timeline is that of a step that was simulated: its spans end with it.
  Duration end;
  for (const Span& span : recorded.timeline.spans) end = std::max(end, span.end);
  CHECK(end == recorded.timeline.step_time);
  for (const RankTime& time : recorded.timeline.ranks) CHECK(time.total() == recorded.timeline.step_time);
}

TEST_CASE("packed steps: padding is computed and not useful", "[oracle][graph][packing]") {
  Scenario scenario = small_scenario(1, 1, 2);
  scenario.training.documents = fixed(256);
  scenario.training.documents->packing = Packing::none;
  const Forecast f = run(scenario).forecast;
  CHECK(f.packed->useful_share == 0.25);
  CHECK(f.packed->useful_tokens_per_s == Approx(f.tokens_per_s / 4));
  CHECK(f.tokens_per_step == 16 * 1024);
  // A sequence has one document of 256 tokens and padding: MFU counts its attention, and all linear work.
  const auto flops_per_token = [&](std::int64_t length) {
    Training training = scenario.training;
    training.seq_length = length;
    return training_flops_per_token(scenario.model, training, f.flops_convention);
  };
  const double flops = f.tokens_per_step * (0.25 * flops_per_token(256) + 0.75 * flops_per_token(1));
  CHECK(f.model_tflops_per_gpu == Approx(flops / f.step_time_s / 2 * 1e-12));
}

TEST_CASE("packed steps: with context parallelism ranks of a group have equal parts", "[graph][packing]") {
  Scenario scenario = small_scenario(1, 1, 1);
  scenario.parallel.cp = 2;
  scenario.cluster.world_size = 4;
  scenario.training.seq_length = 8192;
  scenario.training.global_batch_size = 8;
  scenario.parallel.cp_comm_type = GENERATE(ContextExchange::p2p, ContextExchange::all_gather, ContextExchange::a2a);
  scenario.parallel.dp = 2;
  scenario.training.documents = fixed(8192);
  const Forecast whole = run(scenario).forecast;
  Scenario plain = scenario;
  plain.training.documents.reset();
  CHECK(whole.step_time_s == Approx(run(plain).forecast.step_time_s).epsilon(1e-6));
  scenario.training.documents = halves_and_wholes(8192, 2);
  const ForecastRun mixed = run(scenario);
  CHECK(mixed.graph.ranks.size() == 2);  // a class for each data-parallel rank
  CHECK(mixed.forecast.step_time_s < whole.step_time_s);
}

namespace {

/// Two or more context ranks, sequences of 16,384 tokens, and all gradients reduced after the last backward.
Scenario dynamic_scenario(int cp, int dp) {
  Scenario scenario = small_scenario(1, 1, dp);
  scenario.parallel.cp = cp;
  scenario.parallel.overlap_grad_reduce = false;
  scenario.cluster.world_size = cp * dp;
  scenario.training.seq_length = 16384;
  scenario.training.global_batch_size = 4 * dp;
  return scenario;
}

/// Documents for bins: of one length, or of a histogram.
Documents binned(Documents documents) {
  documents.packing = Packing::dynamic_cp;
  return documents;
}

}  // namespace

TEST_CASE("dynamic context parallelism: documents as long as a sequence take all ranks", "[oracle][graph][packing]") {
  Scenario scenario = dynamic_scenario(GENERATE(2, 4), 2);
  scenario.parallel.cp_comm_type = GENERATE(ContextExchange::p2p, ContextExchange::all_gather, ContextExchange::a2a);
  scenario.training.documents = fixed(16384);
  const Forecast divided = run(scenario).forecast;
  scenario.training.documents = binned(fixed(16384));
  const Forecast dynamic = run(scenario).forecast;
  CHECK(dynamic.step_time_s == divided.step_time_s);
  CHECK(dynamic.exposed_s == divided.exposed_s);
  CHECK(dynamic.mfu == Approx(divided.mfu));
  CHECK(dynamic.packed->attended == 1);
}

TEST_CASE("dynamic context parallelism: short documents stay on one rank each", "[oracle][graph][packing]") {
  // Two ranks with half a sequence each do what two replicas with short sequences do; their gradients have the same group.
  Scenario scenario = dynamic_scenario(2, 2);
  scenario.training.documents = binned(fixed(8192));
  const Forecast dynamic = run(scenario).forecast;
  Scenario replicas = dynamic_scenario(1, 4);
  replicas.training.seq_length = 8192;
  const Forecast plain = run(replicas).forecast;
  CHECK(dynamic.step_time_s == Approx(plain.step_time_s).epsilon(1e-8));
  CHECK(dynamic.mfu == Approx(plain.mfu).epsilon(1e-8));
  CHECK(dynamic.packed->attended == 0.5);
  CHECK(dynamic.exposed_s[static_cast<std::size_t>(Traffic::context_parallel)] == 0);
}

TEST_CASE("dynamic context parallelism: each micro-batch takes the time of its own bins", "[oracle][graph][packing]") {
  // One replica of two ranks. A long document takes both; short ones are equal, so that the ranks never wait for each other, and a
  // step of four micro-batches is the mean of steps that are all of one kind.
  Scenario scenario = dynamic_scenario(2, 1);
  scenario.parallel.cp_comm_type = GENERATE(ContextExchange::p2p, ContextExchange::all_gather);
  const auto step_of = [&](const Documents& documents) {
    Scenario each = scenario;
    each.training.documents = binned(documents);
    return run(each);
  };
  const double whole = step_of(fixed(16384)).forecast.step_time_s;
  const double halves = step_of(fixed(8192)).forecast.step_time_s;
  REQUIRE(whole > 1.01 * halves);
  const ForecastRun mixed = step_of(halves_and_wholes(16384, 10));
  const PackedSteps& packed = *mixed.plan.packed;
  const double share =
      static_cast<double>(std::ranges::count(packed.bins, 2, [&](std::int32_t bin) { return packed.ranks_of(bin); })) /
      static_cast<double>(packed.bins.size());
  REQUIRE(share > 0.1);
  REQUIRE(share < 0.9);
  CHECK(mixed.forecast.step_time_s == Approx(share * whole + (1 - share) * halves).epsilon(1e-6));
  CHECK(mixed.forecast.packed->balanced_s == 0);
  scenario.training.documents = halves_and_wholes(16384, 10);
  scenario.training.documents->packing = Packing::best_fit;
  CHECK(mixed.forecast.step_time_s < run(scenario).forecast.step_time_s);
}

TEST_CASE("dynamic context parallelism: pipelines, tensor ranks and threads agree", "[graph][packing]") {
  Scenario scenario = dynamic_scenario(4, 2);
  const int pp = GENERATE(1, 2);
  scenario.parallel.pp = pp;
  scenario.parallel.tp = 2;
  scenario.parallel.zero_stage = pp == 1 ? 3 : 1;
  scenario.cluster.world_size = 16 * pp;
  scenario.training.recompute = Recompute::full;
  Documents documents;
  documents.law = LengthLaw::lognormal;
  documents.mean = 3000;
  documents.sigma = 1.2;
  documents.steps = 3;
  scenario.training.documents = binned(documents);
  ForecastOptions options{.record_spans = true};
  const ForecastRun one = run(scenario, options);
  CHECK(one.graph.ranks.size() == static_cast<std::size_t>(16 * pp));
  CHECK(std::ranges::count(one.plan.packed->bin_ranks, 1) > 0);
  CHECK(std::ranges::count(one.plan.packed->bin_ranks, 4) > 0);
  Duration end;
  for (const Span& span : one.timeline.spans) end = std::max(end, span.end);
  CHECK(end == one.timeline.step_time);
  for (const RankTime& time : one.timeline.ranks) CHECK(time.total() == one.timeline.step_time);
  options.record_spans = false;
  options.threads = 3;
  CHECK(run(scenario, options).forecast.step_time_s == one.forecast.step_time_s);
}
