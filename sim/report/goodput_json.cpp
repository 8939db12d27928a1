#include <cmath>

#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/base/quantile.hpp"
#include "sim/base/units.hpp"
#include "sim/report/goodput_report.hpp"
#include "sim/report/json_parts.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Estimate& e) {
  const auto of_interval = [&](double value) { return e.has_interval() ? Json(value) : Json(nullptr); };
  return {{"mean", e.mean},
          {"low", of_interval(e.low)},
          {"high", of_interval(e.high)},
          {"standard_error", of_interval(e.standard_error)}};
}

Json in_days(Estimate e) {
  for (double* value : {&e.mean, &e.low, &e.high, &e.standard_error}) *value /= kSecondsPerDay;
  return json_of(e);
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// null where the forecast has 0 for what it does not know.
Json above_zero(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json json_of(const MemoryNeed& memory) {
  Json out = {{"fits", memory.fits}, {"peak_gib", gib(memory.peak)}, {"capacity_gib", gib(memory.capacity)}};
  if (memory.host_capacity > Bytes{}) {
    out["host_used_gib"] = gib(memory.host_used);
    out["host_capacity_gib"] = gib(memory.host_capacity);
  }
  return out;
}

Json checkpoint_json(const GoodputForecast& r) {
  Json tiers = Json::array();
  for (const CheckpointTier& t : r.spec.checkpoint.tiers)
    tiers.push_back({{"name", t.name},
                     {"every", t.every},
                     {"stall_s", seconds(t.stall)},
                     {"persist_s", seconds(t.persist)},
                     {"load_s", seconds(t.load)},
                     {"survives", to_string(t.survives)}});
  Json out = {{"mode", to_string(r.checkpoint.mode)},
              {"bytes", r.shape.size.count},
              {"storage",
               {{"write_bytes_per_s", r.checkpoint.storage_write.bytes_per_second},
                {"read_bytes_per_s", r.checkpoint.storage_read.bytes_per_second},
                {"from", to_string(r.storage_from)}}},
              {"interval_s", r.interval_s},
              {"interval_steps", r.spec.checkpoint.interval_steps},
              {"tiers", tiers},
              {"young_s", above_zero(r.young_s)},
              {"daly_s", above_zero(r.daly_s)},
              {"optimal_s", above_zero(r.optimal_s)},
              {"closed_form_goodput", above_zero(r.closed_goodput)}};
  if (r.best) {
    Json trials = Json::array();
    for (const IntervalTrial& t : r.best->trials)
      trials.push_back({{"interval_steps", t.interval_steps}, {"goodput", json_of(t.goodput)}});
    out["best"] = {{"interval_steps", r.best->interval_steps},
                   {"at_least_steps", r.best->at_least},
                   {"at_most_steps", r.best->at_most},
                   {"trials", trials}};
  }
  return out;
}

Json states_json(const GoodputForecast& r) {
  Json out = Json::array();
  for (const auto& [state, step] : r.states)
    out.push_back({{"lost_replicas", state.lost_replicas},
                   {"gpu_speed_percent", state.gpu_speed_percent},
                   {"link_speed_percent", state.link_speed_percent},
                   {"uplink_speed_percent", state.uplink_speed_percent},
                   {"lost_rails", state.lost_rails},
                   {"global_batch", state.global_batch},
                   {"step_time_s", seconds(step.time)},
                   {"tokens", step.tokens}});
  return out;
}

Json json_of(const IntervalEstimate& i) {
  return {{"value", finite(i.value)}, {"low", finite(i.low)}, {"high", finite(i.high)}};
}

Json json_of(const ShardLayout& l) { return {{"tp", l.tp}, {"pp", l.pp}, {"dp", l.dp}}; }

Json fits_json(const GoodputForecast& r) {
  Json out = Json::array();
  for (const FittedKind& fit : r.fits) {
    Json one = {{"name", fit.name},
                {"failures", fit.failures},
                {"parts", fit.parts},
                {"exponential_mean_s", json_of(fit.exponential_mean_s)}};
    if (fit.weibull)
      one["weibull"] = {{"shape", json_of(fit.weibull->shape)},
                        {"mean_s", json_of(fit.weibull->mean_s)},
                        {"p_value_of_exponential", fit.weibull->p_value}};
    out.push_back(one);
  }
  return out;
}

Json report_json(const GoodputForecast& r) {
  Json events = Json::object();
  for (std::size_t k = 0; k < r.goodput.events.size(); ++k) events[r.spec.failures.kinds[k].name] = r.goodput.events[k];
  Json out = {{"scenario", r.scenario},
              {"failures", r.failures},
              {"gpus", r.machine.gpus},
              {"days", seconds(r.spec.horizon) / kSecondsPerDay},
              {"histories", r.goodput.histories},
              {"narrow_enough", r.goodput.narrow_enough},
              {"goodput", json_of(r.goodput.goodput)},
              {"goodput_quantiles",
               {{"p5", quantile(r.goodput.goodputs, 0.05)},
                {"p50", quantile(r.goodput.goodputs, 0.5)},
                {"p95", quantile(r.goodput.goodputs, 0.95)}}},
              {"waterfall", waterfall_json(r)},
              {"interruptions", json_of(r.goodput.interruptions)},
              {"wall_days", in_days(r.goodput.wall_s)},
              {"tokens", json_of(r.goodput.tokens)},
              {"mtbf_s", finite(r.mtbf_s)},
              {"restart",
               {{"after_crash_s", r.restart_s},
                {"communicators_s", seconds(communicator_time(r.spec.recovery, r.machine))},
                {"spares", r.spec.recovery.spares},
                {"spares_given", r.spares_given},
                {"spare_state", to_string(r.spec.recovery.spare_state)}}},
              {"events", events},
              {"step_time_s", seconds(r.healthy.time)},
              {"tokens_per_step", r.healthy.tokens},
              {"tokens_per_s", r.tokens_per_s()},
              {"effective_tokens_per_s", r.effective_tokens_per_s},
              {"checkpoint", checkpoint_json(r)},
              {"states", states_json(r)}};
  if (const RecoveryPolicy& recovery = r.spec.recovery; recovery.elastic != Elastic::off)
    out["elastic"] = {{"mode", to_string(recovery.elastic)},
                      {"rollback", recovery.elastic_rollback},
                      {"rollback_given", r.rollback_given},
                      {"states_survive", r.states_survive},
                      {"reconfigure_s", seconds(recovery.reconfigure)},
                      {"reconfigure_given", r.reconfigure_given}};
  if (r.memory) out["memory"] = json_of(*r.memory);
  if (!r.fits.empty()) out["fits"] = fits_json(r);
  if (r.resume)
    out["resume"] = {{"from", json_of(r.resume->from)},
                     {"to", json_of(r.resume->to)},
                     {"amplification", r.resume->read.amplification()},
                     {"same_layout_s", r.resume->same_layout_s},
                     {"slices_s", r.resume->slices_s},
                     {"whole_shards_s", r.resume->whole_shards_s}};
  if (r.goal_tokens > 0 && r.goal_days == 0)
    out["to_finish"] = {{"tokens", r.goal_tokens}, {"unknown", unknown_goal(r)}};
  if (r.goal_days > 0)
    out["to_finish"] = {{"tokens", r.goal_tokens},
                        {"days", {{"mean", r.goal_days}, {"p10", r.goal_days_p10}, {"p90", r.goal_days_p90}}},
                        {"gpu_hours", r.goal_gpu_hours},
                        {"usd", above_zero(r.goal_usd)}};
  return out;
}

}  // namespace

std::string goodput_json(const GoodputForecast& report) { return json_file(report_json(report)); }

std::string sweep_json(const std::string& key, const std::vector<SweepPoint>& points) {
  Json list = Json::array();
  for (const SweepPoint& point : points)
    list.push_back({{"value", point.value}, {"result", report_json(point.report)}});
  return json_file(Json{{"sweep", key}, {"points", list}});
}

}  // namespace tracecast
