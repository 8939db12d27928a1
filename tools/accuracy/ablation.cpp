#include "tools/accuracy/ablation.hpp"

#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "sim/base/quantile.hpp"

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
      {"none", "the whole model", keep_all},
      {"waves", "GEMM tiles of any size, in fractions of waves", no_waves},
      {"power", "long GEMMs keep their clock", no_power},
      {"training", "isolated kernels' times: no in-training factors", no_training_factors},
      {"host", "launches and fixed costs take no time", no_host},
      {"protocols", "collectives without latency and slower protocols", no_protocols},
      {"overlap", "no communication behind computation", no_overlap},
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

Result<std::vector<Ablation>> ablate(const CsvTable& table, const RowLibrary& library, const ValidateOptions& options) {
  std::vector<Ablation> lines;
  std::vector<RowForecast> whole;
  for (const LeftOut& effect : effects()) {
    ValidateOptions without = options;
    without.change = effect.change;
    without.forecast = effect.forecast;
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
