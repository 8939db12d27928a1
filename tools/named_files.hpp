/// \file
/// Reads files named on the command line, by path or by the name of a shipped file.
///
/// Errors: those of data_paths, find_file and the file's reader.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/cost/profile.hpp"
#include "sim/import/importers.hpp"
#include "sim/io/failure_file.hpp"
#include "sim/io/scenario.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast::cli {

/// `read`, what a reader of the project made of `path`; if that failed on a file of another program, a sentence that says so.
template <class T>
Result<T> of_this_project(Result<T> read, const std::filesystem::path& path, std::string_view wanted) {
  if (read) return read;
  const auto foreign = fault_of_foreign(path, wanted);
  return foreign ? Result<T>(fail(*foreign)) : std::move(read);
}

/// `overrides` as --set takes them: "parallel.tp=4".
Result<Scenario> named_scenario(const std::string& name, const std::vector<std::string>& overrides = {});
Result<Cluster> named_topology(const std::string& name);
Result<Profile> named_profile(const std::string& name);
Result<FailureFile> named_failure_model(const std::string& name, const std::vector<std::string>& overrides = {});

}  // namespace tracecast::cli
