#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/report/schedule_view.hpp"

namespace tracecast {

namespace {

using Json = nlohmann::ordered_json;

/// Ticks in units: an integer where it is one.
Json in_units(std::int64_t ticks, std::int64_t scale) {
  if (ticks % scale == 0) return ticks / scale;
  return static_cast<double>(ticks) / static_cast<double>(scale);
}

Json plain(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  if (static_cast<double>(whole) == value) return whole;
  return value;
}

Json time_of(const RankTimes& times) {
  if (times.empty()) return nullptr;
  if (times.size() == 1) return plain(times.front());
  Json list = Json::array();
  for (double time : times) list.push_back(plain(time));
  return list;
}

Json columns_of(const ScheduleView& view) {
  const Schedule& s = view.schedule;
  const ScheduleRun& run = view.run;
  Json json;
  json["schedule"] = s.name;
  json["P"] = s.ranks;
  json["M"] = s.microbatches;
  json["V"] = s.chunks / s.replicas;
  json["tF"] = time_of(view.forward);
  json["tB"] = time_of(view.backward_input);
  json["tW"] = time_of(view.backward_weight);
  if (!view.times_from.empty()) json["tBW"] = time_of(view.backward);
  json["tC"] = plain(view.latency);
  json["tFB"] = time_of(view.overlapped);
  json["makespan"] = in_units(run.makespan, run.scale);
  json["ideal"] = in_units(run.work, run.scale);
  json["bubble_fraction"] = run.bubble_fraction;
  const bool of_step = !view.times_from.empty();
  json["own_span_bubble_fraction"] = of_step ? Json() : Json(run.own_span_bubble_fraction);
  json["max_rank_span"] = in_units(run.max_rank_span, run.scale);
  json["peak_inflight_per_rank"] = run.peak_inflight;
  json["peak_inflight_relW_per_rank"] = run.peak_inflight_until_weight;
  json["act_unit"] = plain(activation_unit(s));
  json["param_replicas"] = s.replicas;
  json["weight_versions_per_rank"] = s.weight_versions;
  json["steady_state"] = !s.flush;
  json["blocking"] = view.rules.empty() ? kLatencyOnly : view.rules;
  if (!view.times_from.empty()) json["times_from"] = view.times_from, json["time_unit"] = "ms";
  return json;
}

}  // namespace

std::string schedule_json(std::span<const ScheduleView> views) {
  Json json = columns_of(views.front());
  if (views.size() > 1) {
    json["compare"] = Json::array();
    for (const ScheduleView& view : views.subspan(1)) json["compare"].push_back(columns_of(view));
  }
  return json_file(json);
}

}  // namespace tracecast
