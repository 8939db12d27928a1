/// \file
/// Readers of scenario, topology, profile and model files, and the lookup of shipped files by name.
///
/// Every reader reports all errors of a file together, with line and key. Unknown keys are errors.
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

/// Folders of the shipped data: TRACECAST_DATA, an installed share/tracecast, or the source tree. The command line
/// chooses them (tools/environment.hpp).
struct DataPaths {
  std::filesystem::path scenarios;  ///< with models/ below it
  std::filesystem::path topologies;
  std::filesystem::path profiles;
};

/// A file by path, or by name without path and suffix: "llama3-405b-16k" finds scenarios/**/llama3-405b-16k.json.
/// Errors: no file has that name (the message suggests the nearest one), or more than one has it.
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
/// Collectives over PCIe that nobody measured on this machine. NCCL's own numbers are the rate of a copy; eight RTX PRO 6000 reached
/// half of it (topologies/rtx-pro-6000-pcie.json). Boards, switches and roots differ: the residual is assumed.
CollectiveTuning unmeasured_pcie();
Result<Profile> read_profile(const std::filesystem::path& path);
/// A Hugging Face config.json as published, or a file with our own keys.
Result<Model> read_model(const std::filesystem::path& path);
/// The same from an object inside another file, as a scenario may have it under "model". Errors are added to `errors`
/// with keys below `path` (a dotted key, "" for the root of the file); then the result is empty.
std::optional<Model> read_model(const JsonNode& node, const std::string& file, const std::string& path,
                                std::vector<Diagnostic>& errors);

/// Writes a temporary file beside `path` and renames it, so that readers never see a partial file.
Result<void> write_file(const std::filesystem::path& path, std::string_view content);

/// As JSON, keys in a fixed order; reading gives back an equal value.
std::string to_json(const Profile& profile);
/// With Tracecast's own keys, also for a model read from a Hugging Face file.
std::string to_json(const Model& model);
/// The scenario as it runs: the model written out, topology and profile by name.
std::string to_json(const Scenario& scenario);
/// The machine without what a scenario adds to it (ranks, faults, sites). Cluster::source is the source of all numbers.
std::string to_json(const Cluster& cluster, const std::string& description);
/// The object "collectives" of a topology, without what equals NCCL's own numbers.
JsonNode json_of(const CollectiveTuning& tuning);

}  // namespace tracecast
