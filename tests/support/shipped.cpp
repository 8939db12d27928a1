#include "tests/support/shipped.hpp"

#include <stdexcept>

#include "tests/support/paths.hpp"

namespace tracecast {

DataPaths shipped_data() {
  const std::filesystem::path root = source_dir();
  return {root / "scenarios", root / "topologies", root / "kernels/profiles"};
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
