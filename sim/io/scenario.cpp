#include "sim/io/scenario.hpp"

namespace tracecast {
namespace {

/// The location of `key`, else of the nearest enclosing group; nullptr when the scenario was built by hand.
const KeyLocation* location_of(std::string key, const Scenario& scenario, bool& exact) {
  exact = true;
  while (true) {
    const auto found = scenario.locations.find(key);
    if (found != scenario.locations.end()) return &found->second;
    if (key.empty()) return nullptr;
    exact = false;
    const std::size_t dot = key.rfind('.');
    key.erase(dot == std::string::npos ? 0 : dot);
  }
}

}  // namespace

Error located(Error error, const Scenario& scenario) {
  for (Diagnostic& diagnostic : error.diagnostics) {
    if (!diagnostic.file.empty()) continue;
    bool exact = false;
    const KeyLocation* location = location_of(diagnostic.key, scenario, exact);
    if (location == nullptr) continue;
    diagnostic.file = location->file;
    diagnostic.line = location->line;
    if (exact && diagnostic.value.empty()) diagnostic.value = location->value;
  }
  return error;
}

}  // namespace tracecast
