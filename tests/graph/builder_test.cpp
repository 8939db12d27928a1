#include "sim/graph/builder.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/traffic.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::exposed;
using tracecast::test::run;
using tracecast::test::small_scenario;

TEST_CASE("builder: one rank per stage gives what every rank gives, to the picosecond", "[metamorphic][graph]") {
  struct Case {
    int tp, pp, dp, vpp, zero;
    bool overlap;
  };
  const Case c = GENERATE(Case{1, 1, 8, 1, 0, true}, Case{2, 2, 4, 1, 1, true}, Case{4, 2, 2, 2, 2, true},
                          Case{1, 4, 4, 2, 1, false}, Case{8, 1, 4, 1, 3, true}, Case{2, 4, 8, 1, 0, false});
  Scenario scenario = small_scenario(c.tp, c.pp, c.dp);
  scenario.parallel.vpp = c.vpp;
  scenario.parallel.zero_stage = c.zero;
  scenario.parallel.overlap_grad_reduce = scenario.parallel.overlap_param_gather = scenario.parallel.overlap_p2p =
      c.overlap;
  const ForecastRun folded = run(scenario);
  const ForecastRun unfolded = run(scenario, {.unfold = true});
  CHECK(folded.graph.ranks.size() == static_cast<std::size_t>(c.pp));
  CHECK(unfolded.graph.ranks.size() == static_cast<std::size_t>(c.tp * c.pp * c.dp));
  CHECK(folded.timeline.step_time == unfolded.timeline.step_time);
  for (std::size_t r = 0; r < unfolded.graph.ranks.size(); ++r)
    CHECK(unfolded.timeline.ranks[r] ==
          folded.timeline.ranks[static_cast<std::size_t>(unfolded.graph.ranks[r].pp_rank)]);
}

TEST_CASE("builder: a rank has a communicator of its own only if it transfers something alone", "[graph]") {
  Scenario scenario = small_scenario(2, 2, 4);
  const auto own_communicators = [&scenario] {
    const ForecastRun unfolded = run(scenario, {.unfold = true});
    return std::count_if(unfolded.graph.communicators.begin(), unfolded.graph.communicators.end(),
                         [](const Communicator& each) { return each.members.size() == 1; });
  };
  CHECK(own_communicators() == 0);
  scenario.training.offload_optimizer = true;
  CHECK(own_communicators() == 16);
}

TEST_CASE("builder: every schedule makes a step that ends", "[graph]") {
  for (const ScheduleVariant& variant : schedule_variants())
    for (int vpp : {1, 2, 4}) {
      const ScheduleRequest request{.ranks = 2, .microbatches = 8, .chunks = vpp};
      if (!make_schedule(std::string(variant.name), request)) continue;
      Scenario scenario = small_scenario(2, 2, 2);
      scenario.parallel.vpp = vpp;
      scenario.parallel.pp_schedule = std::string(variant.name);
      for (const bool overlap : {true, false}) {
        scenario.parallel.overlap_p2p = overlap;
        INFO(variant.name << " vpp " << vpp << " overlap " << overlap);
        CHECK(run(scenario).timeline.step_time > Duration{});
      }
    }
}

// Source: docs/references.md#pipedream
TEST_CASE("builder: PipeDream reduces gradients and updates after every backward, PipeDream-2BW once in a step",
          "[graph]") {
  Scenario scenario = small_scenario(2, 4, 2);
  scenario.parallel.zero_stage = GENERATE(0, 1, 2, 3);
  scenario.parallel.overlap_grad_reduce = scenario.parallel.overlap_param_gather = GENERATE(true, false);
  CAPTURE(scenario.parallel.zero_stage, scenario.parallel.overlap_grad_reduce);
  const auto step = [&](const char* schedule) {
    scenario.parallel.pp_schedule = schedule;
    return run(scenario);
  };
  const auto updates = [](const ForecastRun& each) {
    const std::vector<ProgramItem>& items = each.graph.programs[1];
    return std::count_if(items.begin(), items.end(), [&](const ProgramItem& item) {
      return each.graph.templates[static_cast<std::size_t>(item.template_index)].name == "optimizer";
    });
  };
  const auto bytes_of = [](const ForecastRun& each, Traffic traffic) {
    Bytes sum;
    for (const TrafficCount& count : count_traffic(each.graph, 1))
      sum += count.traffic == traffic ? count.size : Bytes{};
    return sum;
  };
  const ForecastRun each_backward = step("pipedream");
  const ForecastRun once = step("pipedream-2bw");
  const int microbatches = each_backward.plan.num_microbatches;
  REQUIRE(microbatches == 8);
  CHECK(updates(each_backward) == microbatches);
  CHECK(updates(once) == 1);
  const bool every_microbatch = scenario.parallel.zero_stage == 3;  // which reduces so under every schedule
  CHECK(bytes_of(each_backward, Traffic::gradients) ==
        bytes_of(once, Traffic::gradients) * (every_microbatch ? 1 : microbatches));
  CHECK(bytes_of(each_backward, Traffic::parameters) ==
        bytes_of(once, Traffic::parameters) * (every_microbatch ? 1 : microbatches));
  CHECK(each_backward.forecast.optimizer_s > 7 * once.forecast.optimizer_s);
  CHECK(run(scenario, {.unfold = true}).timeline.step_time == once.timeline.step_time);
  scenario.parallel.pp_schedule = "pipedream";
  CHECK(run(scenario, {.unfold = true}).timeline.step_time == each_backward.timeline.step_time);
}

TEST_CASE("builder: an update after every backward does not wait for other stages, but for a table on two of them",
          "[graph]") {
  Scenario scenario = small_scenario(1, 4, 1);
  scenario.parallel.pp_schedule = "pipedream";
  scenario.model.tied_embeddings = false;
  const ForecastRun apart = run(scenario);
  // Rank 3 turns every forward into a backward and updates; its first update is long over when rank 0 has its first gradient.
  for (const CostedCollective& each : apart.graph.collectives) CHECK(each.traffic != Traffic::control);
  scenario.model.tied_embeddings = true;
  const ForecastRun common = run(scenario);
  CHECK(seconds(common.timeline.step_time) > 1.25 * seconds(apart.timeline.step_time));
}

TEST_CASE("builder: more micro-batches make the bubble smaller, more virtual stages too", "[metamorphic][graph]") {
  Scenario scenario = small_scenario(1, 4, 1);
  scenario.profile.host = {};  // its cost per step would dilute the fraction
  const double few = run(scenario).forecast.bubble_fraction;
  scenario.training.global_batch_size = 32;
  const double many = run(scenario).forecast.bubble_fraction;
  CHECK(many < few);
  scenario.parallel.vpp = 2;
  CHECK(run(scenario).forecast.bubble_fraction < many);
}

TEST_CASE("builder: overlapping gradients hides them, not overlapping shows them whole", "[graph]") {
  Scenario scenario = small_scenario(1, 1, 16);
  const double hidden = exposed(run(scenario), Traffic::gradients);
  scenario.parallel.overlap_grad_reduce = false;
  const ForecastRun shown = run(scenario);
  CHECK(hidden < exposed(shown, Traffic::gradients));
  double whole = 0;
  for (const CostedCollective& each : shown.graph.collectives)
    if (each.traffic == Traffic::gradients) whole += seconds(each.cost.duration);
  CHECK(exposed(shown, Traffic::gradients) == Approx(whole).epsilon(0.01));  // and the launch of the first
}

TEST_CASE("builder: ZeRO stages move what their formulas say", "[oracle][graph]") {
  const auto bytes = [](int zero, Collective what) {
    Scenario scenario = small_scenario(1, 1, 8);
    scenario.parallel.zero_stage = zero;
    scenario.parallel.reshard_root = true;
    const ForecastRun result = run(scenario);
    std::int64_t sum = 0;
    for (const ProgramItem& item : result.graph.programs[0])
      for (const Op& op : result.graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
        if (op.type != OpType::collective) continue;
        const CostedCollective& call = result.graph.collectives[static_cast<std::size_t>(op.payload)];
        if ((call.traffic == Traffic::gradients || call.traffic == Traffic::parameters) && call.call.collective == what)
          sum += call.call.size.count;
      }
    return sum;
  };
  const std::int64_t n = parameter_count(small_scenario(1, 1, 8).model).total();
  const std::int64_t m = 8;  // micro-batches
  CHECK(bytes(0, Collective::all_reduce) == 4 * n);
  CHECK(bytes(1, Collective::reduce_scatter) == 4 * n);
  CHECK(bytes(1, Collective::all_gather) == 2 * n);
  CHECK(bytes(2, Collective::reduce_scatter) == m * 4 * n);
  CHECK(bytes(3, Collective::reduce_scatter) == m * 4 * n);
  CHECK(bytes(3, Collective::all_gather) == m * 2 * 2 * n);
}

namespace {

/// Bytes of the operators of this name in one step of eight micro-batches on eight ranks, for each parameter.
double moved_per_parameter(const Parallel& parallel, const std::string& name, int dp = 8) {
  Scenario scenario = small_scenario(1, 1, dp);
  const int ranks = scenario.parallel.dp;
  scenario.parallel = parallel;
  scenario.parallel.dp = ranks;
  scenario.parallel.reshard_root = parallel.zero_stage == 3;
  const ForecastRun result = run(scenario);
  std::int64_t sum = 0;
  for (const ProgramItem& item : result.graph.programs[0])
    for (const Op& op : result.graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type != OpType::compute || op.payload < 0) continue;
      const Operator& work = result.graph.operators[static_cast<std::size_t>(op.payload)].op;
      if (work.name == name) sum += std::get<ElementwiseShape>(work.shape).traffic.count;
    }
  return static_cast<double>(sum) / static_cast<double>(parameter_count(scenario.model).total());
}

}  // namespace

TEST_CASE("builder: FSDP, DeepSpeed and DDP copy what they gather and what they reduce", "[oracle][graph]") {
  const auto gathered = [](DataParallelKind kind, int zero = 3, int dp = 8) {
    return moved_per_parameter({.zero_stage = zero,
                                .data_parallel = kind,
                                .param_persistence_threshold = kind == DataParallelKind::deepspeed ? 1 : 0},
                               "parameter_copy", dp);
  };
  const auto reduced = [](DataParallelKind kind, int zero = 3, int dp = 8) {
    return moved_per_parameter({.zero_stage = zero,
                                .data_parallel = kind,
                                .param_persistence_threshold = kind == DataParallelKind::deepspeed ? 1 : 0},
                               "gradient_copy", dp);
  };
  constexpr double m = 8;                                     // micro-batches
  CHECK(gathered(DataParallelKind::automatic) == m * 2 * 4);  // before the forward and the backward
  CHECK(reduced(DataParallelKind::automatic) == m * (2 + 4));
  CHECK(gathered(DataParallelKind::fsdp1) == 0);
  // Whole: concatenated (2 + 2), cast (2 + 4), divided (4 + 4). The shard: divided again (8), added to others in all but one (12).
  CHECK(reduced(DataParallelKind::fsdp1) == Approx(m * (4 + 6 + 8) + (m * 8 + (m - 1) * 12) / 8));
  CHECK(moved_per_parameter({.zero_stage = 3, .gathers_in_place = true}, "parameter_copy") == 0);
  CHECK(gathered(DataParallelKind::deepspeed) == m * 2 * 4);
  // Stage 3: into the bucket (2 + 2), cast (2 + 4), concatenated and divided (4 + 4). Stage 1, once: into the bucket, divided and
  // flattened (2 + 2), cast there and back (2 + 4).
  CHECK(reduced(DataParallelKind::deepspeed) == m * (4 + 6 + 8 + 8));
  CHECK(reduced(DataParallelKind::deepspeed, 1) == 3 * 4 + 2 * 6);
  CHECK(reduced(DataParallelKind::ddp, 0) == 4 * 4);  // into the bucket and back, fp32
  CHECK(gathered(DataParallelKind::automatic, 3, 1) == 0);
  CHECK(reduced(DataParallelKind::automatic, 3, 1) == 0);
  CHECK(gathered(DataParallelKind::automatic, 1) == 0);
  CHECK(reduced(DataParallelKind::automatic, 1) == 0);
}

TEST_CASE("builder: gradients that are reduced once are added up in every micro-batch", "[oracle][graph]") {
  const auto bytes = [](DataParallelKind kind, int zero, const char* name, bool overlap = true) {
    return moved_per_parameter(
        {.zero_stage = zero, .defer_grad_sync = zero == 3, .overlap_grad_reduce = overlap, .data_parallel = kind},
        name);
  };
  // FSDP2: cast to fp32 (2 + 4), then added to seven times (4 + 2 + 4); the sum is copied (4 + 4).
  CHECK(bytes(DataParallelKind::automatic, 3, "gradient_sum") == Approx(6 + 7 * 10).epsilon(1e-6));
  CHECK(bytes(DataParallelKind::automatic, 3, "gradient_copy") == 4 + 4);
  // FSDP1: concatenated in every micro-batch (2 + 2), in 16 bits added in seven (2 + 2 + 2); the last one's is cast and divided.
  CHECK(bytes(DataParallelKind::fsdp1, 3, "gradient_sum") + bytes(DataParallelKind::fsdp1, 3, "gradient_copy") ==
        Approx(8 * 4 + 7 * 6 + 6 + 8 + 8.0 / 8).epsilon(1e-6));
  for (const bool overlap : {true, false}) {
    CHECK(bytes(DataParallelKind::deepspeed, 1, "gradient_sum", overlap) == Approx(7 * 6).epsilon(1e-6));
    CHECK(bytes(DataParallelKind::ddp, 0, "gradient_sum", overlap) == Approx(7 * 12).epsilon(1e-6));
  }
  CHECK(bytes(DataParallelKind::deepspeed, 2, "gradient_sum") == 0);  // reduced in each
  CHECK(bytes(DataParallelKind::automatic, 1, "gradient_sum") == 0);  // Megatron-LM's multiplications add
}

TEST_CASE("builder: only Megatron-LM's gradients are set to zero", "[oracle][graph]") {
  CHECK(moved_per_parameter({}, "zero_grad") == 4);
  CHECK(moved_per_parameter({.zero_stage = 3}, "zero_grad") == 0);
  CHECK(moved_per_parameter({.data_parallel = DataParallelKind::ddp}, "zero_grad") == 0);
  CHECK(moved_per_parameter({.zero_stage = 1, .data_parallel = DataParallelKind::deepspeed}, "zero_grad") == 0);
}

TEST_CASE("builder: before a step the host gathers two sums of each metric and rank", "[oracle][graph]") {
  const auto host = [](int metrics) {
    Scenario scenario = small_scenario(1, 1, 8);
    scenario.training.metric_losses = metrics;
    const StepGraph graph = run(scenario).graph;
    return graph.templates[static_cast<std::size_t>(graph.programs[0].front().template_index)].ops.front().host;
  };
  CHECK(host(2) - host(0) == Duration{2 * 2 * 8 * 13'500'000});
}

TEST_CASE("builder: full recomputation adds a third to the matrix work of the layers", "[graph]") {
  Scenario scenario = small_scenario(1, 1, 1);
  const ForecastRun plain = run(scenario);
  scenario.training.recompute = Recompute::full;
  const ForecastRun recomputed = run(scenario);
  CHECK(recomputed.forecast.mfu < plain.forecast.mfu);
  CHECK(recomputed.forecast.hfu > recomputed.forecast.mfu);
  CHECK(plain.forecast.hfu == plain.forecast.mfu);
}

TEST_CASE("builder: the same input gives the same graph and the same spans", "[graph]") {
  const Scenario scenario = small_scenario(2, 2, 2);
  const ForecastRun a = run(scenario);
  const ForecastRun b = run(scenario);
  CHECK(a.graph.templates == b.graph.templates);
  CHECK(a.timeline.ranks == b.timeline.ranks);
}

TEST_CASE("builder: stages send activations in the precision that layers hand on", "[oracle][graph]") {
  Scenario scenario = small_scenario(1, 2, 1);
  const auto size = [&](Precision dtype) {
    scenario.training.dtype = dtype;
    return forecast(scenario, {}).value().graph.messages.at(0).size;
  };
  CHECK(size(Precision::bf16) == Bytes{1024 * 1024 * 2});
  CHECK(size(Precision::fp8) == Bytes{1024 * 1024 * 2});
  CHECK(size(Precision::fp32) == Bytes{1024 * 1024 * 4});
}

TEST_CASE("builder: a host that waits for its messages cannot issue ahead while the pipeline fills",
          "[oracle][graph]") {
  const auto step = [](bool overlap, int microbatches, const char* schedule) {
    Scenario scenario = small_scenario(1, 2, 1);
    scenario.profile.host = {.launch = 1e-3, .graph_launch = 0, .fit = {}};  // kernels take next to nothing beside it
    scenario.parallel.overlap_p2p = overlap;
    scenario.parallel.pp_schedule = schedule;
    scenario.training.global_batch_size = microbatches;
    return seconds(run(scenario).timeline.step_time);
  };
  // 1F1B on two stages where the host bounds both: (m + 1) (f + b). If it issues ahead, the second stage's host works while
  // the first stage's does: m (f + b), and next to nothing for what is still under way.
  const double pass = (step(false, 8, "1f1b") - step(false, 4, "1f1b")) / 4;
  CHECK((step(true, 8, "1f1b") - step(true, 4, "1f1b")) / 4 == Approx(pass).epsilon(0.02));
  const double hidden = step(false, 4, "1f1b") - step(true, 4, "1f1b");
  CHECK(hidden == Approx(pass).epsilon(0.1));
  // Zero Bubble's runtime waits for nothing.
  CHECK(step(false, 4, "zb-h1") - step(true, 4, "zb-h1") < 0.1 * pass);
}

TEST_CASE("builder: Megatron-LM's stacks overlap messages of interleaved stages only", "[graph]") {
  const auto step = [](int vpp, std::vector<std::string> changes) {
    changes.insert(changes.end(), {"stack=megatron-core", "parallel.zero_stage=1", "parallel.tp=4", "parallel.pp=4",
                                   "parallel.dp=4", fmt::format("parallel.vpp={}", vpp)});
    return forecast(shipped_scenario("p5-llama3-70b-64", changes), {}).value().forecast.step_time_s;
  };
  const std::vector<std::string> none = {"parallel.overlap_p2p=false"}, all = {"parallel.overlap_p2p_1f1b=true"};
  CHECK(step(1, {}) == step(1, none));
  CHECK(step(1, {}) > step(1, all));
  CHECK(step(2, {}) < step(2, none));
  CHECK(step(2, {}) == step(2, all));
}

TEST_CASE("builder: adapters take the host calls of the framework, not operators of a stack", "[oracle][graph][lora]") {
  const auto step = [](double launch, double call) {
    Scenario scenario = small_scenario(1, 1, 1);
    scenario.training.lora_rank = 8;
    scenario.profile.host = {.launch = launch, .call = call, .graph_launch = 0, .fit = {}};
    return seconds(run(scenario).timeline.step_time);
  };
  // Each of four matrices has two products and a sum in both directions and two weight gradients: 32 calls in each of 8 layers for each of
  // 8 micro-batches.
  CHECK(step(0, 2e-3) - step(0, 1e-3) == Approx(8 * 8 * 32 * 1e-3).epsilon(0.01));
  CHECK(step(2e-3, 0) - step(1e-3, 0) == Approx(step(2e-3, 1e-3) - step(1e-3, 1e-3)).epsilon(0.01));
}

TEST_CASE("builder: an all-reduce costs the host one call, whatever an operator costs it", "[graph]") {
  const auto host_times = [](double launch, bool sequence_parallel) {
    Scenario scenario = small_scenario(2, 1, 2);
    scenario.profile.host.launch = launch;
    scenario.parallel.sequence_parallel = sequence_parallel;
    const StepGraph graph = run(scenario).graph;
    std::array<std::set<std::int64_t>, 2> times;  // of others, of all-reduces
    for (const Template& each : graph.templates)
      for (const Op& op : each.ops)
        if (op.type == OpType::collective)
          times[graph.collectives[static_cast<std::size_t>(op.payload)].call.collective == Collective::all_reduce]
              .insert(op.host.picoseconds);
    return times;
  };
  using Times = std::set<std::int64_t>;
  CHECK(host_times(80e-6, false)[1] == Times{25'000'000});
  CHECK(host_times(80e-6, true)[0] == Times{80'000'000});  // gathers and scatters of the sequence
  CHECK(host_times(10e-6, false)[1] == Times{10'000'000});
}

TEST_CASE("builder: multiplications in fp8 with a scale for each row take 1.3 times as long", "[oracle][graph]") {
  Scenario scenario = shipped_scenario("p5-llama3-70b-64", {"training.dtype=fp8"});
  const StepGraph whole = run(scenario).graph;
  scenario.training.row_scales = true;
  const StepGraph rows = run(scenario).graph;
  int multiplications = 0;
  for (const CostedOperator& of_rows : rows.operators) {
    if (of_rows.op.kind != OperatorKind::gemm) continue;
    const auto same = std::find_if(whole.operators.begin(), whole.operators.end(), [&](const CostedOperator& each) {
      return each.op == of_rows.op && each.recomputed == of_rows.recomputed;
    });
    REQUIRE(same != whole.operators.end());
    const bool narrow = of_rows.op.precision == Precision::fp8;
    CHECK(static_cast<double>(of_rows.cost.duration.picoseconds) ==
          Approx((narrow ? 1.3 : 1.0) * static_cast<double>(same->cost.duration.picoseconds)));
    multiplications += narrow ? 1 : 0;
  }
  CHECK(multiplications >= 12);  // four matrices, each multiplied three times
}

TEST_CASE("builder: a multiplication of experts costs the host a call for each local expert", "[oracle][graph][moe]") {
  const auto host_times = [](int ep, bool graphs, OperatorKind wanted = OperatorKind::grouped_gemm) {
    Scenario scenario = small_scenario(1, 1, 4);
    scenario.model.moe = MixtureOfExperts{};
    scenario.model.moe->experts = 8;
    scenario.model.moe->topk = 2;
    scenario.model.moe->ffn_hidden = 512;
    scenario.parallel.ep = ep;
    scenario.training.cuda_graphs = graphs;
    scenario.profile.host.launch = 80e-6;
    scenario.profile.host.launch_per_expert = 10e-6;
    std::set<std::int64_t> times;
    const StepGraph graph = run(scenario).graph;
    for (const Template& each : graph.templates)
      for (const Op& op : each.ops)
        if (op.type == OpType::compute && op.payload >= 0 &&
            graph.operators[static_cast<std::size_t>(op.payload)].op.kind == wanted)
          times.insert(op.host.picoseconds / 1'000'000);
    return times;
  };
  using Times = std::set<std::int64_t>;
  CHECK(host_times(2, false) == Times{80 + 4 * 10});
  CHECK(host_times(4, false) == Times{80 + 2 * 10});
  CHECK(host_times(2, false, OperatorKind::gemm) == Times{80});
  CHECK(host_times(4, true) == Times{0});  // nodes of a graph
}

TEST_CASE("builder: an operator has the shape of its kind", "[graph]") {
  std::set<OperatorKind> seen;
  for (const char* name : {"gpt2-small", "mixtral-8x7b", "nemotron-h-8b", "deepseek-v3.2"}) {
    Scenario scenario = small_scenario(1, 1, 8);
    scenario.model = shipped_model(name);
    for (const CostedOperator& each : run(scenario).graph.operators) {
      INFO(name << " " << each.op.name);
      CHECK(each.op.shape.index() == shape_for(each.op.kind).index());
      seen.insert(each.op.kind);
    }
  }
  CHECK(seen.size() > kOperatorKinds / 2);
}
