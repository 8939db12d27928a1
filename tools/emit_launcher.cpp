#include "tools/emit_launcher.hpp"

#include <cstdio>

#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/import/launchers/launcher_rules.hpp"
#include "sim/io/files.hpp"

namespace tracecast::cli {
std::vector<std::string> emitted_launchers() {
  std::vector<std::string> names;
  for (const Importer* each : importers())
    if (const auto* launcher = std::get_if<Launcher>(&each->read); launcher != nullptr && launcher->emit != nullptr)
      names.emplace_back(each->name);
  return names;
}

std::vector<std::string> emitted_formats() {
  std::vector<std::string> names = emitted_launchers();
  names.emplace_back("scenario");
  return names;
}

bool print_for_launcher(const std::string& format, const Scenario& scenario) {
  if (format == "scenario") {
    fmt::print("{}", to_json(scenario));
    return true;
  }
  const EmittedRun run = emit_run(format, scenario);
  fmt::print("{}", run.text);
  for (const std::string& setting : run.unmapped) fmt::print(stderr, "{} cannot express {}\n", format, setting);
  const std::vector<const LauncherRule*> broken = broken_rules(format, run.text, scenario);
  for (const LauncherRule* rule : broken)
    fmt::print(stderr, "{} refuses this: {} ({})\n", format, rule->says, rule->source);
  return broken.empty();
}

}  // namespace tracecast::cli
