/// A folded run gives what simulating every rank gives, to the picosecond: step time and the account of every rank.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "sim/forecast/colocated.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/builder.hpp"
#include "sim/graph/folded_step.hpp"
#include "sim/io/files.hpp"
#include "sim/network/measured_network.hpp"
#include "sim/report/json.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::small_scenario;

namespace {

/// What each rank's time went into.
using Account = std::vector<std::int64_t>;

Account account_of(const RankTime& time) {
  Account account{time.compute.picoseconds, time.bubble.picoseconds, time.host.picoseconds, time.optimizer.picoseconds};
  for (const Duration exposed : time.exposed) account.push_back(exposed.picoseconds);
  return account;
}

ForecastRun run_forecast(const Scenario& scenario, bool unfold, int threads = 1,
                         NetworkKind network = NetworkKind::isolated, bool slows_compute = false) {
  return value_of(forecast(
      scenario, {.unfold = unfold, .threads = threads, .network = network, .transfers_slow_compute = slows_compute}));
}

/// Ranks of each pipeline rank with each account.
std::map<std::pair<int, Account>, std::int64_t> accounts(const ForecastRun& result) {
  std::map<std::pair<int, Account>, std::int64_t> count;
  for (std::size_t r = 0; r < result.graph.ranks.size(); ++r)
    count[{result.graph.ranks[r].pp_rank, account_of(result.timeline.ranks[r])}] += result.graph.ranks[r].multiplicity;
  return count;
}

/// Every class of `folded` has the times that each of its ranks has in `unfolded`.
void check_same(const ForecastRun& folded, const ForecastRun& unfolded) {
  CHECK(folded.timeline.step_time == unfolded.timeline.step_time);
  for (std::size_t c = 0; c < folded.graph.ranks.size(); ++c)
    CHECK(folded.timeline.ranks[c] ==
          unfolded.timeline.ranks[static_cast<std::size_t>(folded.graph.ranks[c].representative)]);
  CHECK(accounts(folded) == accounts(unfolded));
}

/// The forecast as it is printed, but for what tells the two runs apart.
std::string printed(const Scenario& scenario, Forecast forecast) {
  forecast.classes = 0;
  forecast.events = 0;
  return result_json(scenario, forecast);
}

/// Classes of the folded run.
std::size_t check_fold(const Scenario& scenario, NetworkKind network = NetworkKind::isolated,
                       bool slows_compute = false) {
  const ForecastRun folded = run_forecast(scenario, false, 1, network, slows_compute);
  const ForecastRun unfolded = run_forecast(scenario, true, 1, network, slows_compute);
  REQUIRE(unfolded.graph.ranks.size() == static_cast<std::size_t>(scenario.cluster.world_size));
  check_same(folded, unfolded);
  CHECK(printed(scenario, folded.forecast) == printed(scenario, unfolded.forecast));  // to the last digit
  return folded.graph.ranks.size();
}

struct JobLayout {
  const char* name;
  int tp, pp, dp;
  int cp = 1, ep = 1, vpp = 1, zero = 0;
  const char* order = "tp-cp-ep-dp-pp";
  bool separate_gathers = false;
  int etp = 0, shard_group = 0;
};

const std::vector<JobLayout>& job_layouts() {
  static const std::vector<JobLayout> all{
      {.name = "data parallel", .tp = 1, .pp = 1, .dp = 32},
      {.name = "tensor and data parallel, zero 1", .tp = 8, .pp = 1, .dp = 8, .zero = 1},
      {.name = "three ways", .tp = 2, .pp = 4, .dp = 4},
      {.name = "three ways, interleaved, zero 2", .tp = 4, .pp = 2, .dp = 8, .vpp = 2, .zero = 2},
      {.name = "fully sharded", .tp = 1, .pp = 1, .dp = 24, .zero = 3},
      {.name = "context parallel", .tp = 2, .pp = 2, .dp = 4, .cp = 2, .zero = 1},
      // Messages between adjacent stages leave a node by its last NIC and enter it by its first: turning a node's GPUs by one moves
      // the group to itself, but not its loads.
      {.name = "context parallel over nodes", .tp = 1, .pp = 1, .dp = 2, .cp = 16, .zero = 1},
      {.name = "experts", .tp = 2, .pp = 2, .dp = 8, .ep = 4, .zero = 1},
      {.name = "fully sharded experts", .tp = 1, .pp = 1, .dp = 16, .ep = 4, .zero = 3},
      {.name = "experts over data ranks", .tp = 1, .pp = 2, .dp = 16, .ep = 2, .zero = 1, .etp = 4},
      {.name = "copies with all experts", .tp = 1, .pp = 1, .dp = 32, .ep = 4, .zero = 3, .shard_group = 8},
      {.name = "gathers apart", .tp = 1, .pp = 1, .dp = 24, .zero = 3, .separate_gathers = true},
      {.name = "pipeline first", .tp = 2, .pp = 4, .dp = 4, .order = "pp-tp-cp-ep-dp"},
      {.name = "tensor groups across nodes", .tp = 16, .pp = 2, .dp = 2},
  };
  return all;
}

Scenario scenario_of(const JobLayout& layout) {
  Scenario scenario = small_scenario(layout.tp, layout.pp, layout.dp);
  Parallel& p = scenario.parallel;
  p.cp = layout.cp;
  p.ep = layout.ep;
  p.vpp = layout.vpp;
  p.zero_stage = layout.zero;
  p.rank_order = layout.order;
  p.separate_gather_group = layout.separate_gathers;
  p.etp = layout.etp;
  p.shard_group = layout.shard_group;
  scenario.cluster.world_size *= layout.cp;
  if (layout.ep > 1) scenario.model.moe = MixtureOfExperts{.experts = 8, .topk = 2, .ffn_hidden = 1024};
  return scenario;
}

struct NamedPerturbation {
  const char* name;
  void (*apply)(Scenario&);
  bool splits = true;
};

const std::vector<NamedPerturbation>& perturbations() {
  static const std::vector<NamedPerturbation> all{
      {"none", [](Scenario&) {}, false},
      {"a slow rank",
       [](Scenario& s) {
         s.perturbation.slow_ranks = {{{5, 5}, 1.3}};
       }},
      {"slow and fast ranks",
       [](Scenario& s) {
         s.perturbation.slow_ranks = {{{0, 7}, 1.1}, {{12, 12}, 0.8}, {{3, 4}, 2}};
       }},
      {"a slow NIC",
       [](Scenario& s) {
         s.cluster.faults.slow_nics = {{1, 2, 0.5}};
       }},
      {"a lost rail", [](Scenario& s) { s.cluster.faults.lost_rails = {3}; }, false},
      {"a node without two of its GPUs",
       [](Scenario& s) {
         s.cluster.faults.missing_gpus = {{1, 2}};
       }},
      {"another GPU in some places",
       [](Scenario& s) {
         const std::filesystem::path root = source_dir();
         s.perturbation.gpus = {{{8, 15}, "a100", read_profile(root / "kernels/profiles/a100.json").value()}};
       }},
      {"every rank at its own speed",
       [](Scenario& s) {
         s.perturbation.speed_spread = 0.05;
         s.perturbation.seed = 7;
       }},
  };
  return all;
}

/// Gradients and activations that get into each other's way.
Scenario with_narrow_links(Scenario scenario) {
  scenario.parallel.overlap_grad_reduce = scenario.parallel.overlap_param_gather = true;
  scenario.cluster.node.nic_rate.bytes_per_second /= 8;
  return scenario;
}

/// The step of one pipeline without the other ranks, each transfer as fast as alone.
Duration one_pipeline(const Scenario& s, const ForecastRun& run) {
  const Costs costs(s.profile, s.training.attention_kernel);
  const std::unique_ptr<NetworkModel> network = make_network(s.cluster, s.profile);
  const StepGraph graph = build_step_graph({s.model, run.plan, run.schedule, s.cluster, costs, *network},
                                           {SimulatedRanks::one_pipeline, &s.perturbation});
  CHECK(graph.ranks.size() == static_cast<std::size_t>(run.plan.parallel.pp));
  return simulate(graph).value().step_time;
}

}  // namespace

TEST_CASE("folding: no step is shorter than that of one of its pipelines", "[property][folding][fluid]") {
  int equal = 0;
  for (const JobLayout& layout : job_layouts())
    for (const NamedPerturbation& perturbation : perturbations()) {
      INFO(layout.name << ", " << perturbation.name);
      Scenario scenario = with_narrow_links(scenario_of(layout));
      perturbation.apply(scenario);
      const ForecastRun alone = run_forecast(scenario, false);
      const Duration bound = one_pipeline(scenario, alone);
      CHECK(bound <= alone.timeline.step_time);
      CHECK(bound <= run_forecast(scenario, false, 1, NetworkKind::fluid).timeline.step_time);
      CHECK(bound <= run_forecast(scenario, false, 1, NetworkKind::fluid, true).timeline.step_time);
      equal += bound == alone.timeline.step_time ? 1 : 0;
    }
  CHECK(equal > 25);  // most healthy ones: all their ranks are as fast as the first
}

TEST_CASE("folding: folded = unfolded, every layout under every perturbation", "[metamorphic][folding]") {
  for (const JobLayout& layout : job_layouts())
    for (const NamedPerturbation& perturbation : perturbations()) {
      INFO(layout.name << ", " << perturbation.name);
      Scenario scenario = scenario_of(layout);
      const std::size_t healthy = run_forecast(scenario, false).graph.ranks.size();
      perturbation.apply(scenario);
      const std::size_t classes = check_fold(scenario);
      if (perturbation.splits) CHECK(classes >= healthy);
    }
}

TEST_CASE("folding: folded = unfolded for every schedule, with and without a slow rank", "[metamorphic][folding]") {
  for (const ScheduleVariant& variant : schedule_variants())
    for (int vpp : {1, 2, 4}) {
      if (!make_schedule(std::string(variant.name), {.ranks = 2, .microbatches = 8, .chunks = vpp})) continue;
      INFO(variant.name << " vpp " << vpp);
      Scenario scenario = small_scenario(2, 2, 4);
      scenario.parallel.vpp = vpp;
      scenario.parallel.pp_schedule = std::string(variant.name);
      CHECK(check_fold(scenario) == 2);
      scenario.perturbation.slow_ranks = {{{9, 9}, 1.5}};
      CHECK(check_fold(scenario) > 2);
    }
}

TEST_CASE("folding: folded = unfolded at 1,024 ranks", "[metamorphic][folding]") {
  Scenario scenario = small_scenario(8, 4, 32);
  scenario.parallel.zero_stage = 1;
  CHECK(check_fold(scenario) == 4);
  SECTION("one slow rank: in each stage its rank, its tensor group, its data group, and the others") {
    scenario.perturbation.slow_ranks = {{{37, 37}, 1.3}};
    CHECK(check_fold(scenario) == 16);
  }
  SECTION("a slow NIC and a hole") {
    scenario.cluster.faults.slow_nics = {{3, 3, 0.5}};
    scenario.cluster.faults.missing_gpus = {{60, 1}};
    CHECK(check_fold(scenario) > 16);
  }
}

TEST_CASE("folding: shared links, every layout under every perturbation", "[metamorphic][folding][fluid]") {
  int slower = 0;
  for (const JobLayout& layout : job_layouts())
    for (const NamedPerturbation& perturbation : perturbations()) {
      INFO(layout.name << ", " << perturbation.name);
      Scenario scenario = with_narrow_links(scenario_of(layout));
      perturbation.apply(scenario);
      check_fold(scenario, NetworkKind::fluid);
      slower += run_forecast(scenario, false, 1, NetworkKind::fluid).timeline.step_time >
                run_forecast(scenario, false).timeline.step_time;
    }
  CHECK(slower > 20);  // so there was something to share
}

TEST_CASE("folding: transfers that slow compute, every layout under every perturbation",
          "[metamorphic][folding][fluid]") {
  test::EverySeventh selection;
  int slower = 0;
  for (const JobLayout& layout : job_layouts())
    for (const NamedPerturbation& perturbation : perturbations())
      for (const NetworkKind network : {NetworkKind::isolated, NetworkKind::fluid}) {
        if (selection.leaves_out()) continue;
        INFO(layout.name << ", " << perturbation.name << (network == NetworkKind::fluid ? ", shared links" : ""));
        Scenario scenario = with_narrow_links(scenario_of(layout));
        perturbation.apply(scenario);
        check_fold(scenario, network, true);
        const Timeline slowed = run_forecast(scenario, false, 1, network, true).timeline;
        slower += slowed.step_time > run_forecast(scenario, false, 1, network).timeline.step_time;
        const ForecastRun traced =
            forecast(scenario, {.record_spans = true, .network = network, .transfers_slow_compute = true}).value();
        CHECK(slowed.step_time == traced.timeline.step_time);
        CHECK(slowed.ranks == traced.timeline.ranks);
      }
  CHECK(slower > test::cases(40));
}

TEST_CASE("folding: 200 random layouts under random perturbations, on either network, with slowed compute",
          "[property][folding][fluid]") {
  const int kCases = test::cases(200);
  RandomStream random(11, 0, 0);
  const auto any_of = [&random](const auto& values) { return values[random.below(std::size(values))]; };
  const auto coin = [&random] { return random.below(2) == 1; };
  std::vector<std::string> schedules{""};
  for (const ScheduleVariant& variant : schedule_variants()) schedules.emplace_back(variant.name);
  int done = 0, folded_away = 0;
  while (done < kCases) {
    JobLayout layout{.name = "random",
                     .tp = any_of(std::array{1, 2, 4, 8}),
                     .pp = any_of(std::array{1, 2, 4}),
                     .dp = any_of(std::array{1, 2, 3, 4, 8}),
                     .cp = any_of(std::array{1, 1, 2}),
                     .ep = any_of(std::array{1, 1, 2, 4}),
                     .vpp = any_of(std::array{1, 2}),
                     .zero = static_cast<int>(random.below(4)),
                     .order = any_of(std::array{"tp-cp-ep-dp-pp", "pp-tp-cp-ep-dp"}),
                     .separate_gathers = coin()};
    Scenario scenario = scenario_of(layout);
    scenario.parallel.pp_schedule = any_of(schedules);
    scenario.parallel.overlap_grad_reduce = coin();
    scenario.parallel.overlap_param_gather = coin();
    scenario.cluster.node.nic_rate.bytes_per_second /= any_of(std::array{1, 8, 64});
    const NamedPerturbation& perturbation = any_of(perturbations());
    perturbation.apply(scenario);
    const NetworkKind network = any_of(std::array{NetworkKind::isolated, NetworkKind::fluid});
    const bool slows = coin();
    if (scenario.cluster.world_size > 64 || !forecast(scenario)) continue;  // not every combination is possible
    INFO("case " << done << ": tp " << layout.tp << " pp " << layout.pp << " dp " << layout.dp << " cp " << layout.cp
                 << " ep " << layout.ep << " vpp " << layout.vpp << " zero " << layout.zero << " " << layout.order
                 << " " << scenario.parallel.pp_schedule << ", " << perturbation.name);
    folded_away += scenario.cluster.world_size - static_cast<int>(check_fold(scenario, network, slows));
    ++done;
  }
  CHECK(folded_away > 5 * kCases);  // ranks that the folded runs did not simulate
}

TEST_CASE("folding: shared links at 1,024 ranks", "[metamorphic][folding][fluid]") {
  Scenario scenario = with_narrow_links(small_scenario(8, 4, 32));
  scenario.parallel.zero_stage = 1;
  SECTION("healthy: a class for each stage") { CHECK(check_fold(scenario, NetworkKind::fluid) == 4); }
  SECTION("one slow rank: in each stage its rank, its tensor group, its data group, and the others") {
    scenario.perturbation.slow_ranks = {{{37, 37}, 1.3}};
    CHECK(check_fold(scenario, NetworkKind::fluid) == 16);
  }
  SECTION("a link at half speed") {
    scenario.cluster.faults.slow_nics = {{3, 3, 0.5}};
    CHECK(check_fold(scenario, NetworkKind::fluid) > 4);
  }
  SECTION("a lost rail") {
    scenario.cluster.faults.lost_rails = {3};
    CHECK(check_fold(scenario, NetworkKind::fluid) > 4);
  }
  SECTION("lost uplinks of a fabric that is oversubscribed") {
    scenario.cluster.fabric = FabricKind::fat_tree;
    scenario.cluster.tiers = {{"leaf", 8, 4, {}}, {"spine", 0, 1, {}}};
    scenario.cluster.faults.lost_uplinks = {{"leaf", 0.25}};
    CHECK(check_fold(scenario, NetworkKind::fluid) < 64);
  }
  SECTION("a hole") {
    scenario.cluster.faults.missing_gpus = {{60, 1}};
    CHECK(check_fold(scenario, NetworkKind::fluid) > 4);
  }
}

TEST_CASE("folding: flows that take one path each, every layout with every fault", "[metamorphic][folding][fluid]") {
  int split = 0;
  int slower = 0;
  std::int64_t seed = 0;
  for (const JobLayout& layout : job_layouts())
    for (const NamedPerturbation& perturbation : perturbations()) {
      Scenario scenario = with_narrow_links(scenario_of(layout));
      scenario.cluster.fabric = seed % 2 == 0 ? FabricKind::fat_tree : FabricKind::rail_optimized;
      scenario.cluster.tiers = {{"leaf", 1, 2, {}}, {"spine", 2, 1, {}}, {"core", 0, 1, {}}};
      perturbation.apply(scenario);
      const ForecastRun even = run_forecast(scenario, false, 1, NetworkKind::fluid);
      scenario.cluster.routing = RoutingPolicy::ecmp;
      scenario.cluster.routing_seed = ++seed;
      INFO(layout.name << ", " << perturbation.name << ", seed " << seed);
      const std::size_t classes = check_fold(scenario, NetworkKind::fluid);
      split += classes > even.graph.ranks.size();
      slower += run_forecast(scenario, false, 1, NetworkKind::fluid).timeline.step_time > even.timeline.step_time;
      CHECK(classes >= even.graph.ranks.size());
    }
  CHECK(split > 30);
  CHECK(slower > 30);
}

TEST_CASE("folding: a lone group whose own flows collide takes longer", "[metamorphic][folding][fluid]") {
  // Nobody else is on its links, so that they are left out: what it takes alone is all that there is to know.
  for (std::int64_t seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed);
    Scenario scenario = with_narrow_links(small_scenario(1, 1, 32));
    scenario.parallel.overlap_grad_reduce = false;
    scenario.cluster.fabric = FabricKind::fat_tree;
    scenario.cluster.tiers = {{"leaf", 1, 1, {}}, {"spine", 0, 1, {}}};
    const ForecastRun even = run_forecast(scenario, false, 1, NetworkKind::fluid);
    scenario.cluster.routing = RoutingPolicy::ecmp;
    scenario.cluster.routing_seed = seed;
    check_fold(scenario, NetworkKind::fluid);
    const ForecastRun hashed = run_forecast(scenario, false, 1, NetworkKind::fluid);
    CHECK(hashed.timeline.step_time > even.timeline.step_time);
  }
}

TEST_CASE("folding: flows divided among the NICs of a port, one path each", "[metamorphic][folding][fluid]") {
  Scenario scenario = with_narrow_links(small_scenario(8, 1, 16));
  scenario.parallel.overlap_grad_reduce = false;
  scenario.cluster.fabric = FabricKind::fat_tree;
  scenario.cluster.node.nics = 16;
  scenario.cluster.tiers = {{"leaf", 1, 1, {}}, {"spine", 0, 1, {}}};
  scenario.cluster.routing = RoutingPolicy::ecmp;
  for (std::int64_t seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed);
    scenario.cluster.routing_seed = seed;
    CHECK(check_fold(scenario, NetworkKind::fluid) > 1);
  }
}

TEST_CASE("folding: transfers that share no link, of which one collides with itself", "[metamorphic][folding][fluid]") {
  // Two nodes of two GPUs, with two NICs for each: the halves of a flow take one cable or two of the eight of their leaf. Where
  // no two transfers meet, what each takes alone is all that tells the GPUs of a node apart.
  const bool messages = GENERATE(false, true);  // between stages; else gradients, of two ranks each
  Scenario scenario = with_narrow_links(messages ? small_scenario(1, 2, 2) : small_scenario(2, 1, 2));
  scenario.model.tied_embeddings = false;
  NodeSpec& node = scenario.cluster.node;
  node.gpus = node.gpus_per_host = 2;
  node.nics = 4;
  scenario.cluster.fabric = FabricKind::fat_tree;
  scenario.cluster.tiers = {{"leaf", 1, 0.5, {}}, {"spine", 0, 1, {}}};
  const std::size_t even = check_fold(scenario, NetworkKind::fluid);
  CHECK(even == (messages ? 2 : 1));
  scenario.cluster.routing = RoutingPolicy::ecmp;
  int told_apart = 0;
  for (std::int64_t seed = 1; seed <= 60; ++seed) {
    INFO((messages ? "messages" : "gradients") << ", seed " << seed);
    scenario.cluster.routing_seed = seed;
    check_fold(scenario, NetworkKind::fluid);
    const ForecastRun unfolded = run_forecast(scenario, true, 1, NetworkKind::fluid);
    const StepGraph folded = fold(unfolded.graph, ClusterLinks(scenario.cluster, scenario.profile.architecture));
    const std::vector<FoldedTransfer>& transfers = messages ? folded.loads->messages : folded.loads->collectives;
    // Transfers that load no shared link are listed if they collide with themselves.
    told_apart += folded.ranks.size() > even && !transfers.empty() &&
                  std::all_of(transfers.begin(), transfers.end(),
                              [](const FoldedTransfer& each) { return each.shape.loads.empty(); });
  }
  CHECK(told_apart > 0);
}

TEST_CASE("folding: flows that take one path each at 1,024 ranks split classes", "[metamorphic][folding][fluid]") {
  Scenario scenario = with_narrow_links(small_scenario(8, 4, 32));
  scenario.parallel.zero_stage = 1;
  scenario.cluster.tiers = {{"leaf", 4, 1, {}}, {"spine", 16, 1, {}}, {"core", 0, 1, {}}};
  scenario.cluster.routing = RoutingPolicy::ecmp;
  scenario.cluster.routing_seed = 3;
  CHECK(check_fold(scenario, NetworkKind::fluid) > 4);
}

TEST_CASE("folding: two jobs whose transfers meet on links", "[metamorphic][folding][fluid]") {
  Scenario one = with_narrow_links(small_scenario(2, 2, 16));
  Scenario other = with_narrow_links(small_scenario(1, 4, 16));
  one.cluster.fabric = other.cluster.fabric = FabricKind::fat_tree;
  one.cluster.tiers = other.cluster.tiers = {{"leaf", 2, 32, {}}, {"spine", 0, 1, {}}};
  SECTION("both healthy") {}
  SECTION("a slow rank in one") { one.perturbation.slow_ranks = {{{37, 37}, 1.3}}; }
  SECTION("a slow rank in the other") { other.perturbation.slow_ranks = {{{5, 5}, 1.3}}; }
  const auto beside = [&](bool unfold) {
    return forecast_colocated(one, {other}, {.unfold = unfold, .network = NetworkKind::fluid}).value();
  };
  const ForecastRun folded = beside(false);
  const ForecastRun unfolded = beside(true);
  check_same(folded, unfolded);
  CHECK(unfolded.graph.ranks.size() == 64);
  CHECK(folded.graph.total_ranks() == 64);
  CHECK(folded.graph.ranks.size() < 64);
  CHECK(folded.forecast.step_time_s > folded.forecast.undisturbed_step_s);
}

TEST_CASE("folding: the threads of an unfolded run change nothing", "[differential][folding]") {
  Scenario scenario = small_scenario(4, 4, 64);
  scenario.parallel.zero_stage = 1;
  scenario.perturbation.speed_spread = 0.1;
  const ForecastRun alone = run_forecast(scenario, true);
  for (int threads : {2, 3, 4}) {
    const ForecastRun shared = run_forecast(scenario, true, threads);
    CHECK(shared.timeline.ranks == alone.timeline.ranks);
    CHECK(shared.timeline.step_time == alone.timeline.step_time);
    CHECK(shared.timeline.events == alone.timeline.events);
  }
}

TEST_CASE("folding: a group is placed where its ranks are", "[graph][folding]") {
  // Tensor groups of 6 on nodes of 8: the first lies in one node, the second across two.
  Scenario scenario = small_scenario(2, 1, 12);
  scenario.model.num_attention_heads = scenario.model.num_query_groups = 12;
  scenario.model.hidden_size = 12 * 64;
  scenario.model.vocab_size = 1008;
  scenario.model.ffn_hidden_size = 3072;
  scenario.parallel.tp = 6;
  scenario.parallel.dp = 4;
  scenario.training.global_batch_size = 32;
  scenario.training.seq_length = 6 * 256;
  const ForecastRun folded = run_forecast(scenario, false);
  CHECK(folded.graph.ranks.size() > 1);
  check_fold(scenario);
  std::vector<int> nodes;
  const ForecastRun unfolded = run_forecast(scenario, true);
  for (const Communicator& each : unfolded.graph.communicators)
    if (each.placement.ranks == 6 && each.members.size() == 6) nodes.push_back(each.placement.nodes);
  CHECK(nodes == std::vector<int>{1, 2, 2, 1});
}
