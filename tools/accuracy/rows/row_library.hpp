/// \file
/// The data files that tables of runs refer to: topologies, profiles and stacks, each read once, and the tables
/// themselves.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/io/files.hpp"
#include "sim/io/stack.hpp"

namespace tracecast::accuracy {

/// Thread-safe.
class RowLibrary {
 public:
  /// Errors: a stack that cannot be read.
  static Result<RowLibrary> open(const DataPaths& data);
  /// Errors: those of read_topology.
  Result<Cluster> topology(const std::string& name) const;
  /// Errors: those of read_profile.
  Result<Profile> profile(const std::string& name) const;
  /// The shipped model of this name in any case and with or without hyphens, owner, kind of tuning and precision: "llama-3.1-8b" for
  /// "meta-llama/Llama-3.1-8B-Instruct"; empty if there is none.
  std::optional<Model> model(const std::string& name) const;
  const std::vector<Stack>& stacks() const { return stacks_; }
  /// A copy whose stacks were changed; it shares the files read.
  RowLibrary with_stacks(const std::function<void(Stack&)>& change) const;

 private:
  struct Cache {
    std::mutex mutex;
    std::map<std::string, Result<Cluster>> topologies;
    std::map<std::string, Result<Profile>> profiles;
    std::map<std::filesystem::path, std::optional<Model>> models;
  };
  DataPaths data_;
  std::vector<Stack> stacks_;
  std::map<std::string, std::filesystem::path> models_;  ///< by the letters and digits of their names
  std::shared_ptr<Cache> cache_ = std::make_shared<Cache>();
};

/// A table of runs: a file, or the name of a table in scenarios/runs ("published").
/// Errors: those of CsvTable::read.
Result<CsvTable> read_run_table(const DataPaths& data, const std::string& name);

}  // namespace tracecast::accuracy
