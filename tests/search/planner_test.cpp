// Bounds that hold, a search that loses nothing, and the same answer for any number of threads.
#include "sim/search/planner.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "sim/plan/layout_checks.hpp"
#include "sim/plan/plan.hpp"
#include "sim/search/pipeline_shape.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

/// One of a few models on 8 to 64 GPUs with a handful of values for every choice, drawn by number.
struct Problem {
  Scenario scenario;
  SearchSpace space;
};

Problem problem(int number) {
  RandomStream random(7, static_cast<std::uint32_t>(number), 0);
  const auto pick = [&](std::int64_t count) {
    return static_cast<std::int64_t>(random.uniform() * static_cast<double>(count));
  };
  const char* names[] = {"llama2-7b-abci", "korthikanti-22b-selective", "megatron-sc21-18b",
                         "torchtitan-llama3-8b-128gpu"};
  const std::int64_t ranks = 8 << pick(4);
  const std::int64_t batch = ranks * (1 + pick(3));
  Problem result{
      shipped_scenario(names[pick(4)], {"cluster.world_size=" + std::to_string(ranks), "parallel.tp=1", "parallel.pp=1",
                                        "parallel.vpp=1", "parallel.dp=0", "parallel.sequence_parallel=false",
                                        "training.global_batch_size=" + std::to_string(batch)}),
      {}};
  result.space.tp = {1, 2, 4};
  result.space.pp = {1, 2, 4};
  result.space.vpp = {1, static_cast<int>(2 + pick(2))};
  result.space.micro_batch_size = {1, 2};
  result.space.recompute = {Recompute::none, Recompute::selective, Recompute::full};
  result.space.zero_stage = {static_cast<int>(pick(2)), 3};
  if (pick(2) == 1) result.space.pp_schedule = {"", "zb-h1", "gpipe"};
  return result;
}

}  // namespace

TEST_CASE("search: the ends of a pipeline send to one other rank, its middle to two", "[search][oracle]") {
  const Scenario scenario = shipped_scenario("llama2-7b-abci");
  const auto messages = [&](int pp, int vpp, const std::string& schedule) {
    Layout layout;
    layout.pp = pp;
    layout.vpp = vpp;
    layout.pp_schedule = schedule;
    std::vector<int> of_ranks;
    for (const RankGroup& group : pipeline_shape(scenario, layer_kinds(scenario), layout).ranks)
      of_ranks.push_back(group.messages);
    std::sort(of_ranks.begin(), of_ranks.end());
    return of_ranks;
  };
  CHECK(messages(2, 1, "1f1b") == std::vector<int>{1, 1});
  CHECK(messages(4, 1, "1f1b") == std::vector<int>{1, 1, 2});
  CHECK(messages(2, 2, "interleaved-1f1b") == std::vector<int>{3, 3});  // the ring of stages 0 1 0 1 has three edges
  CHECK(messages(2, 2, "zb-v") == std::vector<int>{2, 2});              // 0 1 1 0: two edges
  CHECK(messages(1, 1, "") == std::vector<int>{0});
}

TEST_CASE("search: no simulation is below its bound of time or memory", "[search][property]") {
  const int number = GENERATE(range(0, test::cases(8)));
  INFO("problem " << number);
  const Problem p = problem(number);
  const SearchResult all = search(p.scenario, p.space, {.exhaustive = true});
  REQUIRE(all.counts.simulated > 0);
  for (const Evaluation& each : all.simulated) {
    INFO(describe(each.layout, p.scenario.cluster.world_size));
    CHECK(seconds(each.bound.step_time) <= each.step_time_s);
    CHECK(each.bound.memory <= each.memory);
  }
}

TEST_CASE("search: bounds hold with different layers, frozen parts and offloaded states", "[search][property]") {
  struct Case {
    const char* scenario;
    std::vector<std::string> overrides;
  };
  const Case each = GENERATE(values<Case>({
      // Layers in two precisions: the first two and the last are bf16, which is slower.
      {"llama2-7b-abci",
       {"cluster.topology=dgx-h100", "training.dtype=fp8", "training.bf16_layers_start=2",
        "training.bf16_layers_end=1"}},
      {"llama2-7b-abci", {"training.frozen_fraction=0.5"}},
      {"llama2-7b-abci", {"training.lora_rank=16"}},
      {"llama2-7b-abci", {"training.offload_activations=true", "training.offload_layers=4"}},
      {"llama2-7b-abci", {"parallel.zero1_allreduce=true", "parallel.tp_async_allreduce=false"}},
      {"llama2-7b-abci", {"parallel.rank_order=dp-tp-cp-pp"}},
      {"llama2-7b-abci", {"parallel.sharding_strategy=SHARD_GRAD_OP", "parallel.zero_stage=3"}},
      {"llama2-7b-abci", {"parallel.defer_grad_sync=true", "parallel.reshard_after_backward=false"}},
      {"llama2-7b-abci", {"parallel.torch_pipelining=true", "training.seq_length=256"}},
      {"llama2-7b-abci", {"model=mixtral-8x7b", "cluster.topology=dgx-h100"}},
  }));
  CAPTURE(each.scenario, each.overrides);
  std::vector<std::string> overrides{"cluster.world_size=16",
                                     "parallel.tp=1",
                                     "parallel.pp=1",
                                     "parallel.vpp=1",
                                     "parallel.dp=0",
                                     "parallel.ep=1",
                                     "parallel.cp=1",
                                     "parallel.etp=1",
                                     "parallel.sequence_parallel=false",
                                     "training.global_batch_size=32"};
  overrides.insert(overrides.end(), each.overrides.begin(), each.overrides.end());
  const Scenario scenario = shipped_scenario(each.scenario, overrides);
  SearchSpace space;
  space.tp = {1, 4};
  space.sequence_parallel = {true, false};
  space.pp = {1, 2};
  space.zero_stage = {1, 3};
  space.recompute = {Recompute::none, Recompute::full};
  space.offload = usual_offloads();
  if (scenario.model.moe) space.ep = {1, 8};
  const SearchResult all = search(scenario, space, {.exhaustive = true});
  CHECK(all.counts.simulated > 0);
  for (const Evaluation& found : all.simulated) {
    INFO(describe(found.layout, 16));
    CHECK(seconds(found.bound.step_time) <= found.step_time_s);
    CHECK(found.bound.memory <= found.memory);
  }
}

TEST_CASE("search: bounds hold where the schedule holds the model twice", "[search][property]") {
  const Scenario scenario = shipped_scenario(
      "p5-llama2-7b-8", {"model.num_layers=8", "training.global_batch_size=512", "training.grad_reduce_dtype=fp32",
                         "parallel.data_parallel=fsdp1", "parallel.zero_stage=3"});
  SearchSpace space;
  space.pp = {2, 4};
  space.zero_stage = {3};
  space.pp_schedule = {"dualpipe"};
  const SearchResult all = search(scenario, space, {.exhaustive = true});
  CHECK(all.counts.simulated > 0);
  for (const Evaluation& found : all.simulated) CHECK(seconds(found.bound.step_time) <= found.step_time_s);
}

TEST_CASE("search: layouts with fewer replicas than a shard group has ranks are impossible", "[search]") {
  SearchSpace space;
  space.tp = {1, 8};
  space.zero_stage = {3};
  const SearchResult found = search(shipped_scenario("p5-llama2-13b-hybrid-32"), space, {.best = 1});
  CHECK(found.counts.impossible > 0);
  CHECK(found.best.size() == 1);
}

TEST_CASE("search: bounds hold for packed documents", "[search][property][packing]") {
  const char* const law =
      GENERATE("{\"law\":\"lognormal\",\"mean\":1500,\"sigma\":1.5,\"packing\":\"best_fit\",\"steps\":2}",
               "{\"mean\":8192,\"packing\":\"best_fit\",\"steps\":1}",
               "{\"law\":\"lognormal\",\"mean\":1500,\"sigma\":1.5,\"packing\":\"dynamic_cp\",\"steps\":2}");
  const Scenario scenario =
      shipped_scenario("llama3-8b-packed", {"cluster.world_size=8", "training.seq_length=8192",
                                            "training.global_batch_size=16", std::string("training.documents=") + law});
  SearchSpace space;
  space.tp = {2, 4};
  space.cp = {1, 2};
  space.pp = {1, 2};
  space.vpp = {1, 2};
  space.micro_batch_size = {1, 2};
  space.recompute = {Recompute::none, Recompute::full};
  space.zero_stage = {1, 3};
  const SearchResult all = search(scenario, space, {.exhaustive = true});
  REQUIRE(all.counts.simulated > 4);
  for (const Evaluation& found : all.simulated) {
    INFO(describe(found.layout, 8));
    CHECK(seconds(found.bound.step_time) <= found.step_time_s);
    CHECK(seconds(found.bound.step_time) > 0.4 * found.step_time_s);
    CHECK(found.bound.memory <= found.memory);
  }
  const SearchResult pruned = search(scenario, space, {.best = 1});
  CHECK(pruned.best.front() == all.best.front());
}

TEST_CASE("search: copies to the host and FSDP gathers bound a step if they take longest", "[search]") {
  // A seventh of a PCIe's rate: 7B's activations cross it for longer than all GPUs compute.
  Scenario scenario = shipped_scenario("llama2-7b-abci", {"cluster.world_size=8", "parallel.dp=0",
                                                          "training.cross_entropy=fused"});  // of every zero_stage
  scenario.cluster.node.pcie.bytes_per_second /= 7;
  Layout layout;
  layout.zero_stage = 3;
  layout.offload = {true, false, true};
  BoundTable table(scenario);
  const auto offloaded = table.bound(layout);
  layout.offload = {};
  const auto on_gpu = table.bound(layout);
  REQUIRE((offloaded && on_gpu));
  CHECK(offloaded->step_time > on_gpu->step_time);
  CHECK(offloaded->memory < on_gpu->memory);
  // A network of a hundredth of its rate: what FSDP moves for every micro-batch bounds the step, not what is computed.
  scenario.cluster.node.gpu_link.bytes_per_second /= 100;
  const auto slow = BoundTable(scenario).bound(layout);
  layout.zero_stage = 1;
  const auto whole = BoundTable(scenario).bound(layout);
  REQUIRE((slow && whole));
  CHECK(slow->step_time > on_gpu->step_time);
  CHECK(whole->step_time < on_gpu->step_time);  // which copies what it gathers
}

TEST_CASE("search: over slow NICs ZeRO-1's reduced gradients and gathered weights bound a step", "[search][oracle]") {
  Scenario scenario = shipped_scenario("data-parallel-gpt2", {"cluster.world_size=16", "parallel.dp=16"});
  scenario.cluster.node.nic_rate.bytes_per_second /= 1000;
  Layout layout;
  layout.zero_stage = 1;
  const LayoutBound bound = BoundTable(scenario).bound(layout).value();
  const double step_s = evaluate(scenario, layout, bound, 0).step_time_s;
  const double bound_s = seconds(bound.step_time);
  CHECK(bound_s <= step_s);
  CHECK(bound_s > 0.75 * step_s);
}

TEST_CASE("search: bounds of a whole space equal those of single layouts", "[search][differential]") {
  Problem p = problem(5);
  if (GENERATE(false, true)) {  // copies of a layer that decide how long a step is at least
    p.scenario.training.offload_activations = true;
    p.scenario.training.offload_layers = 1;
    p.scenario.cluster.node.pcie = Bandwidth{1'000'000'000};
  }
  SearchSpace space = p.space;
  space.sequence_parallel = {false, true};
  space.offload = usual_offloads();
  SearchCounts counts;
  const std::vector<BoundedLayout> all = bound_all(p.scenario, space, 2, counts);
  REQUIRE(counts.layouts == space.size());
  BoundTable table(p.scenario);
  auto next = all.begin();
  for (std::int64_t id = 0; id < space.size(); ++id) {
    const Layout layout = space.at(id);
    const auto alone = space.repeats(layout, p.scenario) ? std::nullopt : table.bound(layout);
    INFO(id << ": " << describe(layout, p.scenario.cluster.world_size));
    if (!alone) continue;
    REQUIRE(next != all.end());
    CHECK(next->id == id);
    CHECK(next->bound == *alone);
    ++next;
  }
  CHECK(next == all.end());
}

TEST_CASE("search: a bound does not depend on the layouts that were bounded before", "[search][differential]") {
  const std::string dtype = GENERATE("bf16", "fp8");  // with fp8, ZeRO-3 quantises weights for every use
  const Scenario scenario =
      shipped_scenario("llama2-7b-abci", {"cluster.topology=dgx-h100", "cluster.world_size=8", "parallel.dp=0",
                                          "parallel.tp=1", "parallel.pp=1", "training.dtype=" + dtype});
  Layout sharded;
  sharded.zero_stage = 3;
  Layout whole = sharded;
  whole.zero_stage = 1;
  BoundTable one_way(scenario);
  BoundTable other_way(scenario);
  const auto whole_first = one_way.bound(whole);
  const auto sharded_first = other_way.bound(sharded);
  REQUIRE(whole_first.has_value());
  REQUIRE(sharded_first.has_value());
  CHECK(*one_way.bound(sharded) == *sharded_first);
  CHECK(*other_way.bound(whole) == *whole_first);
  // The loss of ZeRO-3 is PyTorch's, which is the shorter one.
  REQUIRE(scenario.training.cross_entropy == CrossEntropy::automatic);
  Scenario named = scenario;
  named.training.cross_entropy = CrossEntropy::pytorch;
  BoundTable of_named(named);
  CHECK(sharded_first->step_time == of_named.bound(sharded)->step_time);
}

TEST_CASE("search: tensor parallelism that does not divide heads, hidden size and vocabulary has no bound",
          "[search]") {
  Scenario scenario = shipped_scenario("llama2-7b-abci", {"cluster.world_size=8", "parallel.tp=1", "parallel.pp=1",
                                                          "parallel.dp=0", "training.global_batch_size=8"});
  Layout layout;
  layout.tp = 8;
  const Model whole = scenario.model;  // 32 heads, hidden 4096, 32,000 tokens
  CHECK(BoundTable(scenario).bound(layout).has_value());
  scenario.model.num_attention_heads = 12;
  CHECK_FALSE(BoundTable(scenario).bound(layout).has_value());
  scenario.model = whole;
  scenario.model.hidden_size = 4100;
  CHECK_FALSE(BoundTable(scenario).bound(layout).has_value());
  scenario.model = whole;
  scenario.model.vocab_size = 32'004;
  CHECK_FALSE(BoundTable(scenario).bound(layout).has_value());
}

TEST_CASE("search: every layout that a plan may have has a bound", "[search][property]") {
  std::vector<Scenario> scenarios;
  for (const char* name : {"llama2-7b-abci", "qwen3-235b-router-256", "nemotron-h-56b-h100", "nemotron-3-nano-h100"})
    scenarios.push_back(
        shipped_scenario(name, {"cluster.world_size=128", "training.global_batch_size=128", "parallel.dp=0"}));
  Scenario& mamba = scenarios.emplace_back(scenarios[2]);  // without attention, heads divide nothing
  std::ranges::replace(mamba.model.layer_pattern, '*', 'M');
  mamba.model.num_attention_heads = mamba.model.num_query_groups = 1;
  int possible = 0;
  for (const Scenario& scenario : scenarios) {
    CAPTURE(scenario.name, has_attention(scenario.model));
    SearchSpace space;
    space.tp = {1, 2, 3, 8};
    space.cp = {1, 2};
    space.ep = {1, 4};
    space.pp = {1, 2};
    space.vpp = {1, 2};
    space.micro_batch_size = {1, 2, 3};
    BoundTable bounds(scenario);
    for (std::int64_t id = 0; id < space.size(); ++id) {
      const Layout layout = space.at(id);
      Parallel parallel = scenario.parallel;
      Training training = scenario.training;
      apply_layout(layout, scenario, parallel, training);
      if (!make_plan(scenario.model, parallel, training, scenario.cluster.world_size)) continue;
      ++possible;
      CAPTURE(layout.tp, layout.cp, layout.ep, layout.pp, layout.vpp, layout.micro_batch_size);
      CHECK(bounds.bound(layout).has_value());
    }
  }
  CHECK(possible > 100);
}

TEST_CASE("search: slow ranks and broken links each leave no bound of the time", "[search]") {
  const auto bound = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all{"cluster.world_size=16", "parallel.dp=0", "training.global_batch_size=16"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return BoundTable(shipped_scenario("llama2-7b-abci", all)).bound(Layout{}).value().step_time;
  };
  CHECK(bound({}) > Duration{});
  CHECK(bound({"perturb.slow_rank.0=1.2"}) == Duration{});
  CHECK(bound({"perturb.lost_rails=[0]"}) == Duration{});
}

TEST_CASE("search: the bound is close to the simulated time", "[search]") {
  // A bound that is always met but never close would prune nothing: 405B on 16,384 GPUs, Meta's own layout.
  const Scenario scenario = shipped_scenario("llama3-405b-16k");
  Layout own;
  own.tp = 8;
  own.pp = 16;
  own.vpp = 8;
  own.zero_stage = 2;
  BoundTable table(scenario);
  const auto bound = table.bound(own);
  REQUIRE(bound.has_value());
  const Evaluation simulated = evaluate(scenario, own, *bound, 0);
  REQUIRE(simulated.fits);
  CHECK(seconds(bound->step_time) < simulated.step_time_s);
  CHECK(seconds(bound->step_time) > 0.85 * simulated.step_time_s);
  CHECK(10 * bound->memory.count > 8 * simulated.memory.count);
}

TEST_CASE("search: pruned and exhaustive search find the same best layouts", "[search][differential]") {
  const int number = GENERATE(range(0, test::cases(20)));
  INFO("problem " << number);
  const Problem p = problem(number);
  const SearchResult pruned = search(p.scenario, p.space, {.best = 3});
  const SearchResult all = search(p.scenario, p.space, {.best = 3, .exhaustive = true});
  CHECK(pruned.best == all.best);
  CHECK(pruned.counts.simulated <= all.counts.simulated);
  for (const SearchCounts& counts : {pruned.counts, all.counts})
    CHECK(counts.impossible + counts.out_of_memory + counts.pruned + counts.given_up + counts.simulated ==
          counts.layouts);
  CHECK(all.counts.given_up == 0);
}

TEST_CASE("search: layouts that turn out slower than the best so far are given up, and not stored", "[search]") {
  const Problem p = problem(3);
  int rounds = 0;
  const EvaluateRound here = evaluate_on_threads(p.scenario, {});
  // Whether a simulation ends early or not, the search counts its layout alike.
  const auto searched = [&](bool to_the_end) {
    return search(p.scenario, p.space, {.best = 1}, [&](SearchRound round, Duration longest) {
      std::vector<Evaluation> found = here(round, to_the_end ? Duration{} : longest);
      for (const Evaluation& each : found) {
        if (each.given_up) CHECK(longest > Duration{});
        CHECK((each.given_up ? each.step_time_s == 0 : true));
      }
      ++rounds;
      return found;
    });
  };
  const SearchResult early = searched(false);
  CHECK(rounds > 1);
  CHECK(early.counts.given_up > 0);
  const SearchResult late = searched(true);
  CHECK(late.counts == early.counts);
  CHECK(late.best == early.best);
  CHECK(late.simulated == early.simulated);
}

TEST_CASE("search: one thread or several, the same layouts are simulated", "[search][differential]") {
  const Problem p = problem(3);
  const SearchResult one = search(p.scenario, p.space, {.threads = 1});
  const SearchResult four = search(p.scenario, p.space, {.threads = 4});
  CHECK(one.simulated == four.simulated);
  CHECK(one.counts == four.counts);
}

TEST_CASE("search: memory headroom excludes layouts", "[search]") {
  const Problem p = problem(1);
  const SearchResult all = search(p.scenario, p.space, {.best = 1000, .exhaustive = true});
  const SearchResult half = search(p.scenario, p.space, {.best = 1000, .memory_headroom = 0.5, .exhaustive = true});
  CHECK(half.counts.out_of_memory > all.counts.out_of_memory);
  for (const Evaluation& each : half.best) CHECK(2 * each.memory.count <= p.scenario.profile.memory.count);
}

TEST_CASE("search: ZeRO-3 over a pipeline of single layers gathers far ahead of a waiting rank", "[search][graph]") {
  // Found by a search: with one or two units in a chunk, gathers ran more micro-batches ahead than local events can tell.
  const Scenario scenario = shipped_scenario("llama3-405b-16k");
  Layout layout;
  layout.pp = 32;
  layout.vpp = 4;
  layout.zero_stage = 3;
  layout.recompute = Recompute::full;
  CHECK(forecast(with_layout(scenario, layout)).has_value());
}

TEST_CASE("search: a backward in two parts over a chunk of two layers gathers twice with ZeRO-3", "[search][graph]") {
  // Found by a search: both parts' gathers, which run ahead, said that they were the same.
  const Scenario scenario = shipped_scenario("llama2-7b-abci", {"parallel.tp=1", "parallel.pp=1", "parallel.dp=0"});
  Layout layout;
  layout.pp = 16;
  layout.zero_stage = 3;
  layout.pp_schedule = GENERATE(as<std::string>(), "zb-h1", "dualpipev");
  layout.vpp = layout.pp_schedule == "dualpipev" ? 2 : 1;
  const Result<ForecastRun> run = forecast(with_layout(scenario, layout));
  REQUIRE(run.has_value());
  const auto bound = BoundTable(scenario).bound(layout);
  REQUIRE(bound.has_value());
  CHECK(seconds(bound->step_time) <= run->forecast.step_time_s);
}

TEST_CASE("search: what has no effect is one offer, and a stopped search has its best so far", "[search]") {
  const Problem p = problem(3);
  SearchOptions options{.best = 1000, .exhaustive = true};
  const SearchResult all = search(p.scenario, p.space, options);
  for (std::size_t a = 0; a < all.best.size(); ++a)
    for (std::size_t b = a + 1; b < all.best.size(); ++b) CHECK_FALSE(is_same_run(all.best[a], all.best[b]));
  int rounds = 0;
  int told = 0;
  options.stop = [&] { return ++rounds > 1; };
  options.progress = [&](std::int64_t, std::int64_t of, double) { told += of > 0 ? 1 : 0; };
  const SearchResult stopped = search(p.scenario, p.space, options);
  CHECK_FALSE(stopped.complete);
  CHECK(all.complete);
  CHECK(told == 1);
  CHECK(stopped.counts.simulated < all.counts.simulated);
  CHECK(stopped.counts.pruned > 0);
}

TEST_CASE("search: layouts that are not allowed are not simulated", "[search]") {
  const Problem p = problem(3);
  const SearchResult found =
      search(p.scenario, p.space,
             {.best = 1000, .exhaustive = true, .allowed = [](const Scenario& s) { return s.parallel.tp == 1; }});
  CHECK(found.counts.refused > 0);
  for (const Evaluation& each : found.simulated) CHECK(each.layout.tp == 1);
}
