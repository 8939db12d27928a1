// The product of choices: numbers, defaults, what a layout does to a scenario.
#include "sim/search/space.hpp"

#include <algorithm>
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/plan/layout_keys.hpp"
#include "sim/search/planner.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

template <class Value>
bool contains(const std::vector<Value>& values, Value value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

TEST_CASE("space: every layout has one number", "[search]") {
  SearchSpace space;
  space.tp = {1, 2, 4};
  space.micro_batch_size = {1, 2};
  space.pp = {1, 4};
  space.zero_stage = {0, 1, 3};
  REQUIRE(space.size() == 3 * 2 * 2 * 3);
  CHECK(space.layouts_per_layer_cost() == 2 * 3);
  std::set<std::string> seen;
  for (std::int64_t id = 0; id < space.size(); ++id) {
    const Layout layout = space.at(id);
    CHECK(layout.id == id);
    CHECK(space.id_of(layout) == id);
    seen.insert(describe(layout, 16));
  }
  CHECK(seen.size() == static_cast<std::size_t>(space.size()));
  CHECK(describe(space.at(space.size() - 1), 16) == "tp 4, pp 4, dp 1, micro-batch 2, no recomputation, ZeRO-3");
}

TEST_CASE("space: offloads are named by their parts", "[search]") {
  CHECK(to_string(Offload{}) == "none");
  CHECK(to_string(Offload{true, true, false}) == "optimizer+parameters");
  for (const Offload& offload : usual_offloads()) CHECK(parse_offload(to_string(offload)) == offload);
  CHECK_FALSE(parse_offload("parameters+optimizer").has_value());
  CHECK_FALSE(parse_offload("").has_value());
}

TEST_CASE("space: without tensor parallelism there is no choice of sequence parallelism", "[search]") {
  SearchSpace space;
  space.tp = {1, 2};
  space.sequence_parallel = {true, false};
  REQUIRE(space.size() == 4);
  const Scenario scenario = shipped_scenario("llama3-405b-16k");
  std::vector<bool> repeats;
  for (std::int64_t id = 0; id < space.size(); ++id) repeats.push_back(space.repeats(space.at(id), scenario));
  CHECK(repeats == std::vector<bool>{false, true, false, false});
}

TEST_CASE("space: applying the layout of a scenario gives the same scenario", "[search]") {
  Scenario scenario = shipped_scenario("llama3-405b-16k");
  const Layout own = layout_of(scenario);
  CHECK(layout_of(with_layout(scenario, own)) == own);
  scenario.parallel.sequence_parallel = false;
  scenario.training.offload_optimizer = true;
  CHECK(layout_of(scenario).offload == Offload{.optimizer = true});
  CHECK_FALSE(layout_of(scenario).sequence_parallel);
  // FSDP's strategy stays where the layout shards as it does, and is gone where it does not.
  scenario.parallel.sharding_strategy = ShardingStrategy::hybrid_shard;
  Layout sharded = own;
  sharded.id = 0;
  sharded.zero_stage = 3;
  CHECK(with_layout(scenario, sharded).parallel.sharding_strategy == ShardingStrategy::hybrid_shard);
  sharded.zero_stage = 1;
  CHECK(with_layout(scenario, sharded).parallel.sharding_strategy == ShardingStrategy::by_zero_stage);
}

TEST_CASE("space: the default has values that divide, and those of the scenario", "[search]") {
  const Scenario scenario = shipped_scenario("llama3-405b-16k");
  const SearchSpace space = default_space(scenario, 16384);
  CHECK(space.tp == std::vector<int>{1, 2, 4, 8});  // NVLink reaches 8
  CHECK(space.cp == std::vector<int>{1});           // sequences of 8,192
  CHECK(space.ep == std::vector<int>{1});
  CHECK(space.pp == std::vector<int>{1, 2, 4, 8, 16, 32, 64, 128});
  CHECK(contains(space.vpp, 8));
  CHECK(contains(space.zero_stage, 2));  // the scenario's own
  CHECK(space.offload == std::vector<Offload>{Offload{}});
  CHECK(space.sequence_parallel == std::vector<char>{true});

  Scenario own = scenario;
  own.parallel.sequence_parallel = false;
  own.training.offload_optimizer = true;
  CHECK(default_space(own, 16384).sequence_parallel.size() == 2);
  CHECK(contains(default_space(own, 16384).offload, Offload{.optimizer = true}));

  const SearchSpace experts = default_space(shipped_scenario("llama3-405b-131k-context"), 16384);
  CHECK(contains(experts.cp, 16));

  CHECK(space.pp_schedule == std::vector<std::string>{""});
  own.parallel.pp_schedule = "dualpipe";  // beside the default, which the layouts with chunks need
  CHECK(default_space(own, 16384).pp_schedule == std::vector<std::string>{"", "dualpipe"});
  own.parallel.pp_schedule = "1f1b";
  CHECK(default_space(own, 16384).pp_schedule == std::vector<std::string>{""});
}

TEST_CASE("space: a layout changes its own keys and leaves the rest", "[search]") {
  const Scenario scenario = shipped_scenario("llama3-405b-16k");
  Layout layout;
  layout.tp = 4;
  layout.pp = 9;
  layout.vpp = 2;
  layout.recompute = Recompute::full;
  const Scenario changed = with_layout(scenario, layout);
  CHECK(changed.parallel.sequence_parallel);
  CHECK(changed.parallel.dp == 0);
  CHECK_FALSE(changed.parallel.account_for_embedding);  // 126 layers on 18 virtual stages: 7 each
  CHECK(changed.training.recompute == Recompute::full);
  CHECK(changed.training.global_batch_size == scenario.training.global_batch_size);
  layout.sequence_parallel = false;
  layout.offload.activations = true;
  CHECK_FALSE(with_layout(scenario, layout).parallel.sequence_parallel);
  CHECK(with_layout(scenario, layout).training.offload_activations);
  layout.pp = 16;
  CHECK(with_layout(scenario, layout).parallel.account_for_embedding);
}

TEST_CASE("space: DeepSpeed's stack overlaps in a layout as in a scenario with its ZeRO stage", "[search]") {
  const auto with_stage = [](int stage, const char* more = "parallel.pp=1") {
    return shipped_scenario("zero-3-gpt2", {"stack=deepspeed", fmt::format("parallel.zero_stage={}", stage), more});
  };
  for (const char* more : {"parallel.pp=1", "parallel.overlap_grad_reduce=true"})
    for (const int from : {1, 2, 3})
      for (const int to : {1, 2, 3}) {
        CAPTURE(more, from, to);
        const Scenario read = with_stage(to, more);
        Layout layout = layout_of(read);
        layout.id = 0;  // one of a space, not the scenario's own
        const Scenario searched = with_layout(with_stage(from, more), layout);
        CHECK(searched.parallel.overlap_grad_reduce == read.parallel.overlap_grad_reduce);
        CHECK(searched.parallel.overlap_param_gather == read.parallel.overlap_param_gather);
      }
}

TEST_CASE("space: ZeRO-1 is no choice where nothing can be sharded", "[search]") {
  Scenario scenario = shipped_scenario("llama2-7b-abci");
  SearchSpace space;
  space.pp = {4, 8};
  space.zero_stage = {0, 1, 2, 3};
  const auto kept = [&](int ranks) {
    scenario.cluster.world_size = ranks;
    std::vector<std::string> layouts;
    for (std::int64_t id = 0; id < space.size(); ++id)
      if (const Layout layout = space.at(id); !space.repeats(layout, scenario))
        layouts.push_back(fmt::format("pp {} ZeRO-{}", layout.pp, layout.zero_stage));
    return layouts;
  };
  CHECK(kept(16).size() == 8);  // dp 4 and dp 2
  const std::vector<std::string> with_dp{"pp 4 ZeRO-0", "pp 4 ZeRO-1", "pp 4 ZeRO-2", "pp 4 ZeRO-3"};
  std::vector<std::string> all = with_dp;
  all.insert(all.end(), {"pp 8 ZeRO-0", "pp 8 ZeRO-2", "pp 8 ZeRO-3"});
  CHECK(kept(8) == all);
  space.zero_stage = {3, 1};
  CHECK(kept(8).size() == 4);
}

TEST_CASE("space: stages of ZeRO are equal only where they are simulated alike", "[search][differential]") {
  const bool experts = GENERATE(false, true);
  std::vector<std::string> settings{"cluster.world_size=8", "training.global_batch_size=2",
                                    "cluster.topology=dgx-h100"};
  if (experts) settings.insert(settings.end(), {"model=qwen3-30b-a3b", "parallel.etp=1"});
  Scenario scenario = shipped_scenario("llama2-7b-abci", settings);
  scenario.model.num_layers = 8;
  SearchSpace space;
  space.tp = {2};
  space.pp = {4};
  space.ep = experts ? std::vector<int>{1, 2} : std::vector<int>{1};
  space.zero_stage = {0, 1, 2, 3};
  std::vector<Evaluation> kept;
  for (std::int64_t id = 0; id < space.size(); ++id) {
    const Layout layout = space.at(id);
    const Evaluation each = evaluate(scenario, layout, {}, 0);
    INFO(describe(layout, 8));
    REQUIRE(each.fits);
    const bool known = std::ranges::any_of(kept, [&](const Evaluation& other) { return is_same_run(other, each); });
    CHECK(space.repeats(layout, scenario) == known);
    kept.push_back(each);
  }
  CHECK(kept.size() == (experts ? 8 : 4));
}

TEST_CASE("space: the settings of a layout make the scenario the one that was simulated", "[search]") {
  const Scenario scenario = shipped_scenario("llama3-405b-1024");
  Layout layout = layout_of(scenario);
  CHECK(with_layout(scenario, layout).parallel == scenario.parallel);  // its own
  CHECK(layout_settings(scenario, layout).empty());
  layout.id = 0;
  layout.tp = 4;
  layout.pp = 4;
  layout.vpp = 7;
  layout.recompute = Recompute::none;
  CHECK(describe_cut(scenario, layout) == "stages of 4, 5 x 15, 4 x 11, 3 layers");  // 128 items over 28 stages
  const Scenario again = shipped_scenario("llama3-405b-1024", layout_settings(scenario, layout));
  const Scenario planned = with_layout(scenario, layout);
  CHECK(again.parallel == planned.parallel);
  CHECK(again.training == planned.training);
}

TEST_CASE("space: every key that a layout sets is a key of layouts, and the others are as well", "[search]") {
  // Everything that a layout may take away is there.
  Scenario scenario = shipped_scenario("llama3-405b-16k");
  Parallel& p = scenario.parallel;
  p.sharding_strategy = ShardingStrategy::full_shard;
  p.zero_stage = 3;
  p.reshard_after_forward = true;
  p.reshard_group = 2;
  p.shard_group = 4;
  p.tp_comm_overlap = true;
  p.pp_layout = {1, 2};
  scenario.training.offload_activations = true;
  scenario.training.offload_layers = 3;
  std::set<std::string> set;
  SearchSpace space;
  space.tp = {2, 16};
  space.cp = {2};
  space.ep = {2};
  space.pp = {3, 5};
  space.vpp = {3, 4};
  space.micro_batch_size = {4};
  space.recompute = {Recompute::full};
  space.pp_schedule = {"zb-h1"};
  space.zero_stage = {0, 2};
  space.sequence_parallel = {false};
  space.offload = {Offload{}, Offload{true, true, true}};
  for (std::int64_t id = 0; id < space.size(); ++id)
    for (const std::string& setting : layout_settings(scenario, space.at(id)))
      set.insert(setting.substr(0, setting.find('=')));
  for (const std::string& key : set) {
    INFO(key);
    CHECK(find_layout_key(key) != nullptr);
  }
  for (const LayoutKey& key : kLayoutKeys) {
    INFO(key.name);
    CHECK((set.contains(std::string(key.name)) || key.name == "parallel.etp"));
  }
}

TEST_CASE("space: HYBRID_SHARD without a group stays on a host whatever tp is", "[search]") {
  const std::vector<std::string> job{"cluster.topology=dgx-h100",
                                     "cluster.world_size=32",
                                     "training.global_batch_size=32",
                                     "parallel.sharding_strategy=HYBRID_SHARD",
                                     "parallel.zero_stage=3",
                                     "parallel.tp=1",
                                     "parallel.pp=1",
                                     "parallel.dp=0",
                                     "parallel.sequence_parallel=false"};
  const auto planned = [](const Scenario& scenario, int tp, int pp, int zero_stage) {
    Layout layout = layout_of(scenario);
    layout.id = 0;
    layout.tp = tp;
    layout.pp = pp;
    layout.zero_stage = zero_stage;
    return std::pair(with_layout(scenario, layout).parallel, layout_settings(scenario, layout));
  };
  const Scenario scenario = shipped_scenario("llama2-13b-abci", job);
  CHECK(planned(scenario, 1, 1, 3).first.shard_group == 8);
  CHECK(planned(scenario, 4, 1, 3).first.shard_group == 2);
  CHECK(planned(scenario, 1, 8, 3).first.shard_group == 4);  // a stage has no more ranks
  CHECK(planned(scenario, 1, 1, 1).first.shard_group == 0);
  for (const int tp : {1, 2, 8})
    for (const int zero_stage : {1, 3}) {
      CAPTURE(tp, zero_stage);
      const auto [parallel, settings] = planned(scenario, tp, 1, zero_stage);
      std::vector<std::string> again = job;
      again.insert(again.end(), settings.begin(), settings.end());
      CHECK(shipped_scenario("llama2-13b-abci", again).parallel == parallel);
    }
  std::vector<std::string> given = job;
  given.push_back("parallel.shard_group=8");
  CHECK(planned(shipped_scenario("llama2-13b-abci", given), 4, 1, 3).first.shard_group == 8);
}
