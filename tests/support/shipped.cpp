#include "tests/support/shipped.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tests/support/paths.hpp"

namespace tracecast {
namespace {

template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw std::runtime_error(to_string(result.error()));
  return std::move(*result);
}

}  // namespace

DataPaths shipped_data() {
  const std::filesystem::path root = source_dir();
  return {root / "scenarios", root / "topologies", root / "kernels/profiles"};
}

std::vector<std::filesystem::path> shipped_scenarios(const std::vector<std::string>& folders) {
  std::vector<std::filesystem::path> files;
  for (const std::string& folder : folders)
    for (const auto& entry : std::filesystem::directory_iterator(shipped_data().scenarios / folder))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

Scenario shipped_scenario(const std::string& name, const std::vector<std::string>& overrides) {
  const DataPaths data = shipped_data();
  return value_or_throw(find_file(name, data.scenarios, "scenario").and_then([&](const auto& file) {
    return read_scenario(file, data, overrides);
  }));
}

Model shipped_model(const std::string& name) {
  return value_or_throw(read_model(shipped_data().scenarios / "models" / (name + ".json")));
}

Cluster shipped_topology(const std::string& name) {
  return value_or_throw(read_topology(shipped_data().topologies / (name + ".json")));
}

Profile shipped_profile(const std::string& name) {
  return value_or_throw(read_profile(shipped_data().profiles / (name + ".json")));
}

}  // namespace tracecast
