#include "sim/import/importers.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/import/launchers/unread_launchers.hpp"
#include "sim/import/pytorch_schedule.hpp"
#include "sim/import/recognise.hpp"
#include "sim/import/recorded_collectives.hpp"
#include "sim/io/compressed.hpp"
#include "sim/io/scenario_document.hpp"
#include "sim/io/trace_reader.hpp"

namespace tracecast {
namespace {

constexpr const Importer* kImporters[] = {
#define IMPORTER(file, row) &row,
#include "sim/import/importers.def"
#undef IMPORTER
};

struct KindText {
  std::string_view noun;
  std::string_view command;  ///< that takes such a file
};

/// [ImportKind]
constexpr KindText kKinds[] = {{"a machine", "topology"},
                               {"a recording", "replay"},
                               {"a step graph", "import"},
                               {"a launcher's configuration", "predict"},
                               {"a table of measured collectives", "import"},
                               {"a model", "import"},
                               {"a log", "import"}};

const KindText& text_of(ImportKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

using Candidates = std::vector<const Importer*>;

std::string names_of(const Candidates& candidates) {
  std::vector<std::string_view> names;
  for (const Importer* each : candidates) names.push_back(each->name);
  return fmt::format("{}", fmt::join(names, " "));
}

using Kinds = std::initializer_list<ImportKind>;

/// kinds: empty for all.
Candidates importers_of(Kinds kinds) {
  Candidates candidates;
  for (const Importer* each : kImporters)
    if (kinds.size() == 0 || std::ranges::find(kinds, each->kind()) != kinds.end()) candidates.push_back(each);
  return candidates;
}

Candidates those_that_recognise(Candidates candidates, std::string_view content, const std::string& file) {
  std::erase_if(candidates, [&](const Importer* each) { return !each->recognises(content, file); });
  return candidates;
}

/// The file is of another kind than the one asked for.
tl::unexpected<Error> fail_kind(const Importer& found, ImportKind asked, const std::string& file) {
  const KindText& is = text_of(found.kind());
  return fail({file, 0, "", "",
               fmt::format("is {} ({}), not {} (tracecast {} reads it)", is.noun, found.name, text_of(asked).noun,
                           is.command)});
}

}  // namespace

std::span<const Importer* const> importers() { return kImporters; }

std::string_view noun_of(ImportKind kind) { return text_of(kind).noun; }

Result<const Importer*> find_importer(std::string_view content, const std::string& file, std::string_view name,
                                      Kinds kinds) {
  const Candidates candidates = importers_of(kinds);
  if (!name.empty()) {
    const auto found = std::ranges::find(candidates, name, &Importer::name);
    if (found != candidates.end()) return *found;
    return fail_key("format", std::string(name), fmt::format("unknown format (allowed: {})", names_of(candidates)));
  }
  const Candidates found = those_that_recognise(candidates, content, file);
  if (found.size() == 1) return found.front();
  if (found.size() > 1)
    return fail({file, 0, "", "", fmt::format("may be several formats: name one (allowed: {})", names_of(found))});
  if (const Candidates others = those_that_recognise(importers_of({}), content, file); !others.empty())
    return fail_kind(*others.front(), *kinds.begin(), file);
  if (parse_pytorch_schedule(content, file))
    return fail({file, 0, "", "", "is a pipeline schedule (tracecast schedule --file reads it)"});
  if (const std::string other = unread_launcher(content, file); !other.empty()) return fail({file, 0, "", "", other});
  return fail({file, 0, "", "", fmt::format("matches none of the formats {}", names_of(candidates))});
}

Result<const Importer*> find_foreign(std::string_view content, const std::string& file, Kinds kinds) {
  const bool may_be_own = first_character(content) == '\0' || is_json_object(content) || file.ends_with(".json");
  if (may_be_own && those_that_recognise(importers_of({}), content, file).empty()) return nullptr;
  return find_importer(content, file, "", kinds);
}

std::optional<Diagnostic> fault_of_foreign(const std::filesystem::path& path, std::string_view wanted) {
  const Result<std::string> content = read_packed(path);
  if (!content) return std::nullopt;
  const Candidates found = those_that_recognise(importers_of({}), *content, path.string());
  if (found.empty()) return std::nullopt;
  const KindText& is = text_of(found.front()->kind());
  return Diagnostic{
      path.string(), 0, "", "",
      fmt::format("is {} ({}), not {} (tracecast {} reads it)", is.noun, found.front()->name, wanted, is.command)};
}

namespace {

/// Whether a file is a machine or a model of another program, which scenarios name too, with a fault that its own reader names.
bool is_damaged_part(const std::filesystem::path& path) {
  const Result<std::string> content = read_packed(path);
  if (!content) return false;
  const auto importer = find_foreign(*content, path.string(), {ImportKind::machine, ImportKind::launcher});
  if (!importer || *importer == nullptr) return false;
  return (*importer)->kind() == ImportKind::machine ? !import_as<ImportedTopology>(*content, path.string())
                                                    : *importer == &kHuggingFace && !read_model(path);
}

/// Of the files that a scenario names, those of other programs once each, in place of what their readers say.
Error with_foreign_named(const Error& error, const std::filesystem::path& scenario) {
  Error result;
  std::map<std::string, std::optional<Diagnostic>> files{{"", std::nullopt}, {scenario.string(), std::nullopt}};
  for (const Diagnostic& each : error.diagnostics) {
    const auto [file, added] = files.try_emplace(each.file);
    if (added && !is_damaged_part(each.file)) file->second = fault_of_foreign(each.file, "a file of this project");
    if (added && file->second) result.diagnostics.push_back(*file->second);
    if (!file->second) result.diagnostics.push_back(each);
  }
  return result;
}

}  // namespace

Result<Cluster> read_any_topology(const std::filesystem::path& path, std::vector<std::string>* notes) {
  const Result<std::string> content = read_packed(path);
  if (!content) return read_topology(path);
  const auto importer = find_foreign(*content, path.string(), {ImportKind::machine});
  if (!importer) return tl::unexpected(importer.error());
  if (*importer == nullptr) return read_topology(path);
  Result<ImportedTopology> imported = import_as<ImportedTopology>(*content, path.string(), (*importer)->name);
  if (!imported) return tl::unexpected(imported.error());
  if (const auto faults = impossible_values(imported->cluster); !faults.empty())
    return fail({path.string(), 0, faults.front().key, "", faults.front().message});
  if (notes != nullptr) notes->insert(notes->end(), imported->notes.begin(), imported->notes.end());
  imported->cluster.name = path.stem().string();
  return std::move(imported->cluster);
}

Result<Trace> read_any_recording(const std::filesystem::path& path, std::vector<std::string>* notes) {
  if (is_trace_file(path)) {
    Result<Trace> trace = read_trace(path);
    if (trace) pair_collectives(*trace);
    if (trace && trace->left_out > 0 && notes != nullptr)
      notes->push_back(fmt::format("only the first {} records were read; {} more do not fit in memory", trace->records,
                                   trace->left_out));
    return trace;
  }
  const Result<std::string> content = read_packed(path);
  if (!content) return tl::unexpected(content.error());
  Result<ImportedTrace> imported = import_as<ImportedTrace>(*content, path.string());
  if (!imported) return tl::unexpected(imported.error());
  if (notes != nullptr) notes->insert(notes->end(), imported->notes.begin(), imported->notes.end());
  return std::move(imported->trace);
}

Result<Scenario> read_any_scenario(const std::filesystem::path& path, const DataPaths& data,
                                   const std::vector<std::string>& overrides) {
  const Result<std::string> content = read_packed(path);
  if (!content) return read_scenario(path, data, overrides);
  const auto importer = find_foreign(*content, path.string(), {ImportKind::launcher, ImportKind::model});
  if (!importer) return tl::unexpected(importer.error());
  if (*importer == nullptr)
    return read_scenario(path, data, overrides, read_any_topology).map_error([&path](const Error& error) {
      return with_foreign_named(error, path);
    });
  Result<ImportedRun> run = import_run((*importer)->name, *content, path.string(), {.overrides = overrides}, data);
  if (!run) return tl::unexpected(run.error());
  return std::move(run->scenario);
}

}  // namespace tracecast
