#include "sim/search/sweep.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/cost/rated_precision.hpp"

namespace tracecast {
namespace {

tl::unexpected<Error> fail_sweep(std::string value, std::string message) {
  return fail_key("--sweep", std::move(value), std::move(message));
}

constexpr const char* kWorldSize = "cluster.world_size";

Result<GridPoint> forecast_point(const Scenario& scenario, const ForecastOptions& options) {
  const Result<ForecastRun> run = forecast(scenario, options);
  if (!run) return tl::unexpected(located(run.error(), scenario));
  const Forecast& f = run->forecast;
  GridPoint point;
  point.fits = f.fits;
  point.gpus = f.ranks;
  point.step_time_s = f.step_time_s;
  point.p5_s = f.band.p5_s;
  point.p95_s = f.band.p95_s;
  point.tokens_per_s = f.tokens_per_s;
  point.tokens_per_s_per_gpu = f.tokens_per_s / f.ranks;
  point.mfu = f.mfu;
  point.note = rate_text(scenario.profile, scenario.training.dtype);
  for (const MemoryByKind& rank : f.memory) point.memory_gib = std::max(point.memory_gib, gib(rank.total()));
  return point;
}

/// The forecast with these overrides, or a point with the error.
GridPoint point_at(const ReadScenario& read, const std::vector<std::string>& overrides,
                   const ForecastOptions& options) {
  const Result<Scenario> scenario = read(overrides);
  const Result<GridPoint> forecast = scenario ? forecast_point(*scenario, options) : tl::unexpected(scenario.error());
  if (forecast) return *forecast;
  GridPoint point;
  const Diagnostic& first = forecast.error().diagnostics.front();
  point.error = fmt::format("{}{}{}", first.key, first.key.empty() ? "" : ": ", first.message);
  return point;
}

std::vector<GridPoint> weak_scaling(const SweepAxis& axis, const ReadScenario& read, const ForecastOptions& options) {
  std::vector<GridPoint> points;
  std::int64_t first_batch = 0;
  std::int64_t first_gpus = 0;
  for (const std::string& value : axis.values) {
    std::vector<std::string> overrides{axis.key + "=" + value};
    if (const Result<Scenario> scenario = read(overrides)) {
      const std::int64_t gpus = scenario->cluster.world_size;
      if (first_gpus == 0) {
        first_gpus = gpus;
        first_batch = scenario->training.global_batch_size;
      }
      overrides.push_back(fmt::format("training.global_batch_size={}", first_batch * gpus / first_gpus));
    }
    points.push_back(point_at(read, overrides, options));
    points.back().values = {value};
  }
  return points;
}

}  // namespace

Result<SweepAxis> parse_sweep_axis(const std::string& text) {
  const auto fail_format = [&] { return fail_sweep(text, "is not key=value,value (for example parallel.tp=1,2,4)"); };
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return fail_format();
  SweepAxis axis{text.substr(0, equals), {""}};
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = equals + 1; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == '}')) --depth;
    if (c == ',' && depth == 0 && !quoted)
      axis.values.emplace_back();
    else
      axis.values.back() += c;
  }
  if (std::find(axis.values.begin(), axis.values.end(), "") != axis.values.end()) return fail_format();
  return axis;
}

Result<Sweep> run_sweep(const std::vector<SweepAxis>& axes, const ReadScenario& read, const ForecastOptions& options,
                        const std::function<void(std::size_t, std::size_t)>& progress) {
  std::size_t count = 1;
  for (const SweepAxis& axis : axes) {
    const auto same = [&](const SweepAxis& other) { return other.key == axis.key; };
    if (std::count_if(axes.begin(), axes.end(), same) > 1) return fail_sweep(axis.key, "is given twice");
    count *= axis.values.size();
    if (count > kMaxSweepPoints) return fail_sweep(axis.key, "makes more than 10,000 points");
  }
  Sweep sweep{"", axes, point_at(read, {}, options), {}, {}};
  for (std::size_t i = 0; i < count; ++i) {
    progress(i, count);
    std::vector<std::string> values(axes.size());
    std::vector<std::string> overrides;
    for (std::size_t a = axes.size(), rest = i; a-- > 0; rest /= axes[a].values.size()) {
      values[a] = axes[a].values[rest % axes[a].values.size()];
      overrides.push_back(axes[a].key + "=" + values[a]);
    }
    sweep.points.push_back(point_at(read, overrides, options));
    sweep.points.back().values = std::move(values);
  }
  const auto failed = [](const GridPoint& point) { return !point.error.empty(); };
  if (std::all_of(sweep.points.begin(), sweep.points.end(), failed))
    return fail_sweep("", "has no point that can be forecast; the first: " + sweep.points.front().error);
  if (axes.size() == 1 && axes.front().key == kWorldSize) sweep.weak = weak_scaling(axes.front(), read, options);
  return sweep;
}

}  // namespace tracecast
