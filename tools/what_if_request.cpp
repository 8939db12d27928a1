#include "tools/what_if_request.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/io/data_files.hpp"
#include "sim/io/overrides.hpp"
#include "sim/io/read_file.hpp"
#include "sim/io/scenario_document.hpp"
#include "tools/sweep_predict.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxOverrides = 64;

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
  if (!request.contains("set") || request["set"].is_null()) return overrides;
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

/// Keys of texts, which name no files to read.
constexpr std::array kTexts{"description", "source", "$schema"};
bool is_text(const std::string& key) { return std::ranges::find(kTexts, key) != kTexts.end(); }

/// A scenario that was dropped onto the page: its own values and names of shipped files, no paths.
Result<JsonDocument> dropped_document(const Json& file, const std::string& name) {
  if (!file.is_object()) return fail_key("file", file.dump().substr(0, 40), "must be a scenario: a JSON object");
  for (const auto& [key, value] : file.items()) {
    if (is_text(key)) continue;
    Json checked = value;
    if (checked.is_object())
      for (const char* text : kTexts) checked.erase(text);
    if (has_path(checked))
      return fail_key(key, "", "names a file by its path (allowed on the page: names of shipped files and values)");
  }
  return parse_json(file.dump(2), name + ".json");
}

Result<Scenario> dropped_scenario(const Json& file, const std::string& name, const std::vector<std::string>& overrides,
                                  const DataPaths& data) {
  Result<JsonDocument> document = dropped_document(file, name);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  apply_overrides(document->root, overrides, errors);
  if (!errors.empty()) return tl::unexpected(Error{std::move(errors)});
  return read_scenario(*document, data);
}

/// Errors: a key of `object` that is none of `allowed`.
Result<void> check_keys(const Json& object, const std::vector<std::string>& allowed, const std::string& prefix) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(allowed, key) != allowed.end()) continue;
    const std::string meant = nearest_match(key, allowed);
    return fail_key(prefix + key, "",
                    meant.empty() ? fmt::format("unknown key (allowed: {})", fmt::join(allowed, " "))
                                  : fmt::format("unknown key (did you mean '{}'?)", meant));
  }
  return {};
}

}  // namespace

Result<void> check_request(const Json& request) {
  const std::vector<std::string> keys = {"what", "scenario", "file", "set", "failures", "moving", "timeline"};
  if (Result<void> known = check_keys(request, keys, ""); !known) return known;
  for (const char* key : {"moving", "timeline"})
    if (request.contains(key) && !request[key].is_boolean())
      return fail_key(key, request[key].dump(), "must be true or false");
  return {};
}

Result<void> check_failure_keys(const Json& failures) {
  return check_keys(failures, {"model", "days", "mtbf_hours", "checkpoint", "spares"}, "failures.");
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

bool is_true(const Json& request, const char* key) { return request.contains(key) && request[key] == true; }

Result<Asked> scenario_of(const Json& request, const DataPaths& data) {
  const Result<std::string> name = name_at(request, "scenario");
  if (!name) return tl::unexpected(name.error());
  const Result<std::vector<std::string>> overrides = overrides_of(request);
  if (!overrides) return tl::unexpected(overrides.error());
  const auto [of_topology, of_scenario] = divided(*overrides);
  Result<Scenario> scenario = [&, &plain = of_scenario]() -> Result<Scenario> {
    if (request.contains("file") && !request["file"].is_null())
      return dropped_scenario(request["file"], *name, plain, data);
    const Result<fs::path> path = find_named(*name, data.scenarios, "scenario");
    if (!path) return tl::unexpected(path.error());
    return read_scenario(*path, data, plain);
  }();
  if (!scenario) return tl::unexpected(scenario.error());
  Result<std::string> machine = read_file(scenario->topology_file);
  if (!machine) return tl::unexpected(machine.error());
  if (!of_topology.empty())
    if (const Result<void> changed = change_topology(*scenario, of_topology, data); !changed)
      return tl::unexpected(changed.error());
  for (const std::string& each : of_topology) *machine += each + "\n";
  return Asked{std::move(*scenario), std::move(*machine)};
}

}  // namespace tracecast::cli
