/// \file
/// Runs as other programs describe them: launch arguments and configuration files become scenarios, and layouts become
/// what is pasted into a launcher. docs/formats/launchers.md lists the names on both sides.
///
/// No launcher says everything that a forecast needs. What is missing is asked for (an error that says which option gives
/// it) or, where the launcher's own default is known, taken and listed as an assumption. Settings that no key of a
/// scenario stands for are listed, too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/import/launchers/run_import.hpp"
#include "sim/io/files.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// What the user says beside the file.
struct RunGivens {
  std::string model = {};  ///< a shipped model or a model file; what the file says about the model changes it
  std::string topology = {};
  int gpus = 0;
  std::vector<std::string> overrides =
      {};  ///< "training.seq_length=4096": keys of the scenario, which override the file's
};

struct ImportedRun {
  std::string format;
  Scenario scenario;
  std::vector<std::string> assumptions;
  std::vector<UnmappedSetting> unmapped;
  std::vector<std::string> passed_over;  ///< settings without effect on the time of a step
};

/// A layout in the words of a launcher.
struct EmittedRun {
  std::string text;
  std::vector<std::string> unmapped;  ///< "training.expert_imbalance=1.2", as --set takes it: what it cannot express
};

/// How the settings of one launcher are read and written.
struct Launcher {
  Result<JsonDocument> (*parse)(const std::string& content, const std::string& file);
  RunImport::Names names;
  std::string_view file_name;      ///< "run.sh": what its files are called usually; the parser goes by the suffix
  void (*import)(RunImport& run);  ///< puts what the launcher sets into run.ours
  EmittedRun (*emit)(const Scenario& scenario);  ///< nullptr: only read
};

/// Requires the name of a launcher's format.
const Launcher& launcher_named(std::string_view name);

/// For launchers whose file is JSON.
Result<JsonDocument> parse_json_settings(const std::string& content, const std::string& file);

/// Errors: those of the format's parser; a setting that is not supported or contradicts another; what is missing and has no
/// default; everything that a scenario's own reader and make_plan refuse, told with the launcher's key and line.
Result<ImportedRun> import_run(std::string_view format, const std::string& content, const std::string& file,
                               const RunGivens& givens, const DataPaths& data);

/// The file with the order of the pipeline that a configuration of torchtitan names, PyTorch's CSV; "": it names none, or is another
/// launcher's.
std::string schedule_file_of(const std::string& content, const std::string& file);

/// Sharding said as a number (zero_stage), whatever words the scenario has for it. Settings that have no effect with this sharding and
/// these degrees have their defaults, so that no launcher is asked for them.   Requires a valid scenario.
Scenario in_plain_terms(const Scenario& scenario);

/// Requires a format that can be emitted and a valid scenario.
EmittedRun emit_run(std::string_view format, const Scenario& scenario);

/// The software stack that an import of an emitted text sets; "": none.
std::string stack_of_emitted(std::string_view format, const std::string& text);

}  // namespace tracecast
