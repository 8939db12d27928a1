/// \file
/// What launchers refuse, as checks of emitted files. Each rule names the file of the launcher that it was read from;
/// docs/references.md has the versions. docs/formats/launchers.md lists the rules.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/import/launchers/run_import.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// An emitted file as its launcher reads it, and the job that it is for.
struct EmittedFile {
  std::string_view text;
  RunImport& settings;
  const Scenario& scenario;
};

struct LauncherRule {
  std::string_view format;  ///< "megatron"
  std::string says;         ///< "--use-megatron-fsdp needs --ckpt-format fsdp_dtensor", in the words of the launcher
  std::string_view source;  ///< "megatron/training/arguments.py"
  bool (*obeyed)(const EmittedFile& file);
};

std::span<const LauncherRule> launcher_rules();

/// The rules of its launcher that a file breaks. Requires a format that can be emitted. A file that cannot be parsed
/// breaks all of them.
std::vector<const LauncherRule*> broken_rules(std::string_view format, const std::string& text,
                                              const Scenario& scenario);

/// Why a launcher cannot run the scenario's layout, a sentence each: it cannot express one of its keys (sim/plan/layout_keys.hpp),
/// or refuses what is emitted. Other settings are not checked. Requires as emit_run.
std::vector<std::string> launcher_refusals(std::string_view format, const Scenario& scenario);

}  // namespace tracecast
