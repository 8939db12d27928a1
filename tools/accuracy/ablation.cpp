#include "tools/accuracy/ablation.hpp"

#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/base/quantile.hpp"
#include "sim/cost/power_limit.hpp"
#include "tools/accuracy/board_power.hpp"

namespace tracecast::accuracy {
namespace {

void each_gemm(RowScenario& row, const std::function<void(GemmModel&)>& change) {
  for (auto& [precision, model] : row.scenario.profile.gemm) change(model);
  change(row.scenario.profile.grouped_gemm);
}

void no_waves(RowScenario& row) {
  each_gemm(row, [](GemmModel& model) {
    model.wave_weight = 0;
    model.tile_exponent = 0;
  });
}

void no_power(RowScenario& row) {
  each_gemm(row, [](GemmModel& model) { model.power_exponent = 0; });
}

void no_host(RowScenario& row) { row.scenario.profile.host = {}; }

void no_training_factors(RowScenario& row) { row.scenario.profile.in_training = {}; }

void no_overlap(RowScenario& row) {
  Parallel& p = row.scenario.parallel;
  p.overlap_grad_reduce = p.overlap_param_gather = p.overlap_p2p = p.tp_comm_overlap = p.moe_shared_overlap = false;
}

/// Messages of any size at the bandwidth of large ones: no slower protocols in between, no latency.
void no_protocols(RowScenario& row) {
  CollectiveTuning& tuning = row.scenario.cluster.tuning;
  tuning.mid_size = tuning.net_mid_size = 1;
  tuning.base_latency = tuning.hop_latency = tuning.net_hop_latency = 0;
}

void no_recompute(RowScenario& row) {
  row.guess_recompute = false;
  row.scenario.training.recompute = Recompute::none;
}

/// Peak FLOP/s and peak bytes/s, the larger time of the two; attention at its peak too.
void plain_roofline(RowScenario& row) {
  constexpr double kSharp = 64;  // exponent of the norm: almost the maximum
  each_gemm(row, [](GemmModel& model) {
    GemmModel roofline;
    roofline.norm = kSharp;
    roofline.wave_weight = 0;
    roofline.fit = model.fit;
    model = roofline;
  });
  Profile& profile = row.scenario.profile;
  for (AttentionModel& model : profile.attention) {
    model.t0 = model.forward_s0 = model.backward_s0 = 0;
    model.forward_efficiency = model.backward_efficiency = 1;
  }
  for (auto& [kind, model] : profile.memory_bound) {
    model.t0 = 0;
    model.efficiency = 1;
  }
  profile.in_training = {};
  profile.host = {};
}

// Rules. Settings of a stack are changed before a row is read, everything else after it.

void no_age(Stack& stack) { stack.released = 0; }

/// Stacks by the host time that they share.
template <int Microseconds>
void no_host_launch(Stack& stack) {
  if (std::lround(1e6 * seconds(stack.host_launch)) == Microseconds) stack.host_launch = {};
}
void no_host_of_experts(Stack& stack) { stack.host_launch_experts = {}; }
void no_expert_launches(Stack& stack) { stack.host_launch_per_expert = {}; }
void no_blocking(Stack& stack) { stack.launch_blocking = false; }
void no_shard_ranks(Stack& stack) { stack.shard_rank_overhead = {}; }
void no_overlapping_steps(Stack& stack) { stack.steps_overlap = false; }
void no_attention_kernels(Stack& stack) { stack.attention_kernels.clear(); }
void no_unfused(Stack& stack) { stack.training.unfused_elementwise = false; }
void no_dropout(Stack& stack) { stack.dropout = 0; }
void no_deepep(Stack& stack) { stack.parallel.moe_dispatcher = MoeDispatcher::alltoall; }

void no_step_overhead(RowScenario& row) { row.scenario.profile.host.step_overhead = 0; }
void no_weight_gradient(RowScenario& row) { row.scenario.profile.in_training.weight_gradient = 1; }
void no_slowest_gpu(RowScenario& row) { row.scenario.profile.in_training.slowest_gpu = 1; }
void no_fused_experts(RowScenario& row) { row.scenario.training.fused_experts = false; }
void no_fp8_attention(RowScenario& row) { row.scenario.training.fp8_attention = false; }
void no_grace_host(RowScenario& row) {
  HostModel& host = row.scenario.profile.host;
  host.scale_eager(1 / std::exchange(host.relative, 1));
}
void no_graph_modules(RowScenario& row) { row.scenario.training.cuda_graph_modules.clear(); }
void no_deepep_rates(RowScenario& row) {
  MoeDispatcher& dispatcher = row.scenario.parallel.moe_dispatcher;
  if (dispatcher == MoeDispatcher::deepep) dispatcher = MoeDispatcher::hybridep;
}
void no_routing_groups(RowScenario& row) {
  if (row.scenario.model.moe) row.scenario.model.moe->routing_groups = row.scenario.model.moe->routing_group_limit = 0;
}
void no_popular_experts(RowScenario& row) { row.scenario.training.expert_routing = ExpertRouting::even; }
void no_expert_overlap(RowScenario& row) {
  Parallel& p = row.scenario.parallel;
  if (p.pp_schedule == "combined-1f1b") p.pp_schedule = default_schedule(p.vpp);
}
/// A schedule that is reported to be interleaved keeps two virtual stages, the fewest.
void no_chunks(RowScenario& row) {
  Parallel& p = row.scenario.parallel;
  if (!row.guessed_chunks || p.pp_schedule != "interleaved-1f1b") return;
  if (!row.guessed_schedule) {
    if (p.vpp % 2 == 0) p.vpp = 2;
    return;
  }
  p.vpp = 1;
  p.pp_schedule = "1f1b";
}
/// GPUs whose multiplications run at the clock of another board power (tools/accuracy/fit/catalogue.cpp).
void no_board_power(RowScenario& row) {
  static const std::map<std::string, double> kTimes{{"h100-96gb-500w", kH100With500W},
                                                    {"h100-pcie", kH100With500W},
                                                    {"h100-nvl", kH100With500W},
                                                    {"b300", clock_at_power(1000.0 / 1100)},
                                                    {"gb300", clock_at_power(1200.0 / 1400)}};
  const auto found = kTimes.find(row.scenario.profile.name);
  if (found == kTimes.end()) return;
  InTraining& factors = row.scenario.profile.in_training;
  for (double* factor :
       {&factors.gemm, &factors.gemm_fp8, &factors.gemm_fp8_block, &factors.gemm_fp4, &factors.attention})
    *factor /= found->second;
}

void add_shifts(Ablation& line, const std::vector<const RowForecast*>& whole,
                const std::vector<const RowForecast*>& without) {
  std::vector<double> all;
  std::map<std::string, std::vector<double>> by_source;
  std::map<std::size_t, double> before;
  for (const RowForecast* row : whole) before[row->row] = row->predicted_s;
  for (const RowForecast* row : without) {
    const auto found = before.find(row->row);
    if (found == before.end()) continue;
    all.push_back(row->predicted_s / found->second - 1);
    by_source[row->source].push_back(all.back());
  }
  line.shift = median(all);
  for (const auto& [source, shifts] : by_source) {
    const double own = median(shifts);
    if (std::abs(own) > std::abs(line.largest_shift)) line.largest_shift = own;
  }
}

std::vector<const RowForecast*> dense_rows(const std::vector<RowForecast>& rows) {
  std::vector<const RowForecast*> dense;
  for (const RowForecast* row : scored(rows))
    if (!row->moe) dense.push_back(row);
  return dense;
}

// Rows of the tables below: what is left out of a scenario, of a stack, or of how steps are simulated.

LeftOut rule(const char* name, const char* left_out, void (*change)(RowScenario&), const char* evidence = "") {
  return {.name = name, .left_out = left_out, .change = change, .evidence = evidence};
}
LeftOut rule(const char* name, const char* left_out, void (*change_stack)(Stack&), const char* evidence = "") {
  return {.name = name, .left_out = left_out, .change_stack = change_stack, .evidence = evidence};
}
LeftOut rule(const char* name, const char* left_out, const ForecastOptions& forecast, const char* evidence) {
  return {.name = name, .left_out = left_out, .forecast = forecast, .evidence = evidence};
}

LeftOut waves() { return rule("waves", "GEMM tiles of any size, in fractions of waves", no_waves, "measured GEMMs"); }
LeftOut power() { return rule("power", "long GEMMs keep their clock", no_power, "measured GEMMs"); }
LeftOut protocols() {
  return rule("protocols", "collectives without latency and slower protocols", no_protocols,
              "NCCL's source, measured collectives");
}
LeftOut slowdown() {
  return rule("slowdown", "transfers take no SMs and no memory bandwidth from concurrent kernels",
              ForecastOptions{.transfers_slow_compute = false}, "measured kernels beside collectives");
}
LeftOut contention() {
  return rule("contention", "no transfer slows another", ForecastOptions{.network = NetworkKind::isolated}, "SimGrid");
}

}  // namespace

const std::vector<LeftOut>& effects() {
  static const std::vector<LeftOut> kEffects{
      {.name = "none", .left_out = "the whole model", .sign = 0},
      waves(),
      power(),
      rule("training", "isolated kernels' times: no in-training factors", no_training_factors),
      rule("host", "launches and fixed costs take no time", no_host),
      protocols(),
      {.name = "overlap", .left_out = "no communication behind computation", .change = no_overlap, .sign = 1},
      rule("recompute", "nothing is recomputed", no_recompute),
      rule("roofline", "peak rates, no host: a plain roofline", plain_roofline),
      slowdown(),
      contention(),
  };
  return kEffects;
}

const std::vector<LeftOut>& rules() {
  static const std::vector<LeftOut> kRules{
      waves(),
      power(),
      protocols(),
      slowdown(),
      contention(),
      rule("slowest-gpu", "every GPU has the mean speed", no_slowest_gpu, "measured spread between GPUs (SC 2022)"),
      rule("attention-kernels", "every stack uses the profile's first attention kernel", no_attention_kernels,
           "measured kernels, source code of the stacks"),
      rule("dropout", "no dropout where it is not reported", no_dropout, "defaults in source code"),
      rule("deepep", "experts by all-to-all where no dispatcher is reported", no_deepep, "recipes in source code"),
      rule("deepep-rates", "DeepEP is as fast as HybridEP in NVLink domains of more than eight GPUs", no_deepep_rates,
           "DeepEP's source, bandwidths of NVIDIA's guide"),
      rule("graph-modules", "CUDA graphs of parts of layers launch nothing", no_graph_modules,
           "Megatron-Core's source, recipes"),
      rule("routing-groups", "tokens of DeepSeek-V3 reach any group of experts", no_routing_groups,
           "the model's config.json"),
      rule("fused-experts", "activations of experts are kernels of their own", no_fused_experts,
           "recipes and cuDNN's kernels"),
      rule("fp8-attention", "attention is in 16 bit in recipes of MXFP8", no_fp8_attention, "recipes, cuDNN's kernels"),
      rule("expert-launches", "Megatron-Bridge's grouped multiplications cost the host one call", no_expert_launches,
           "Transformer Engine's source, its benchmark"),
      rule("expert-overlap", "no computation hides the exchange of experts", no_expert_overlap,
           "Megatron-Core's source, recipes"),
      rule("steps-overlap", "a barrier ends every step", no_overlapping_steps, "the paper, 4 and 5.3"),
      rule("unfused", "norms and rotary embedding are single kernels in eager PyTorch", no_unfused, "source code"),
      rule("age", "libraries of every year are equally fast", no_age),
      rule("host-84", "Megatron-DeepSpeed's host time is the profile's", no_host_launch<84>),
      rule("host-170", "Megatron-Core's host time is the profile's", no_host_launch<170>),
      rule("host-experts", "models with experts have the host time of dense ones", no_host_of_experts),
      rule("grace-host", "the host's work takes as long on Grace as on x86", no_grace_host),
      rule("blocking", "BLOOM's launches do not wait for kernels", no_blocking),
      rule("shard-ranks", "InternEvo's optimizer sends no parameters rank by rank", no_shard_ranks),
      rule("step-overhead", "no constant time per step", no_step_overhead),
      rule("weight-gradient", "weight gradients take what other GEMMs of their shape take", no_weight_gradient),
      rule("board-power", "GPUs of one die with more or less power (H100, B300, GB300) are equally fast",
           no_board_power),
      rule("popular-experts", "a learned router fills all experts equally", no_popular_experts),
      rule("virtual-stages",
           "no virtual stages where they are not reported (two where interleaving is), in place of one for each layer",
           no_chunks),
  };
  return kRules;
}

Result<std::vector<Ablation>> ablate(const CsvTable& table, const RowLibrary& library, const ValidateOptions& options,
                                     const std::vector<LeftOut>& left_out) {
  std::vector<Ablation> lines;
  std::vector<RowForecast> whole;
  for (const LeftOut& effect : left_out) {
    ValidateOptions without = options;
    without.change = effect.change;
    without.forecast = effect.forecast;
    without.bands = false;
    Result<std::vector<RowForecast>> rows = validate(table, library, without);
    if (!rows) return tl::unexpected(rows.error());
    if (lines.empty()) whole = *rows;
    const std::vector<const RowForecast*> dense = dense_rows(*rows);
    const std::vector<const RowForecast*> all = scored(*rows);
    Ablation line{.effect = &effect,
                  .dense = measure(dense),
                  .all = measure(all),
                  .dense_rows = static_cast<int>(dense.size()),
                  .all_rows = static_cast<int>(all.size())};
    line.within_10 = summarise(dense).within_10;
    add_shifts(line, dense_rows(whole), dense);
    lines.push_back(line);
  }
  return lines;
}

std::string ablation_page(const std::vector<Ablation>& lines) {
  std::string text =
      "| left out | forecast without it | dense | scatter | dense within 10 % | all | scatter | median shift | largest "
      "of a source |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  const auto scatter = [](const Measure& m) { return m.scatter ? fmt::format("{:.1f}", 100 * *m.scatter) : "-"; };
  for (const Ablation& line : lines)
    text +=
        fmt::format("| {} | {} | {:.1f} | {} | {:.1f} | {:.1f} | {} | {:+.1f} | {:+.1f} |\n", line.effect->name,
                    line.effect->left_out, 100 * line.dense.mean_of_medians, scatter(line.dense), 100 * line.within_10,
                    100 * line.all.mean_of_medians, scatter(line.all), 100 * line.shift, 100 * line.largest_shift);
  if (!lines.empty())
    text += fmt::format("\n{} rows, {} of them dense.\n", lines.front().all_rows, lines.front().dense_rows);
  return text;
}

}  // namespace tracecast::accuracy
