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

void keep_all(RowScenario&) {}

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

void no_stack_change(Stack&) {}

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

}  // namespace

const std::vector<LeftOut>& effects() {
  static const std::vector<LeftOut> kEffects{
      {"none", "the whole model", keep_all, {}, no_stack_change, "", 0},
      {"waves", "GEMM tiles of any size, in fractions of waves", no_waves},
      {"power", "long GEMMs keep their clock", no_power},
      {"training", "isolated kernels' times: no in-training factors", no_training_factors},
      {"host", "launches and fixed costs take no time", no_host},
      {"protocols", "collectives without latency and slower protocols", no_protocols},
      {"overlap", "no communication behind computation", no_overlap, {}, no_stack_change, "", 1},
      {"recompute", "nothing is recomputed", no_recompute},
      {"roofline", "peak rates, no host: a plain roofline", plain_roofline},
      {"slowdown",
       "transfers take no SMs and no memory bandwidth from concurrent kernels",
       keep_all,
       {.transfers_slow_compute = false}},
      {"contention", "no transfer slows another", keep_all, {.network = NetworkKind::isolated}},
  };
  return kEffects;
}

const std::vector<LeftOut>& rules() {
  static const std::vector<LeftOut> kRules{
      {"waves", "GEMM tiles of any size, in fractions of waves", no_waves, {}, no_stack_change, "measured GEMMs"},
      {"power", "long GEMMs keep their clock", no_power, {}, no_stack_change, "measured GEMMs"},
      {"protocols",
       "collectives without latency and slower protocols",
       no_protocols,
       {},
       no_stack_change,
       "NCCL's source, measured collectives"},
      {"slowdown",
       "transfers take no SMs and no memory bandwidth from concurrent kernels",
       keep_all,
       {.transfers_slow_compute = false},
       no_stack_change,
       "measured kernels beside collectives"},
      {"contention",
       "no transfer slows another",
       keep_all,
       {.network = NetworkKind::isolated},
       no_stack_change,
       "SimGrid"},
      {"slowest-gpu",
       "every GPU has the mean speed",
       no_slowest_gpu,
       {},
       no_stack_change,
       "measured spread between GPUs (SC 2022)"},
      {"attention-kernels",
       "every stack uses the profile's first attention kernel",
       keep_all,
       {},
       no_attention_kernels,
       "measured kernels, source code of the stacks"},
      {"dropout", "no dropout where it is not reported", keep_all, {}, no_dropout, "defaults in source code"},
      {"deepep",
       "experts by all-to-all where no dispatcher is reported",
       keep_all,
       {},
       no_deepep,
       "recipes in source code"},
      {"deepep-rates",
       "DeepEP is as fast as HybridEP in NVLink domains of more than eight GPUs",
       no_deepep_rates,
       {},
       no_stack_change,
       "DeepEP's source, bandwidths of NVIDIA's guide"},
      {"graph-modules",
       "CUDA graphs of parts of layers launch nothing",
       no_graph_modules,
       {},
       no_stack_change,
       "Megatron-Core's source, recipes"},
      {"routing-groups",
       "tokens of DeepSeek-V3 reach any group of experts",
       no_routing_groups,
       {},
       no_stack_change,
       "the model's config.json"},
      {"fused-experts",
       "activations of experts are kernels of their own",
       no_fused_experts,
       {},
       no_stack_change,
       "recipes and cuDNN's kernels"},
      {"fp8-attention",
       "attention is in 16 bit in recipes of MXFP8",
       no_fp8_attention,
       {},
       no_stack_change,
       "recipes, cuDNN's kernels"},
      {"expert-launches",
       "Megatron-Bridge's grouped multiplications cost the host one call",
       keep_all,
       {},
       no_expert_launches,
       "Transformer Engine's source, its benchmark"},
      {"expert-overlap",
       "no computation hides the exchange of experts",
       no_expert_overlap,
       {},
       no_stack_change,
       "Megatron-Core's source, recipes"},
      {"steps-overlap", "a barrier ends every step", keep_all, {}, no_overlapping_steps, "the paper, 4 and 5.3"},
      {"unfused",
       "norms and rotary embedding are single kernels in eager PyTorch",
       keep_all,
       {},
       no_unfused,
       "source code"},
      {"age", "libraries of every year are equally fast", keep_all, {}, no_age},
      {"host-84", "Megatron-DeepSpeed's host time is the profile's", keep_all, {}, no_host_launch<84>},
      {"host-170", "Megatron-Core's host time is the profile's", keep_all, {}, no_host_launch<170>},
      {"host-experts", "models with experts have the host time of dense ones", keep_all, {}, no_host_of_experts},
      {"grace-host", "the host's work takes as long on Grace as on x86", no_grace_host},
      {"blocking", "BLOOM's launches do not wait for kernels", keep_all, {}, no_blocking},
      {"shard-ranks", "InternEvo's optimizer sends no parameters rank by rank", keep_all, {}, no_shard_ranks},
      {"step-overhead", "no constant time per step", no_step_overhead},
      {"weight-gradient", "weight gradients take what other GEMMs of their shape take", no_weight_gradient},
      {"board-power", "GPUs of one die with more or less power (H100, B300, GB300) are equally fast", no_board_power},
      {"popular-experts", "a learned router fills all experts equally", no_popular_experts},
      {"virtual-stages",
       "no virtual stages where they are not reported (two where interleaving is), in place of one for each layer",
       no_chunks},
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
  for (const Ablation& line : lines)
    text += fmt::format("| {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:+.1f} | {:+.1f} |\n",
                        line.effect->name, line.effect->left_out, 100 * line.dense.mean_of_medians,
                        100 * line.dense.scatter, 100 * line.within_10, 100 * line.all.mean_of_medians,
                        100 * line.all.scatter, 100 * line.shift, 100 * line.largest_shift);
  if (!lines.empty())
    text += fmt::format("\n{} rows, {} of them dense.\n", lines.front().all_rows, lines.front().dense_rows);
  return text;
}

}  // namespace tracecast::accuracy
