// Which collectives share a communicator, and what follows from it (docs/models.md#communicators).
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/groups.hpp"
#include "sim/graph/template_writer.hpp"
#include "sim/io/stack.hpp"
#include "sim/network/cluster_links.hpp"
#include "tests/network/small_clusters.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using tracecast::test::small_scenario;

namespace {

// ---- A graph made by hand ------------------------------------------------------------------------------------------

constexpr EventRef kComputed{0, EventRef::kLocal};

Op collective(StreamId stream, std::int32_t payload, Duration duration) {
  Op op;
  op.type = OpType::collective;
  op.stream = stream;
  op.payload = payload;
  op.duration = duration;
  return op;
}

/// Two ranks compute for 50 us. A reduction that takes 40 us alone waits for it; a gather that takes 20 us alone is
/// issued after the reduction and waits for nothing. Both load one link fully.
///
/// `separate`: the gather has a communicator, and with it a stream, of its own.   after: also waits for the computation
StepGraph reduction_and_gather(const ClusterLinks& links, bool separate, bool after) {
  StepGraph graph;
  graph.streams = {{"compute"}, {"dp"}, {"dp gather"}};
  graph.local_events = 1;
  graph.microbatches = 1;
  const std::int32_t gathers = separate ? 1 : 0;
  graph.collectives.resize(2);
  graph.collectives[0].traffic = Traffic::gradients;
  graph.collectives[1].traffic = Traffic::parameters;
  graph.collectives[1].slot = gathers;
  Op computed;
  computed.duration = 50_us;
  computed.records = kComputed;
  Op reduction = collective(1, 0, 40_us);
  reduction.waits = {kComputed};
  Op gather = collective(static_cast<StreamId>(1 + gathers), 1, 20_us);
  if (after) gather.waits = {kComputed};
  graph.templates.resize(1);
  graph.templates[0].ops = {computed, reduction, gather};
  graph.programs = {{{0, 0}}};
  graph.communicators.resize(2);
  for (Communicator& each : graph.communicators) each.members = {0, 1};
  for (const std::int32_t number : {0, 1}) {
    Rank rank;
    rank.representative = number;
    rank.communicators = {0, 1};
    graph.ranks.push_back(rank);
  }
  const auto shape = [&links](Duration alone) {
    return TransferShape{{}, alone, links.capacity(0), {{.link = 0, .weight = kWeightOne}}};
  };
  graph.loads = FoldedLoads{{{0, 0, shape(40_us)}, {gathers, 1, shape(20_us)}}, {}};
  return graph;
}

struct Ends {
  Duration reduction;
  Duration gather;
  bool operator==(const Ends&) const = default;
};

Ends ends(bool separate, bool after) {
  const Cluster cluster = small_cluster(16);
  const StepGraph graph = reduction_and_gather(ClusterLinks(cluster, "Hopper"), separate, after);
  const Timeline run =
      simulate(graph, StepNetwork(NetworkKind::fluid, cluster, "Hopper"), {.record_spans = true}).value();
  Ends found;
  for (const Span& span : run.spans) {
    if (span.op == 1) found.reduction = span.end;
    if (span.op == 2) found.gather = span.end;
  }
  return found;
}

// ---- Graphs of frameworks ------------------------------------------------------------------------------------------

Scenario fsdp() {
  Scenario scenario = small_scenario(1, 1, 16);
  scenario.parallel.zero_stage = 3;
  return scenario;
}

Scenario megatron() {
  Scenario scenario = small_scenario(1, 2, 16);
  scenario.parallel.zero_stage = 1;
  return scenario;
}

Scenario with_experts(Scenario scenario) {
  scenario.model.moe = MixtureOfExperts{.experts = 8, .topk = 2, .ffn_hidden = 1024};
  scenario.parallel.ep = 4;
  return scenario;
}

Scenario with(Scenario scenario, const std::function<void(Parallel&)>& change) {
  change(scenario.parallel);
  return scenario;
}

StepGraph graph_of(const Scenario& scenario) {
  const Result<ForecastRun> run = forecast(scenario);
  INFO((error_text(run)));
  REQUIRE(run);
  return run->graph;
}

template <class Visit>
void for_each_collective(const StepGraph& graph, Visit visit) {
  for (const Template& each : graph.templates)
    for (const Op& op : each.ops)
      if (op.type == OpType::collective) visit(op, graph.collectives[static_cast<std::size_t>(op.payload)]);
}

/// Names of the streams of the collectives of this kind.
std::set<std::string> streams_of(const StepGraph& graph, Traffic traffic, Collective collective) {
  std::set<std::string> streams;
  for_each_collective(graph, [&](const Op& op, const CostedCollective& call) {
    if (call.traffic == traffic && call.call.collective == collective) streams.insert(graph.streams[op.stream].name);
  });
  return streams;
}

struct DataParallelStreams {
  std::set<std::string> gathers;
  std::set<std::string> reductions;  ///< reduce-scatters
  std::set<std::string> all_reductions;
  bool operator==(const DataParallelStreams&) const = default;
};

DataParallelStreams streams_of(const Scenario& scenario) {
  const StepGraph graph = graph_of(scenario);
  return {streams_of(graph, Traffic::parameters, Collective::all_gather),
          streams_of(graph, Traffic::gradients, Collective::reduce_scatter),
          streams_of(graph, Traffic::gradients, Collective::all_reduce)};
}

/// Moves of one kind on rank 0, while NICs are slow.
struct Move {
  Duration start;
  Duration end;
  bool overlaps(const Move& other) const { return start < other.end && other.start < end; }
};

std::map<std::string, std::vector<Move>> moves(Scenario scenario) {
  scenario.cluster.node.nic_rate.bytes_per_second /= 16;
  const ForecastRun run = forecast(scenario, {.record_spans = true}).value();
  std::map<std::string, std::vector<Move>> found;
  for (const Span& span : run.timeline.spans) {
    const Op& op =
        run.graph.templates[static_cast<std::size_t>(span.template_index)].ops[static_cast<std::size_t>(span.op)];
    if (span.rank != 0 || op.type != OpType::collective) continue;
    const CostedCollective& call = run.graph.collectives[static_cast<std::size_t>(op.payload)];
    const auto slot = static_cast<Slot>(call.slot);
    const bool expert = slot == Slot::expert_gradients || slot == Slot::expert_parameters;
    found[std::string(expert ? "expert " : "") + to_string(call.call.collective)].push_back({span.start, span.end});
  }
  return found;
}

bool overlap(const std::vector<Move>& first, const std::vector<Move>& second) {
  REQUIRE(!first.empty());
  REQUIRE(!second.empty());
  return std::any_of(first.begin(), first.end(), [&](const Move& a) {
    return std::any_of(second.begin(), second.end(), [&](const Move& b) { return a.overlaps(b); });
  });
}

}  // namespace

TEST_CASE("communicators: the collectives of one run in order of issue, those of two share the link",
          "[oracle][engine][fluid]") {
  // Both are ready at 50. In order: 50 + 40 = 90, then 90 + 20 = 110.
  CHECK(ends(false, true) == Ends{90_us, 110_us});
  // Half of the link each: the gather moves its 20 until 90; the reduction has 20 of its 40 left and ends at 110.
  CHECK(ends(true, true) == Ends{110_us, 90_us});
  // A gather that waits for nothing still follows the reduction that was issued before it; with a communicator of its
  // own it is over long before the reduction begins.
  CHECK(ends(false, false) == Ends{90_us, 110_us});
  CHECK(ends(true, false) == Ends{90_us, 20_us});
}

TEST_CASE("communicators: each is used by one stream of a rank", "[property][graph]") {
  std::vector<Scenario> all{fsdp(), megatron(), with_experts(fsdp()), with_experts(megatron())};
  all.push_back(with(fsdp(), [](Parallel& p) { p.separate_gather_group = true; }));
  all.push_back(with(with_experts(fsdp()), [](Parallel& p) { p.separate_gather_group = true; }));
  all.push_back(with(with_experts(fsdp()), [](Parallel& p) { p.reshard_group = 2; }));
  all.push_back(with(fsdp(), [](Parallel& p) { p.shard_group = 8; }));
  all.push_back(with(fsdp(), [](Parallel& p) { p.data_parallel = DataParallelKind::deepspeed; }));
  all.push_back(with(small_scenario(1, 1, 16), [](Parallel& p) { p.data_parallel = DataParallelKind::ddp; }));
  all.push_back(
      with(small_scenario(1, 1, 16), [](Parallel& p) { p.data_parallel = DataParallelKind::parameter_server; }));
  all.push_back(small_scenario(2, 2, 4));
  all.back().training.optimizer = OptimizerKind::lamb;
  all.back().model.tied_embeddings = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO("scenario " << i);
    const StepGraph graph = graph_of(all[i]);
    std::map<Slot, std::set<StreamId>> streams;
    for_each_collective(graph, [&](const Op& op, const CostedCollective& call) {
      if (static_cast<Slot>(call.slot) != Slot::alone) streams[static_cast<Slot>(call.slot)].insert(op.stream);
    });
    CHECK_FALSE(streams.empty());
    for (const auto& [slot, used] : streams) {
      INFO("slot " << static_cast<int>(slot));
      CHECK(used.size() == 1);
    }
  }
}

TEST_CASE("communicators: PyTorch's FSDP gathers and reduces over one", "[graph]") {
  const std::set<std::string> dp{"dp"};
  CHECK(streams_of(fsdp()) == DataParallelStreams{dp, dp, {}});
  // A hybrid reduces its shards over the replicas in a second one, FSDP2's number gathers again in a third.
  CHECK(streams_of(with(fsdp(), [](Parallel& p) { p.shard_group = 8; })) ==
        DataParallelStreams{dp, dp, {"dp replicas"}});
  CHECK(streams_of(with(fsdp(), [](Parallel& p) { p.reshard_group = 2; })) ==
        DataParallelStreams{{"dp", "dp gather"}, dp, {}});
  CHECK(streams_of(with_experts(fsdp())) == DataParallelStreams{{"dp", "expert dp"}, {"dp", "expert dp"}, {}});
}

TEST_CASE("communicators: gathers have their own where a run asks for it", "[graph]") {
  const auto separate = [](Parallel& p) { p.separate_gather_group = true; };
  CHECK(streams_of(with(fsdp(), separate)) == DataParallelStreams{{"dp gather"}, {"dp"}, {}});
  CHECK(streams_of(with(megatron(), separate)) == DataParallelStreams{{"dp gather"}, {"dp"}, {}});
  CHECK(streams_of(with(with_experts(fsdp()), separate)) ==
        DataParallelStreams{{"dp gather", "expert dp gather"}, {"dp", "expert dp"}, {}});
}

TEST_CASE("communicators: DDP and DeepSpeed have one, Megatron-Core a second one for experts", "[graph]") {
  const std::set<std::string> dp{"dp"};
  const auto deepspeed = [](Parallel& p) { p.data_parallel = DataParallelKind::deepspeed; };
  CHECK(streams_of(with(small_scenario(1, 1, 16), [](Parallel& p) { p.data_parallel = DataParallelKind::ddp; })) ==
        DataParallelStreams{{}, {}, dp});
  CHECK(streams_of(with(fsdp(), deepspeed)) == DataParallelStreams{dp, dp, {}});
  CHECK(streams_of(with(megatron(), deepspeed)) == DataParallelStreams{dp, {}, dp});
  CHECK(streams_of(megatron()) == DataParallelStreams{dp, dp, {}});
  CHECK(streams_of(with_experts(megatron())) == DataParallelStreams{{"dp", "expert dp"}, {"dp", "expert dp"}, {}});
}

TEST_CASE("communicators: no shipped stack separates gathers, which frameworks leave to an option", "[graph]") {
  const std::vector<Stack> stacks = read_stacks(source_dir() / "scenarios/stacks").value();
  REQUIRE(stacks.size() > 10);
  for (const Stack& stack : stacks) {
    INFO(stack.name);
    CHECK_FALSE(stack.parallel.separate_gather_group);
    for (Scenario scenario : {fsdp(), megatron()}) {
      const DataParallelKind kind = stack.parallel.data_parallel;
      if (kind == DataParallelKind::ddp) continue;  // has nothing to gather
      scenario.parallel.data_parallel = kind;
      const DataParallelStreams found = streams_of(scenario);
      CHECK(found.gathers == std::set<std::string>{"dp"});
      CHECK((found.reductions.empty() ? found.all_reductions : found.reductions) == found.gathers);
    }
  }
}

TEST_CASE("communicators: FSDP's gathers and reductions take turns, separate ones share the wires", "[graph][fluid]") {
  const auto together = moves(fsdp());
  CHECK_FALSE(overlap(together.at("all_gather"), together.at("reduce_scatter")));
  const auto apart = moves(with(fsdp(), [](Parallel& p) { p.separate_gather_group = true; }));
  CHECK(overlap(apart.at("all_gather"), apart.at("reduce_scatter")));
}

TEST_CASE("communicators: FSDP's streams order dense and expert parameters, Megatron-Core's groups do not",
          "[graph][fluid]") {
  const auto fsdp_moves = moves(with_experts(fsdp()));
  CHECK_FALSE(overlap(fsdp_moves.at("all_gather"), fsdp_moves.at("expert all_gather")));
  CHECK_FALSE(overlap(fsdp_moves.at("reduce_scatter"), fsdp_moves.at("expert reduce_scatter")));
  const auto megatron_moves = moves(with_experts(megatron()));
  CHECK(overlap(megatron_moves.at("all_gather"), megatron_moves.at("expert all_gather")));
  CHECK(overlap(megatron_moves.at("reduce_scatter"), megatron_moves.at("expert reduce_scatter")));
}

TEST_CASE("the ranks of experts: tensor, expert, data, and the same again in every copy of the model", "[graph][moe]") {
  const auto members = [](const Parallel& parallel, int rank, Slot slot) {
    Model model = small_scenario(1, 1, 1).model;
    model.moe = MixtureOfExperts{.experts = 8, .topk = 2, .ffn_hidden = 1024};
    const Plan plan = make_plan(model, parallel, {.seq_length = 1024, .global_batch_size = 64}, 32).value();
    return Groups(plan, 0, 0, {}).members(rank, slot);
  };
  const Parallel spread{.ep = 2, .etp = 4, .zero_stage = 1};
  CHECK(members(spread, 5, Slot::expert_tensor) == std::vector{4, 5, 6, 7});
  CHECK(members(spread, 5, Slot::expert) == std::vector{1, 5});
  CHECK(members(spread, 5, Slot::expert_gradients) == std::vector{5, 13, 21, 29});
  CHECK(members(spread, 5, Slot::expert_replicas) == std::vector{5});
  Parallel as_dense{.tp = 4, .ep = 2, .etp = 4, .sequence_parallel = true};
  CHECK(members(as_dense, 5, Slot::expert_tensor) == std::vector{5});  // those of Slot::tensor
  const Parallel copies{.ep = 4, .zero_stage = 3, .shard_group = 8};
  CHECK(members(copies, 9, Slot::expert) == std::vector{8, 9, 10, 11});
  CHECK(members(copies, 9, Slot::expert_gradients) == std::vector{9, 13});
  CHECK(members(copies, 9, Slot::expert_replicas) == std::vector{1, 9, 17, 25});
  CHECK(members(copies, 9, Slot::replicas) == std::vector{1, 9, 17, 25});
}

TEST_CASE("copies of the model add up the gradients of their experts", "[graph][moe]") {
  Scenario scenario = small_scenario(1, 1, 16);
  scenario.model.moe = MixtureOfExperts{.experts = 8, .topk = 2, .ffn_hidden = 1024};
  scenario.parallel.ep = 4;
  scenario.parallel.zero_stage = 3;
  scenario.parallel.shard_group = 8;
  const auto reduced = [&](Slot slot) {
    const ForecastRun run = forecast(scenario).value();
    std::int64_t largest = 0;
    for (const CostedCollective& each : run.graph.collectives)
      if (each.slot == static_cast<std::int32_t>(slot) && each.call.collective == Collective::all_reduce)
        largest = std::max(largest, each.call.size.count);
    return largest;
  };
  // A layer's experts: 3 h f of 8 / 4 in fp32, of which two ranks of each copy have a half.
  CHECK(reduced(Slot::expert_replicas) == 3LL * 1024 * 1024 * (8 / 4) * 4 / 2);
  scenario.parallel.shard_group = 0;
  CHECK(reduced(Slot::expert_replicas) == 0);
}
