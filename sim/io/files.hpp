/// The data files of a project: readers of scenario, topology, profile and model files, and where names are looked up.
///
/// Every reader reports all mistakes of a file together, with line and key, and knows every key it allows.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sim/base/result.hpp"
#include "sim/cost/profile.hpp"
#include "sim/io/scenario.hpp"
#include "sim/model/model.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

/// Where shipped data is: TRACECAST_DATA of the caller, an installed share/tracecast, or the source tree. The command
/// line decides; the library is told.
struct DataPaths {
  std::filesystem::path scenarios;   ///< with models/ below it
  std::filesystem::path topologies;
  std::filesystem::path profiles;
};

/// A file by path, or by name without path and suffix: "llama3-405b-16k" finds scenarios/**/llama3-405b-16k.json.
/// Errors: nothing of that name (with the nearest one), or more than one.
Result<std::filesystem::path> find_file(const std::string& name, const std::filesystem::path& folder, std::string_view what);

Result<Scenario> read_scenario(const std::filesystem::path& path, const DataPaths& data);
Result<Cluster> read_topology(const std::filesystem::path& path);
Result<Profile> read_profile(const std::filesystem::path& path);
/// A Hugging Face config.json as published, or a file with our own keys.
Result<Model> read_model(const std::filesystem::path& path);

/// Writes to a temporary file beside `path` and renames it: nothing half-written is ever seen.
Result<void> write_file(const std::filesystem::path& path, std::string_view content);

/// The profile as JSON, keys in a fixed order; read_profile gives back an equal one.
std::string to_json(const Profile& profile);

}  // namespace tracecast
