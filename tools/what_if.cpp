#include "tools/what_if.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/forecast/goodput_forecast.hpp"
#include "sim/io/economics_file.hpp"
#include "sim/report/json.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/search/space.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxOverrides = 64;
constexpr int kHistories = 64;  ///< enough for +- 0.1 % of goodput, and quick enough for a slider
constexpr double kHoursPerDay = 24;
constexpr double kSecondsPerDay = 86400;

tl::unexpected<Error> fail_key(const std::string& key, const std::string& value, const std::string& message) {
  return fail(Diagnostic{"", 0, key, value, message});
}

std::vector<std::string> names_below(const fs::path& folder, const std::set<std::string>& folders) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::recursive_directory_iterator it(folder, ignored), end; it != end; it.increment(ignored)) {
    if (it->path().extension() != ".json") continue;
    if (!folders.empty() && folders.count(it->path().parent_path().filename().string()) == 0) continue;
    names.push_back(it->path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

Json catalog(const DataPaths& data) {
  Json schedules = Json::array();
  for (const ScheduleVariant& each : schedule_variants()) schedules.push_back(each.name);
  Json recompute = Json::array();
  for (const auto& each : EnumNames<Recompute>::table) recompute.push_back(each.name);
  return {{"ok", true},
          {"scenarios", names_below(data.scenarios, {"case_studies", "published", "runs", "teaching"})},
          {"topologies", names_below(data.topologies, {})},
          {"failures", names_below(data.scenarios / "failures", {})},
          {"schedules", schedules},
          {"recompute", recompute}};
}

/// A name of a shipped file.
bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 100 && text.front() != '.' && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

/// True if a value could be a path. "400 Gb/s" is a rate, not a path.
bool may_be_path(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos && text.find('\\') == std::string::npos) return false;
  return slash == std::string::npos || text.substr(slash) != "/s" ||
         text.find_first_not_of("0123456789. KMGTPiBbs/") != std::string::npos;
}

bool has_path(const Json& value) {
  if (value.is_string()) return may_be_path(value.get<std::string>());
  if (!value.is_structured()) return false;
  for (const auto& [key, part] : value.items())
    if (key == "hf_config" || has_path(part)) return true;
  return false;
}

Result<std::vector<std::string>> overrides_of(const Json& request) {
  std::vector<std::string> overrides;
  if (!request.contains("set")) return overrides;
  const Json& set = request["set"];
  if (!set.is_object()) return fail_key("set", set.dump(), "must be an object of keys and values");
  if (set.size() > kMaxOverrides)
    return fail_key("set", std::to_string(set.size()), fmt::format("are too many keys (allowed: {})", kMaxOverrides));
  for (const auto& [key, value] : set.items()) {
    if (key.find('=') != std::string::npos || key.find("hf_config") != std::string::npos || has_path(value))
      return fail_key(key, value.dump(), "cannot be set from the page (allowed: names of shipped files and values)");
    overrides.push_back(fmt::format("{}={}", key, value.dump()));
  }
  return overrides;
}

Result<std::string> name_at(const Json& request, const char* key) {
  if (!request.contains(key) || !request[key].is_string())
    return fail_key(key, "", "is missing: the name of a shipped file");
  const std::string name = request[key];
  if (!is_name(name)) return fail_key(key, name, "is not the name of a shipped file");
  return name;
}

Result<double> number_at(const Json& group, const char* key, double low, double high, double otherwise) {
  if (!group.contains(key) || group[key].is_null()) return otherwise;
  if (!group[key].is_number() || !(group[key].get<double>() >= low && group[key].get<double>() <= high))
    return fail_key(std::string("failures.") + key, group[key].dump(),
                    fmt::format("must be a number from {} to {}", low, high));
  return group[key].get<double>();
}

Result<std::optional<GoodputForecast>> goodput_of(const Json& request, const Scenario& scenario,
                                                  const DataPaths& data) {
  if (!request.contains("failures") || request["failures"].is_null()) return std::nullopt;
  const Json& asked = request["failures"];
  if (!asked.is_object()) return fail_key("failures", asked.dump(), "must be an object");
  const Result<std::string> name = name_at(asked, "model");
  if (!name) return tl::unexpected(name.error());
  const Result<double> days = number_at(asked, "days", 0.01, 3650, 54);
  if (!days) return tl::unexpected(days.error());
  const Result<double> mtbf = number_at(asked, "mtbf_hours", 0.001, 1e6, 0);
  if (!mtbf) return tl::unexpected(mtbf.error());
  const Result<double> spares = number_at(asked, "spares", 0, 1e6, -1);
  if (!spares) return tl::unexpected(spares.error());
  std::vector<std::string> overrides;
  if (*spares >= 0) overrides.push_back(fmt::format("recovery.spares={:.0f}", *spares));
  if (asked.contains("checkpoint") && asked["checkpoint"].is_string())
    overrides.push_back(fmt::format("checkpoint.interval={}", asked["checkpoint"].dump()));
  const Result<fs::path> path = find_file(*name, data.scenarios / "failures", "failure model");
  if (!path) return tl::unexpected(path.error());
  Result<FailureFile> failures = read_failure_file(*path, overrides);
  if (!failures) return tl::unexpected(failures.error());
  GoodputRequest job;
  job.scenario = scenario;
  job.failures = std::move(*failures);
  job.days = *days;
  job.mtbf_s = *mtbf * 3600;
  job.find_best_interval = false;
  job.options.min_histories = kHistories;
  job.options.max_histories = kHistories;
  job.options.half_width = 0;
  Result<GoodputForecast> report = forecast_goodput(job);
  if (!report) return tl::unexpected(report.error());
  return std::move(*report);
}

Json band(const Range3& range) { return {{"low", range.low}, {"typical", range.typical}, {"high", range.high}}; }

/// Days, money and energy for the scenario's tokens, or for a month if it has no train_tokens.
Json job_json(const Scenario& scenario, const Forecast& forecast, double goodput, const DataPaths& data) {
  constexpr double kMonth = 30;
  const double tokens = tokens_to_train(scenario.training);
  const double days = tokens > 0 ? tokens / (forecast.tokens_per_s * goodput) / kSecondsPerDay : kMonth;
  Json out = {{"tokens", tokens > 0 ? tokens : kMonth * kSecondsPerDay * forecast.tokens_per_s * goodput},
              {"days", days}};
  const double gpu_hours = days * kHoursPerDay * forecast.ranks;
  out["gpu_hours"] = gpu_hours;
  const Result<Economics> economics = read_economics(data.scenarios / "economics" / "rental-2026.json");
  if (!economics) return out;
  if (const auto price = economics->price_per_gpu_hour(scenario.profile.name))
    out["cost_usd"] = band(*price * gpu_hours);
  if (const auto power = economics->kilowatts_per_gpu(scenario.profile.name))
    out["energy_mwh"] = band(*power * (gpu_hours / 1000));
  return out;
}

Json settings_json(const Scenario& s, const Plan& plan) {
  const Parallel& p = plan.parallel;
  Json tiers = Json::array();
  for (const FabricTier& tier : s.cluster.tiers) tiers.push_back(tier.name);
  return {{"gpus", s.cluster.world_size},
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
          {"nics", s.cluster.node.nics},
          {"max_gpus", s.cluster.max_nodes * s.cluster.node.gpus},
          {"tiers", tiers}};
}

Result<Json> forecast_answer(const Json& request, const DataPaths& data) {
  const Result<std::string> name = name_at(request, "scenario");
  if (!name) return tl::unexpected(name.error());
  const Result<fs::path> path = find_file(*name, data.scenarios, "scenario");
  if (!path) return tl::unexpected(path.error());
  const Result<std::vector<std::string>> overrides = overrides_of(request);
  if (!overrides) return tl::unexpected(overrides.error());
  const Result<Scenario> scenario = read_scenario(*path, data, *overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  const Result<ForecastRun> run = forecast(*scenario);
  if (!run) return tl::unexpected(located(run.error(), *scenario));
  const Result<std::optional<GoodputForecast>> goodput = goodput_of(request, *scenario, data);
  if (!goodput) return tl::unexpected(located(goodput.error(), *scenario));
  Json out = {{"ok", true}, {"result", Json::parse(result_json(*scenario, run->forecast))}};
  double share = 1;
  if (*goodput) {
    const GoodputForecast& report = **goodput;
    share = report.goodput.goodput.mean;
    Json waterfall = Json::object();
    for (std::size_t i = 0; i < kTimeCategories; ++i)
      waterfall[to_string(static_cast<TimeCategory>(i))] = report.goodput.share[i];
    out["goodput"] = {{"mean", share},
                      {"low", report.goodput.goodput.low},
                      {"high", report.goodput.goodput.high},
                      {"days", seconds(report.spec.horizon) / 86400},
                      {"interruptions", report.goodput.interruptions.mean},
                      {"mtbf_hours", std::isfinite(report.mtbf_s) ? Json(report.mtbf_s / 3600) : Json(nullptr)},
                      {"interval_s", report.interval_s},
                      {"waterfall", waterfall}};
  }
  out["job"] = job_json(*scenario, run->forecast, share, data);
  out["settings"] = settings_json(*scenario, run->plan);
  out["scenario"] = to_json(*scenario);
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
    // Hide the server's paths.
    if (shown.file != "--set") shown.file = fs::path(shown.file).filename().string();
    sentences.push_back(to_string(shown));
  }
  return {{"ok", false}, {"errors", sentences}};
}

}  // namespace

std::string answer_what_if(const std::string& request, const DataPaths& data) {
  if (too_deep(request)) return dump(error_answer(fail("the request is nested too deeply").value()));
  const Json asked = Json::parse(request, nullptr, false);
  if (!asked.is_object()) return dump(error_answer(fail("the request is not a JSON object").value()));
  const std::string what = asked.contains("what") && asked["what"].is_string() ? asked["what"].get<std::string>() : "";
  if (what == "catalog") return dump(catalog(data));
  if (what != "forecast")
    return dump(error_answer(fail_key("what", what, "is not known (allowed: catalog forecast)").value()));
  const Result<Json> answer = forecast_answer(asked, data);
  return dump(answer ? *answer : error_answer(answer.error()));
}

}  // namespace tracecast::cli
