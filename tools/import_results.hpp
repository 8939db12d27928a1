/// \file
/// What `tracecast import` writes for each kind of foreign file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/import/importers.hpp"
#include "sim/io/step_record.hpp"
#include "tools/commands.hpp"

namespace tracecast::cli {

/// The command line of one import.
struct ImportOptions {
  std::string format;  ///< empty: by content
  std::string file;
  std::vector<std::string> more;  ///< of measured collectives: files of the same format, read together with the first
  std::string output;             ///< empty: standard output
  std::string into;               ///< of measured collectives: the profile that they are put into
  // What a launcher's file does not contain:
  std::string model;
  std::string topology;
  int gpus = 0;
  std::vector<std::string> overrides;
};

/// Writes a recording to a file, packed with gzip if its name ends with .gz, which is replaced at the end. Errors: the file cannot be
/// written.
Result<void> save_recording(const std::string& path, const Trace& trace);

/// Reads `content`, that of options.file, and writes the result: a topology, trace, timeline, scenario, table or model.
Result<ExitCode> import_with(const Importer& importer, const ImportOptions& options, const std::string& content,
                             const Context& context);

/// A step graph of another program; nullopt: the file is a recording. With a topology, transfers without a time take that of `gpus`
/// ranks of it (sim/import/transfer_times.hpp).
Result<std::optional<ImportedGraph>> read_foreign_step(const std::string& path, const std::string& topology, int gpus);

/// A timeline of predict, execute or replay (or its folder), or a foreign recording or step graph, which is simulated.
Result<StepRecord> read_any_step(const std::string& path);

/// Whether a file is a trace or another profiler's recording. Errors: a file that looks like several formats.
Result<bool> is_recording(const std::string& path);

/// The recordings of the ranks of one run, in the order of the files; what was left out of each is appended to `notes`.
/// Errors: a rank twice, or runs of different numbers of ranks, as far as the files say.
Result<std::vector<Trace>> read_recordings(const std::vector<std::string>& files, std::vector<std::string>& notes);

/// A recorded step that can be compared with its forecast.
struct RecordedRanks {
  StepRecord record;
  bool named = false;  ///< all recordings say of which rank they are; others are numbered from 0
};

/// One step of recordings of one run, a file per rank, in the words of its forecast (tracer/named_record.hpp). `step` below 0: the last
/// but one that all files have, whose end the next one shows; everything if no steps are found.
Result<RecordedRanks> read_recorded_step(const std::vector<std::string>& files, std::int64_t step,
                                         const StepRecord& forecast);

}  // namespace tracecast::cli
