#include "tests/support/shipped.hpp"

#include <algorithm>
#include <stdexcept>

#include "tests/support/paths.hpp"

namespace tracecast {

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
  Result<Scenario> scenario = find_file(name, data.scenarios, "scenario").and_then([&](const auto& file) {
    return read_scenario(file, data, overrides);
  });
  if (!scenario) throw std::runtime_error(to_string(scenario.error()));
  return std::move(*scenario);
}

}  // namespace tracecast
