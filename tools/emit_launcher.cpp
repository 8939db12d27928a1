#include "tools/emit_launcher.hpp"

#include <cstdio>

#include <fmt/format.h>

#include "sim/import/importers.hpp"

namespace tracecast::cli {

std::vector<std::string> emitted_formats() {
  std::vector<std::string> names;
  for (const Importer* each : importers())
    if (const auto* launcher = std::get_if<Launcher>(&each->read); launcher != nullptr && launcher->emit != nullptr)
      names.emplace_back(each->name);
  return names;
}

void print_for_launcher(const std::string& format, const Scenario& scenario) {
  const EmittedRun run = emit_run(format, scenario);
  fmt::print("{}", run.text);
  for (const std::string& setting : run.unmapped) fmt::print(stderr, "{} has no word for {}\n", format, setting);
}

}  // namespace tracecast::cli
