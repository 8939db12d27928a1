/// \file
/// The data files of a project: readers of scenario, topology, profile and model files, and where names are looked up.
///
/// Every reader reports all mistakes of a file together, with line and key, and knows every key it allows.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/cost/profile.hpp"
#include "sim/io/scenario.hpp"
#include "sim/model/model.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

struct JsonNode;

/// Where shipped data is: TRACECAST_DATA of the caller, an installed share/tracecast, or the source tree. The command
/// line decides; the library is told.
struct DataPaths {
  std::filesystem::path scenarios;  ///< with models/ below it
  std::filesystem::path topologies;
  std::filesystem::path profiles;
};

/// A file by path, or by name without path and suffix: "llama3-405b-16k" finds scenarios/**/llama3-405b-16k.json.
/// Errors: nothing of that name (with the nearest one), or more than one.
Result<std::filesystem::path> find_file(const std::string& name, const std::filesystem::path& folder,
                                        std::string_view what);

/// `overrides`: "key=value" of --set, e.g. "parallel.tp=4"; they replace the file's values before anything is read, so
/// that they pass the same checks. The value is JSON where it parses as such, else a string.
/// A model, topology or profile is named, or given as a path relative to the scenario.
Result<Scenario> read_scenario(const std::filesystem::path& path, const DataPaths& data,
                               const std::vector<std::string>& overrides = {});
Result<Cluster> read_topology(const std::filesystem::path& path);
/// The same from a text; `file` is for messages, its stem the cluster's name.
Result<Cluster> read_topology_text(std::string text, const std::string& file);
Result<Profile> read_profile(const std::filesystem::path& path);
/// A Hugging Face config.json as published, or a file with our own keys.
Result<Model> read_model(const std::filesystem::path& path);
/// The same from an object inside another file, as a scenario may have it under "model". Mistakes are added to `errors`
/// with keys below `path` (a dotted key, "" for the root of the file); then there is no model.
std::optional<Model> read_model(const JsonNode& node, const std::string& file, const std::string& path,
                                std::vector<Diagnostic>& errors);

/// Writes to a temporary file beside `path` and renames it: nothing half-written is ever seen.
Result<void> write_file(const std::filesystem::path& path, std::string_view content);

/// As JSON, keys in a fixed order; reading gives back an equal value.
std::string to_json(const Profile& profile);
/// With our own keys, whatever the model was read from.
std::string to_json(const Model& model);
/// The scenario as it runs: the model written out, topology and profile by name.
std::string to_json(const Scenario& scenario);

}  // namespace tracecast
