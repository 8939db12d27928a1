#include "tools/what_if.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/units.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/goodput_forecast.hpp"
#include "sim/forecast/job_length.hpp"
#include "sim/io/data_files.hpp"
#include "sim/io/economics_file.hpp"
#include "sim/report/json.hpp"
#include "sim/report/json_parts.hpp"
#include "sim/report/template_runs.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/search/capacity.hpp"
#include "sim/search/space.hpp"
#include "tools/possible_values.hpp"
#include "tools/what_if_request.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// How exactly goodput is known: to +- 0.1 % of the wall time, less while a slider moves, and less where 64 histories, for
/// which there is time, do not tell; the page then shows the interval.
GoodputOptions histories(bool moving) {
  return {.min_histories = moving ? 8 : 16,
          .max_histories = moving ? 16 : 64,
          .half_width = moving ? 0.002 : 0.001,
          .progress = {}};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& file : data_files(folder)) names.push_back(file.stem().string());
  std::ranges::sort(names);
  return names;
}

/// GPUs of each machine, by its name; 0: as many as wanted.
Json machine_sizes(const fs::path& folder) {
  Json sizes = Json::object();
  for (const fs::path& file : data_files(folder))
    if (const Result<Cluster> cluster = read_topology(file))
      sizes[file.stem().string()] = std::int64_t{cluster->max_nodes} * cluster->node.gpus;
  return sizes;
}

template <class E>
Json names_of_values() {
  Json names = Json::array();
  for (const auto& each : EnumNames<E>::table) names.push_back(each.name);
  return names;
}

Json catalog(const DataPaths& data) {
  Json schedules = Json::array();
  for (const ScheduleVariant& each : schedule_variants()) schedules.push_back(each.name);
  return {{"ok", true},
          {"scenarios", names_in(data.scenarios)},
          {"topologies", names_in(data.topologies)},
          {"machine_gpus", machine_sizes(data.topologies)},
          {"models", names_in(data.scenarios / "models")},
          {"profiles", names_in(data.profiles)},
          {"failures", names_in(data.scenarios / "failures")},
          {"schedules", schedules},
          {"dtypes", names_of_values<Precision>()},
          {"recompute", names_of_values<Recompute>()}};
}

Result<std::optional<GoodputForecast>> goodput_of(const Json& request, const Scenario& scenario,
                                                  const ForecastRun& step, const DataPaths& data) {
  if (!request.contains("failures") || request["failures"].is_null()) return std::nullopt;
  const Json& asked = request["failures"];
  if (!asked.is_object()) return fail_key("failures", asked.dump(), "must be an object");
  if (Result<void> known = check_failure_keys(asked); !known) return tl::unexpected(known.error());
  const Result<std::string> name = name_at(asked, "model");
  if (!name) return tl::unexpected(name.error());
  const Result<double> days = number_at(asked, "days", 0.01, 3650, 54);
  if (!days) return tl::unexpected(days.error());
  const Result<double> mtbf = number_at(asked, "mtbf_hours", 0.001, 1e6, 0);
  if (!mtbf) return tl::unexpected(mtbf.error());
  const Result<double> spares = number_at(asked, "spares", 0, 1e6, -1);
  if (!spares) return tl::unexpected(spares.error());
  if (*spares != std::floor(*spares))
    return fail_key("failures.spares", asked["spares"].dump(), "must be a whole number");
  const bool has_interval = asked.contains("checkpoint") && !asked["checkpoint"].is_null();
  if (has_interval && !asked["checkpoint"].is_string())
    return fail_key("failures.checkpoint", asked["checkpoint"].dump(), "must be a time, such as \"20 min\"");
  std::vector<std::string> overrides;
  if (*spares >= 0) overrides.push_back(fmt::format("recovery.spares={:.0f}", *spares));
  if (has_interval) overrides.push_back(fmt::format("checkpoint.interval={}", asked["checkpoint"].dump()));
  const Result<fs::path> path = find_named(*name, data.scenarios / "failures", "failure model");
  if (!path) return tl::unexpected(path.error());
  Result<FailureFile> failures = read_failure_file(*path, overrides);
  if (!failures) return tl::unexpected(failures.error());
  GoodputRequest job;
  job.scenario = scenario;
  job.step = &step;
  job.failures = std::move(*failures);
  job.days = *days;
  job.mtbf_s = *mtbf * kSecondsPerHour;
  job.find_best_interval = false;
  job.options = histories(is_true(request, "moving"));
  Result<GoodputForecast> report = forecast_goodput(job);
  if (!report) return tl::unexpected(report.error());
  return std::move(*report);
}

/// Days and tokens of the job: those of the scenario without padding, or of a month if none are `given`. "unknown": why the
/// failures do not tell one of them, which is then left out.
Json length_json(const Scenario& scenario, const Forecast& forecast, const std::optional<GoodputForecast>& failures) {
  constexpr double kMonth = 30;
  const double tokens = tokens_to_train(scenario.training);
  Json out = {{"given", tokens > 0}};
  if (failures && (tokens > 0 ? failures->goal_days == 0 : !failures->goodput_holds_longer()))
    out["unknown"] = failures->why_no_goal();
  if (tokens > 0) {
    out["tokens"] = tokens;
    if (!out.contains("unknown"))
      out["days"] = failures ? failures->goal_days : days_without_interruptions(forecast, scenario.training);
    return out;
  }
  out["days"] = kMonth;
  const double goodput = failures ? failures->goodput.goodput.mean : 1;
  if (!out.contains("unknown"))
    out["tokens"] = kMonth * kSecondsPerDay * counted_tokens_per_s(forecast, scenario.training) * goodput;
  return out;
}

/// With the money and energy of these days.   Errors: those of the file of prices
Result<Json> job_json(const Scenario& scenario, const Forecast& forecast,
                      const std::optional<GoodputForecast>& failures, const DataPaths& data) {
  Json out = length_json(scenario, forecast, failures);
  if (!out.contains("days")) return out;
  const double days = out["days"];
  const double gpu_hours = PaidGpus{.used = forecast.ranks}.hours(days);
  out["gpu_hours"] = gpu_hours;
  const Result<Economics> economics = read_usual_economics(data);
  if (!economics) return tl::unexpected(economics.error());
  const int spares = failures ? failures->spec.recovery.spares * failures->machine.gpus_per_node : 0;
  const PaidGpus paid = paid_gpus(economics->term, scenario.cluster.node, forecast.ranks, spares);
  if (const auto price = economics->price_per_gpu_hour(gpus_text(scenario), network_hardware(scenario.cluster),
                                                       scenario.power_limit)) {
    out["cost_usd"] = range_json(*price * paid.hours(days));
    out["usd_per_gpu_hour"] = price->typical;
    out["paid_gpus"] = paid.all();
  }
  if (const auto power = economics->kilowatts_per_gpu(gpus_text(scenario), scenario.power_limit))
    out["energy_mwh"] = range_json(*power * (gpu_hours / 1000));
  return out;
}

Json recompute_modules(const Scenario& s) {
  Json names = Json::array();
  for (const auto& each : s.training.recompute_modules) names.push_back(fmt::format("{}", each));
  return names;
}

Json settings_json(const Scenario& s, const Plan& plan) {
  const Parallel& p = plan.parallel;
  Json tiers = Json::array();
  for (const FabricTier& tier : s.cluster.tiers)
    tiers.push_back({{"name", tier.name}, {"oversubscription", tier.oversubscription}, {"uplinks", tier.nodes > 0}});
  return {
      {"gpus", s.cluster.world_size},
      {"topology", s.topology},
      {"tp", p.tp},
      {"pp", p.pp},
      {"vpp", p.vpp},
      {"cp", p.cp},
      {"ep", p.ep},
      {"dp", plan.grid.size(Axis::dp)},
      {"zero_stage", p.zero_stage},
      {"pp_schedule", p.pp_schedule},
      {"micro_batch_size", s.training.micro_batch_size},
      {"global_batch_size", s.training.global_batch_size},
      {"seq_length", s.training.seq_length},
      {"recompute", to_string(s.training.recompute)},
      {"recompute_modules", recompute_modules(s)},
      {"dtype", to_string(s.training.dtype)},
      {"model", s.model.name},
      {"profile", s.profile.name},
      {"experts", s.model.moe ? s.model.moe->experts : 0},
      {"imbalance", s.model.moe ? s.training.expert_imbalance : 0},
      {"nic_rate", fmt::format("{:.4g} Gb/s", 8e-9 * static_cast<double>(s.cluster.node.nic_rate.bytes_per_second))},
      {"notes", s.notes},
      {"nics", s.cluster.node.nics},
      {"max_gpus", s.cluster.max_nodes * s.cluster.node.gpus},
      {"perturb", Json::parse(to_json(s)).value("perturb", Json::object())},
      {"tiers", tiers}};
}

/// [pipeline rank] its first rank.
std::map<int, std::size_t> first_ranks(const StepGraph& graph) {
  std::map<int, std::size_t> firsts;
  for (std::size_t r = 0; r < graph.ranks.size(); ++r) firsts.try_emplace(graph.ranks[r].pp_rank, r);
  return firsts;
}

/// Passes of the first rank of pipeline ranks, of many evenly over them: [{"name", "runs": [[start s, end s, phase, micro-batch] …]} …].
Json timeline_json(const ForecastRun& run) {
  constexpr std::size_t kRows = 16;
  Json ranks = Json::array();
  const std::map<int, std::size_t> firsts = first_ranks(run.graph);
  const std::size_t rows = std::min(kRows, firsts.size());
  std::size_t at = 0;
  for (const auto& [pp, r] : firsts) {
    // Row i is of rank i (n - 1) / (rows - 1): the first and the last are among them.
    const std::size_t row = ranks.size();
    if (at++ != row * (firsts.size() - 1) / std::max<std::size_t>(rows - 1, 1)) continue;
    Json runs = Json::array();
    for (const TemplateRun& each : template_runs(run.graph, spans_of(run.timeline, static_cast<std::int32_t>(r)))) {
      const Phase phase = run.graph.templates[static_cast<std::size_t>(each.template_index)].phase;
      runs.push_back({seconds(each.start), seconds(each.end), static_cast<int>(phase), each.microbatch});
    }
    ranks.push_back({{"name", fmt::format("pp {}", pp)}, {"pp", pp}, {"runs", std::move(runs)}});
  }
  return ranks;
}

/// {"timeline": …}: the passes of each pipeline rank.
Result<Json> timeline_answer(const Scenario& scenario) {
  const Result<ForecastRun> run = forecast(scenario, {.record_spans = true});
  if (!run) return tl::unexpected(located(run.error(), scenario));
  return Json{{"ok", true},
              {"timeline", timeline_json(*run)},
              {"pipeline_ranks", run->plan.parallel.pp},
              {"step_time_s", seconds(run->timeline.step_time)}};
}

Result<Json> forecast_answer(const Json& request, const DataPaths& data, RecentSteps& recent) {
  if (Result<void> known = check_request(request); !known) return tl::unexpected(known.error());
  const Result<Asked> asked = scenario_of(request, data);
  if (!asked) return tl::unexpected(asked.error());
  const Scenario& scenario = asked->scenario;
  if (is_true(request, "timeline")) return timeline_answer(scenario);
  const Result<const ForecastRun*> step = recent.forecast(scenario, asked->machine);
  if (!step) return tl::unexpected(located(step.error(), scenario));
  const ForecastRun& run = **step;
  const Result<std::optional<GoodputForecast>> goodput = goodput_of(request, scenario, run, data);
  if (!goodput) return tl::unexpected(located(goodput.error(), scenario));
  Json out = {{"ok", true}, {"result", Json::parse(result_json(scenario, run.forecast))}};
  if (*goodput) {
    const GoodputForecast& report = **goodput;
    out["goodput"] = {
        {"mean", report.goodput.goodput.mean},
        {"low", report.goodput.goodput.low},
        {"high", report.goodput.goodput.high},
        {"histories", report.goodput.histories},
        {"days", seconds(report.spec.horizon) / kSecondsPerDay},
        {"interruptions", report.goodput.interruptions.mean},
        {"mtbf_hours", std::isfinite(report.mtbf_s) ? Json(report.mtbf_s / kSecondsPerHour) : Json(nullptr)},
        {"interval_s", report.interval_s},
        {"waterfall", waterfall_json(report)}};
  }
  Result<Json> job = job_json(scenario, run.forecast, *goodput, data);
  if (!job) return tl::unexpected(job.error());
  out["job"] = std::move(*job);
  out["settings"] = settings_json(scenario, run.plan);
  if (!is_true(request, "moving")) out["possible"] = possible_values(scenario);
  out["scenario"] = to_json(scenario);
  return out;
}

/// Limits the nesting depth, because the JSON is written recursively.
bool too_deep(const std::string& text) {
  constexpr int kDeepest = 32;
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepest) return true;
  }
  return false;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json error_answer(const Error& error) {
  Json sentences = Json::array();
  for (const Diagnostic& each : error.diagnostics) {
    Diagnostic shown = each;
    // The page has controls, not a file: where the value is written says nothing there.
    shown.file.clear();
    shown.line = 0;
    sentences.push_back(to_string(shown));
  }
  return {{"ok", false}, {"errors", sentences}};
}

}  // namespace

std::string answer_what_if(const std::string& request, const DataPaths& data, RecentSteps& recent) {
  if (too_deep(request)) return dump(error_answer(fail("the request is nested too deeply").value()));
  const Json asked = Json::parse(request, nullptr, false);
  if (!asked.is_object()) return dump(error_answer(fail("the request is not a JSON object").value()));
  const std::string what = asked.contains("what") && asked["what"].is_string() ? asked["what"].get<std::string>() : "";
  if (what == "catalog") return dump(catalog(data));
  if (what != "forecast")
    return dump(error_answer(fail_key("what", what, "is not known (allowed: catalog forecast)").value()));
  const Result<Json> answer = forecast_answer(asked, data, recent);
  return dump(answer ? *answer : error_answer(answer.error()));
}

}  // namespace tracecast::cli
