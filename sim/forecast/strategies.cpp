#include "sim/forecast/strategies.hpp"

#include <algorithm>
#include <array>
#include <ranges>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/traffic.hpp"
#include "sim/plan/parameter_states.hpp"

namespace tracecast {
namespace {

struct Strategy {
  const char* name;
  const char* title;
  /// Applies the strategy to a job of `ranks`.
  void (*apply)(Scenario& scenario, int ranks);
};

constexpr int kMicrobatches = kOneGpuBatch;

void data_parallel(Scenario& s, int ranks) { s.parallel.dp = ranks; }
void zero(Scenario& s, int ranks, int stage) {
  s.parallel.dp = ranks;
  s.parallel.zero_stage = stage;
}

/// The ZeRO rows reduce once in a step, as with one micro-batch; stage 3 is FSDP.
constexpr std::array<Strategy, 11> kStrategies{{
    {"dp", "data parallel", data_parallel},
    {"zero-1", "ZeRO-1, distributed optimizer", [](Scenario& s, int ranks) { zero(s, ranks, 1); }},
    {"zero-2", "ZeRO-2", [](Scenario& s, int ranks) { zero(s, ranks, 2); }},
    {"zero-3", "ZeRO-3, FSDP",
     [](Scenario& s, int ranks) {
       s.parallel.dp = ranks;
       s.parallel.sharding_strategy = ShardingStrategy::full_shard;
     }},
    {"hsdp", "HYBRID_SHARD over half",
     [](Scenario& s, int ranks) {
       s.parallel.dp = ranks;
       s.parallel.sharding_strategy = ShardingStrategy::hybrid_shard;
       s.parallel.shard_group = std::max(1, ranks / 2);
     }},
    {"pp", "pipeline parallel", [](Scenario& s, int ranks) { s.parallel.pp = ranks; }},
    {"tp", "tensor parallel", [](Scenario& s, int ranks) { s.parallel.tp = ranks; }},
    {"tp-gather", "tensor parallel, each layer gathered",
     [](Scenario& s, int ranks) {
       s.parallel.tp = ranks;
       s.parallel.tp_split = TensorSplit::gather;
     }},
    {"cp", "context parallel", [](Scenario& s, int ranks) { s.parallel.cp = ranks; }},
    {"ep", "expert parallel",
     [](Scenario& s, int ranks) {
       s.parallel.dp = s.parallel.ep = ranks;
       if (s.model.moe) return;
       s.model.moe = MixtureOfExperts{};
       s.model.moe->experts = 64;
       s.model.moe->topk = 2;
       s.model.moe->ffn_hidden = s.model.ffn_hidden_size;
     }},
    {"ps", "parameter server",
     [](Scenario& s, int ranks) {
       s.parallel.dp = ranks;
       s.parallel.data_parallel = DataParallelKind::parameter_server;
     }},
}};

/// One GPU with the batch of `ranks` data-parallel ones.
Scenario alone(const Scenario& base, int global_batch) {
  Scenario scenario = base;
  scenario.parallel = Parallel{};
  scenario.locations.clear();
  scenario.cluster.world_size = 1;
  scenario.training.micro_batch_size = 1;
  scenario.training.global_batch_size = global_batch;
  return scenario;
}

/// kMicrobatches micro-batches on every data-parallel rank.
Scenario with(const Scenario& base, const Strategy& strategy, int ranks) {
  Scenario scenario = alone(base, kMicrobatches);
  strategy.apply(scenario, ranks);
  scenario.cluster.world_size = ranks;
  scenario.training.global_batch_size = static_cast<std::int64_t>(kMicrobatches) * std::max(1, scenario.parallel.dp);
  return scenario;
}

std::string tensor_of(Traffic traffic) {
  switch (traffic) {
    case Traffic::gradients:
    case Traffic::embedding:
      return "gradients";
    case Traffic::parameters:
      return "weights";
    case Traffic::context_parallel:
      return "keys and values";
    case Traffic::expert_parallel:
      return "tokens";
    case Traffic::offload:
      return "states";
    case Traffic::tensor_parallel:
    case Traffic::pipeline:
    case Traffic::control:
      break;
  }
  return "activations";
}

/// A rank in the middle of the pipeline communicates with both adjacent stages.
std::size_t middle(const StepGraph& graph) { return graph.ranks.size() / 2; }

std::vector<TrafficCount> counts_of(const StepGraph& graph) {
  std::vector<TrafficCount> counts;
  for (const TrafficCount& each : count_traffic(graph, middle(graph)))
    if (each.traffic != Traffic::control) counts.push_back(each);
  return counts;
}

std::int64_t calls_in(const StepGraph& graph, const TrafficCount& like) {
  std::int64_t calls = 0;
  for (const TrafficCount& each : count_traffic(graph, middle(graph)))
    if (each.traffic == like.traffic && each.collective == like.collective && each.slot == like.slot)
      calls += each.calls;
  return calls;
}

std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> gemm_shapes(const StepGraph& graph) {
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> shapes;
  for (const CostedOperator& each : graph.operators)
    if (const auto* gemm = std::get_if<GemmShape>(&each.op.shape)) shapes.insert({gemm->m, gemm->n, gemm->k});
  return shapes;
}

double busy_s(const StepGraph& graph, std::size_t rank) {
  double sum = 0;
  for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(graph.ranks[rank].program)])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      const bool moves = op.type == OpType::send || op.type == OpType::receive ||
                         (op.type == OpType::collective &&
                          graph.collectives[static_cast<std::size_t>(op.payload)].traffic != Traffic::control);
      if (moves) sum += seconds(op.duration);
    }
  return sum;
}

double exposed_s(const Timeline& timeline, std::size_t rank) {
  double sum = 0;
  for (int traffic = 0; traffic < kTrafficKinds; ++traffic)
    if (static_cast<Traffic>(traffic) != Traffic::control)
      sum += seconds(timeline.ranks[rank].exposed[static_cast<std::size_t>(traffic)]);
  return sum;
}

/// Of the pipeline rank that keeps most of each kind.
void add_shares(StrategyRow& row, const ForecastRun& run, const ForecastRun& one) {
  const auto mine = [&](Bytes MemoryByKind::*kind) {
    return std::ranges::max(run.forecast.memory |
                            std::views::transform([&](const MemoryByKind& rank) { return rank.*kind; }));
  };
  const MemoryByKind& all = one.forecast.memory.front();
  const auto share = [](Bytes part, Bytes whole) {
    return static_cast<double>(part.count) / static_cast<double>(std::max<std::int64_t>(1, whole.count));
  };
  const double tokens = static_cast<double>(run.plan.num_microbatches) * static_cast<double>(run.plan.tokens());
  row.share["tokens"] = tokens / run.forecast.tokens_per_step;
  // Recipes differ (FSDP keeps fp32 shards), so parameters are compared, not their bytes.
  const StateBytes own = bytes_per_parameter(run.plan.training, run.plan.parallel.zero_stage);
  const StateBytes each = bytes_per_parameter(one.plan.training, 0);
  row.share["weights"] = share(mine(&MemoryByKind::weights) * each.weights, all.weights * own.weights);
  row.share["gradients"] = share(mine(&MemoryByKind::gradients) * each.gradients, all.gradients * own.gradients);
  row.share["optimizer"] = share(mine(&MemoryByKind::optimizer) * each.optimizer, all.optimizer * own.optimizer);
  row.share["activations"] = share(mine(&MemoryByKind::activations), all.activations);
}

/// Compares the calls with those for twice the layers and for twice the micro-batches. One bucket holds all gradients
/// here: the number of buckets depends on the model and not on the strategy.
void add_traffic(StrategyRow& row, Scenario scenario, const ForecastRun& run) {
  scenario.parallel.ddp_bucket_size = 1'000'000'000'000;
  Scenario deeper = scenario;
  deeper.model.num_layers *= 2;
  Scenario longer = scenario;
  longer.training.global_batch_size *= 2;
  const Result<ForecastRun> once = forecast(scenario);
  const Result<ForecastRun> layers = forecast(deeper);
  const Result<ForecastRun> microbatches = forecast(longer);
  if (!once || !layers || !microbatches) return;
  for (const TrafficCount& each : counts_of(run.graph)) {
    StrategyTraffic traffic;
    traffic.what = tensor_of(each.traffic);
    traffic.collective = each.collective;
    traffic.calls = each.calls;
    traffic.sent_bytes = each.sent;
    // More than 1.5 times as many calls: those at the ends of the model do not grow with the layers.
    const std::int64_t calls = calls_in(once->graph, each);
    traffic.per_layer = 2 * calls_in(layers->graph, each) > 3 * calls;
    traffic.per_microbatch = 2 * calls_in(microbatches->graph, each) > 3 * calls;
    row.traffic.push_back(traffic);
  }
}

/// "parallel.pp: does not divide …"
std::string limit_text(const Error& error) {
  const Diagnostic& first = error.diagnostics.front();
  return first.key.empty() ? first.message : first.key + ": " + first.message;
}

void add_limit(StrategyRow& row, const Scenario& base, const Strategy& strategy) {
  constexpr int kMaxRanks = 1 << 12;
  for (int ranks = 2; ranks <= kMaxRanks; ranks *= 2) {
    const Scenario scenario = with(base, strategy, ranks);
    const Result<Plan> plan =
        make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
    if (plan) {
      row.largest = ranks;
      continue;
    }
    row.limit = limit_text(plan.error());
    return;
  }
  row.largest = 0;
}

Result<StrategyRow> row_of(const Scenario& base, const Strategy& strategy, int ranks) {
  StrategyRow row;
  row.name = strategy.name;
  row.title = strategy.title;
  row.ranks = ranks;
  const Scenario scenario = with(base, strategy, ranks);
  if (scenario.model.moe && !base.model.moe)
    row.note = fmt::format("the model has no experts: each FFN is replaced by {} of its size, {} for a token",
                           scenario.model.moe->experts, scenario.model.moe->topk);
  const Result<ForecastRun> run = forecast(scenario);
  if (!run) {
    row.limit = limit_text(run.error());
    return row;
  }
  Scenario same_work = alone(scenario, static_cast<int>(scenario.training.global_batch_size));
  const Result<ForecastRun> one = forecast(same_work);
  if (!one) return tl::unexpected(one.error());
  add_shares(row, *run, *one);
  add_traffic(row, scenario, *run);
  add_limit(row, base, strategy);
  const std::size_t rank = middle(run->graph);
  const double busy = busy_s(run->graph, rank);
  row.hidden = busy > 0 ? std::clamp(1 - exposed_s(run->timeline, rank) / busy, 0.0, 1.0) : 0;
  const auto whole_shapes = gemm_shapes(one->graph);
  const auto shapes = gemm_shapes(run->graph);
  row.same_operators = std::includes(whole_shapes.begin(), whole_shapes.end(), shapes.begin(), shapes.end());
  row.bubble = run->forecast.bubble_fraction;
  row.global_batch = scenario.training.global_batch_size;
  return row;
}

std::vector<std::string> names_where(const StrategyRow& row, bool below) {
  // A part is less than the middle between an equal share and all. Of activations a rank may have all but a few: the first of a
  // pipeline has all but the logits.
  const double middle = (1 + 1.0 / row.ranks) / 2;
  std::vector<std::string> names;
  for (const char* name : {"tokens", "weights", "gradients", "optimizer", "activations"}) {
    const auto found = row.share.find(name);
    if (found != row.share.end() && (found->second < middle) == below) names.emplace_back(name);
  }
  return names;
}

/// Weights, gradients and optimizer states in `names`.
std::vector<std::string> states_in(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return name == "tokens" || name == "activations"; });
  return names;
}

// Chosen: where the words of pros and cons change.
constexpr double kMostlyHidden = 0.5;
constexpr double kSmallBubble = 0.01;

}  // namespace

std::vector<std::string> pros(const StrategyRow& row) {
  std::vector<std::string> list;
  if (row.same_operators) list.emplace_back("the model's code stays that of one GPU");
  const std::vector<std::string> less = states_in(divided(row));
  if (!less.empty()) list.push_back(fmt::format("each rank keeps a part of {}", fmt::join(less, ", ")));
  if (row.global_batch == kOneGpuBatch) list.emplace_back("the global batch stays as it is");
  if (row.hidden >= kMostlyHidden) list.emplace_back("computation hides most of the communication");
  return list;
}

std::vector<std::string> cons(const StrategyRow& row) {
  std::vector<std::string> list;
  if (row.global_batch > kOneGpuBatch)
    list.push_back(
        fmt::format("large batch: it grows with the ranks, {} times here (critical_batch_tokens says the price)",
                    row.global_batch / kOneGpuBatch));
  const std::vector<std::string> kept = states_in(whole(row));
  if (!kept.empty()) list.push_back(fmt::format("memory: every rank keeps all {}", fmt::join(kept, ", ")));
  if (std::ranges::any_of(row.traffic, [](const StrategyTraffic& t) { return t.per_layer && t.per_microbatch; }))
    list.emplace_back("traffic in every layer and micro-batch needs fast links");
  if (row.hidden < kMostlyHidden) list.emplace_back("the step waits for most of the communication");
  if (row.bubble > kSmallBubble) list.emplace_back("bubble: ranks wait for each other");
  if (!row.same_operators) list.emplace_back("every layer has to be rewritten for divided operators");
  if (!row.limit.empty() && row.largest > 0) list.push_back(fmt::format("no more than {} ranks here", row.largest));
  return list;
}

std::vector<std::string> divided(const StrategyRow& row) { return names_where(row, true); }
std::vector<std::string> whole(const StrategyRow& row) { return names_where(row, false); }

std::string how_often(const StrategyTraffic& traffic) {
  if (traffic.per_layer && traffic.per_microbatch) return "per layer and micro-batch";
  if (traffic.per_layer) return "per layer";
  if (traffic.per_microbatch) return "per micro-batch";
  return "per step";
}

Result<std::vector<StrategyRow>> strategy_table(const Scenario& base, int ranks) {
  TRACECAST_ASSERT(ranks >= 2, "a strategy needs at least two ranks");
  std::vector<StrategyRow> rows;
  for (const Strategy& strategy : kStrategies) {
    Result<StrategyRow> row = row_of(base, strategy, ranks);
    if (!row) return tl::unexpected(row.error());
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace tracecast
