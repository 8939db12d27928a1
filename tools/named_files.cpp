#include "tools/named_files.hpp"

#include <filesystem>

#include "sim/io/files.hpp"
#include "tools/environment.hpp"
#include "tools/sweep_predict.hpp"

namespace tracecast::cli {

namespace fs = std::filesystem;

Result<Scenario> named_scenario(const std::string& name, const std::vector<std::string>& overrides) {
  return data_paths().and_then([&](const DataPaths& data) {
    return find_scenario(name, data).and_then([&](const fs::path& path) {
      return read_any_scenario(path, data, overrides);
    });
  });
}

Result<Cluster> named_topology(const std::string& name) {
  return data_paths().and_then([&](const DataPaths& data) {
    return find_file(name, data.topologies, "topology").and_then([](const fs::path& path) {
      return read_any_topology(path);
    });
  });
}

Result<Profile> named_profile(const std::string& name) {
  return data_paths().and_then([&](const DataPaths& data) {
    return find_file(name, data.profiles, "profile").and_then([](const fs::path& path) {
      return of_this_project(read_profile(path), path, "a profile");
    });
  });
}

Result<FailureFile> named_failure_model(const std::string& name, const std::vector<std::string>& overrides) {
  return data_paths().and_then([&](const DataPaths& data) {
    return find_file(name, data.scenarios / "failures", "failure model").and_then([&](const fs::path& path) {
      return of_this_project(read_failure_file(path, overrides), path, "a failure model");
    });
  });
}

}  // namespace tracecast::cli
