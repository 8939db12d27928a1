#include "tools/accuracy/least_recompute.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/schedule/schedule.hpp"

namespace tracecast::accuracy {
namespace {

struct Recomputed {
  Training training;
  std::string what;  ///< for a sentence
};

/// True if the step of `run` fits with this recomputation and the same schedule.
bool fits_with(const RowScenario& row, const ForecastRun& run, const Training& training) {
  Plan plan = run.plan;
  plan.training = training;
  const std::vector<MemoryByKind> peaks = peak_memory(row.scenario.model, plan, run.schedule);
  return std::ranges::all_of(peaks,
                             [&](const MemoryByKind& peak) { return peak.total() <= run.forecast.memory_capacity; });
}

/// The attention scores or some layers of every virtual stage, the least with which `run` fits; empty: it does not.
std::optional<Recomputed> part_that_fits(const RowScenario& row, const ForecastRun& run) {
  Training training = row.scenario.training;
  if (!training.flash_attention) {
    training.recompute = Recompute::selective;
    if (fits_with(row, run, training)) return Recomputed{training, "the attention scores, the least that fits"};
  }
  training.recompute = Recompute::full;
  int longest = 0;
  for (const Stage& stage : run.plan.stages) longest = std::max(longest, stage.num_layers);
  for (int layers = 1; layers < longest; ++layers) {
    training.recompute_num_layers = layers;
    if (fits_with(row, run, training))
      return Recomputed{training,
                        fmt::format("{} of the {} layers of a virtual stage, the least that fits", layers, longest)};
  }
  return std::nullopt;
}

Recomputed everything(const RowScenario& row, const ForecastRun& run, bool higher_stage) {
  const char* with = higher_stage ? " with a lower ZeRO stage" : "";
  Recomputed all{row.scenario.training, fmt::format("everything, less does not fit{}", with)};
  all.training.recompute = Recompute::full;
  all.training.recompute_num_layers = 0;
  if (!fits_with(row, run, all.training)) all.what = "everything, though even that does not make it fit";
  return all;
}

void assume_recompute(RowScenario& row, const std::string& what) {
  row.assumptions.emplace_back("recomputation not reported: " + what);
}

/// The highest ZeRO stage to be tried; 0: the row says which, or no ranks can divide anything.
int highest_zero_stage(const RowScenario& row) {
  const Parallel& p = row.scenario.parallel;
  return p.zero_stage == 0 && row.scenario.cluster.world_size > p.tp * p.pp ? row.highest_zero_stage : 0;
}

/// True if `run` fits, or would with everything recomputed where that is not reported.
bool can_fit(const RowScenario& row, const ForecastRun& run) {
  Training training = row.scenario.training;
  if (row.guess_recompute) {
    training.recompute = Recompute::full;
    training.recompute_num_layers = 0;
  }
  return fits_with(row, run, training);
}

/// The lowest ZeRO stage above 0 with which the row can fit, else the highest.
Result<ForecastRun> with_least_stage(RowScenario& row, int highest, const ForecastOptions& how) {
  int& stage = row.scenario.parallel.zero_stage;
  for (stage = 1;; ++stage) {
    Result<ForecastRun> run = forecast(row.scenario, how);
    if (!run) return run;
    const bool fits = can_fit(row, *run);
    if (!fits && stage < highest) continue;
    row.assumptions.push_back(fmt::format("ZeRO stage not reported: {}, {}", stage,
                                          fits ? "the least that fits" : "though even that does not make it fit"));
    return run;
  }
}

/// False: this schedule has another number of virtual stages.
bool set_virtual_stages(const RowScenario& row, Parallel& p, int stages) {
  p.vpp = stages;
  if (stages > 1) return true;
  if (!row.guessed_schedule || p.pp_schedule != "interleaved-1f1b") return false;
  p.pp_schedule = default_schedule(1);
  return true;
}

/// The same row with `stages` virtual stages and part of their layers recomputed, or none; empty: that does not fit.
std::optional<ForecastRun> with_virtual_stages(RowScenario& row, int stages, const ForecastOptions& how) {
  if (!set_virtual_stages(row, row.scenario.parallel, stages)) return std::nullopt;
  Result<ForecastRun> run = forecast(row.scenario, how);
  if (!run) return std::nullopt;
  std::string what = "none fits";
  if (!run->forecast.fits) {
    std::optional<Recomputed> part = part_that_fits(row, *run);
    if (!part) return std::nullopt;
    row.scenario.training = part->training;
    what = part->what;
    run = forecast(row.scenario, how);
    if (!run) return std::nullopt;
  }
  row.assumptions.push_back(
      fmt::format("virtual stages: {}, so that less than everything has to be recomputed", stages));
  assume_recompute(row, what);
  return std::move(*run);
}

/// The fastest forecast with fewer virtual stages than were guessed; empty: none fits without recomputing everything.
std::optional<ForecastRun> with_fewer_virtual_stages(RowScenario& row, const ForecastOptions& how) {
  const Parallel& guessed = row.scenario.parallel;
  if (!row.guessed_chunks || !guessed.pp_layout.empty()) return std::nullopt;
  std::optional<ForecastRun> fastest;
  RowScenario chosen;
  for (int stages = guessed.vpp / 2; stages >= 1; --stages) {
    if (guessed.vpp % stages != 0) continue;
    RowScenario tried = row;
    std::optional<ForecastRun> run = with_virtual_stages(tried, stages, how);
    if (!run || (fastest && run->forecast.step_time_s >= fastest->forecast.step_time_s)) continue;
    fastest = std::move(run);
    chosen = std::move(tried);
  }
  if (fastest) row = std::move(chosen);
  return fastest;
}

}  // namespace

Result<ForecastRun> with_least_recompute(RowScenario& row, const ForecastOptions& how) {
  Result<ForecastRun> run = forecast(row.scenario, how);
  const int stages = highest_zero_stage(row);
  if (run && !run->forecast.fits && stages > 0) run = with_least_stage(row, stages, how);
  if (!run || !row.guess_recompute) return run;
  const bool higher_stage = stages > 1 && row.scenario.parallel.zero_stage > 1;
  if (run->forecast.fits && !higher_stage) {
    row.guess_recompute = false;
    if (row.scenario.training.recompute == Recompute::none) assume_recompute(row, "none fits");
    return run;
  }
  const std::optional<Recomputed> part = higher_stage ? std::nullopt : part_that_fits(row, *run);
  const Recomputed chosen = part ? *part : everything(row, *run, higher_stage);
  RowScenario fewer = row;
  row.scenario.training = chosen.training;
  assume_recompute(row, chosen.what);
  run = forecast(row.scenario, how);
  if (part || !run) return run;
  std::optional<ForecastRun> faster = with_fewer_virtual_stages(fewer, how);
  if (!faster || (run->forecast.fits && faster->forecast.step_time_s >= run->forecast.step_time_s)) return run;
  row = std::move(fewer);
  return std::move(*faster);
}

}  // namespace tracecast::accuracy
