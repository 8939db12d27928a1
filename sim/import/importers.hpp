/// \file
/// The table of importers: every format of another program that can be read.
///
/// A new importer is a file with a reader and a row, and a line of importers.def. `tracecast import`, the commands that take
/// foreign files, the error messages and the fuzzer read this table.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/import/calculon.hpp"
#include "sim/import/collective_measurements.hpp"
#include "sim/import/imported_graph.hpp"
#include "sim/import/imported_topology.hpp"
#include "sim/import/imported_trace.hpp"
#include "sim/import/launchers/launcher.hpp"
#include "sim/import/nccl_log.hpp"

namespace tracecast {

/// A reader never opens a file: `content` is the whole file as read_packed() returns it; `file` is its name, for messages.
/// Errors: one sentence with the line, byte or node that is damaged.
template <class T>
using Reader = Result<T> (*)(std::string_view content, const std::string& file);

/// What a file describes: one kind for each alternative of Importer::read, in the same order.
enum class ImportKind { machine, recording, step, launcher, measurements, model, log };

struct Importer {
  std::string_view name;  ///< as users type it: `tracecast import kineto FILE`
  std::string_view what;  ///< one line: what the file is, and which program writes it
  std::string_view page;  ///< in docs/formats
  /// By content, and by the file's name where the content does not suffice.
  bool (*recognises)(std::string_view content, std::string_view file);
  std::variant<Reader<ImportedTopology>, Reader<ImportedTrace>, Reader<ImportedGraph>, Launcher,
               Reader<CollectiveMeasurements>, Reader<CalculonInput>, Reader<NcclLog>>
      read;

  ImportKind kind() const { return static_cast<ImportKind>(read.index()); }
};

#define IMPORTER(file, row) extern const Importer row;
#include "sim/import/importers.def"
#undef IMPORTER

std::span<const Importer* const> importers();

/// "a recording"
std::string_view noun_of(ImportKind kind);

/// The importer called `name`; without a name the only one that recognises the file.   kinds: only importers of these.
/// Errors: an unknown name; a file that no importer recognises, that several do, or that is of another kind.
Result<const Importer*> find_importer(std::string_view content, const std::string& file, std::string_view name = "",
                                      std::initializer_list<ImportKind> kinds = {});

/// The importer of a file that may also be one of the project; nullptr: no importer recognises it, and the project's own
/// reader must say what it is. Errors: those of find_importer.
Result<const Importer*> find_foreign(std::string_view content, const std::string& file,
                                     std::initializer_list<ImportKind> kinds);

/// "is a machine (nccl-topology), not a profile (tracecast topology reads it)", for a file that a reader of the project has refused.
/// nullopt: no importer recognises it.   wanted: "a profile"
std::optional<Diagnostic> fault_of_foreign(const std::filesystem::path& path, std::string_view wanted);

/// Reads a file as the kind of value T: ImportedTopology, ImportedTrace, ImportedGraph, CollectiveMeasurements, ….
/// Errors: those of find_importer and of the reader.
template <class T>
Result<T> import_as(std::string_view content, const std::string& file, std::string_view name = "") {
  constexpr auto kKind = static_cast<ImportKind>(decltype(Importer::read)(Reader<T>()).index());
  return find_importer(content, file, name, {kKind}).and_then([&](const Importer* importer) {
    Result<T> read = std::get<Reader<T>>(importer->read)(content, file);
    if constexpr (std::is_same_v<T, ImportedTopology>)
      if (read) complete(read->cluster);
    return read;
  });
}

/// A topology file of the project, or a machine in a foreign format.
Result<Cluster> read_any_topology(const std::filesystem::path& path, std::vector<std::string>* notes = nullptr);

/// A trace of `tracecast record`, or a recording in a foreign format, packed or not. `notes`: what of it was left out.
Result<Trace> read_any_recording(const std::filesystem::path& path, std::vector<std::string>* notes = nullptr);

/// A scenario file of the project, or a launcher's configuration. `overrides` as --set takes them.
Result<Scenario> read_any_scenario(const std::filesystem::path& path, const DataPaths& data,
                                   const std::vector<std::string>& overrides = {});

}  // namespace tracecast
