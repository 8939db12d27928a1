/// `tracecast list`: the names that the other commands take.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/import/importers.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/io/data_files.hpp"
#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"
#include "sim/schedule/schedule.hpp"
#include "tools/command_rows.hpp"
#include "tools/environment.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

struct Entry {
  std::string name;
  std::string text;  ///< what it is, one line
};

/// A member of the file's object that is a string.
std::string text_at(const JsonNode& root, const char* key) {
  const JsonNode* node = root.find(key);
  return node != nullptr && node->kind == JsonNode::Kind::string ? node->string : "";
}

std::vector<Entry> files_of(const fs::path& folder, const char* key) {
  std::vector<Entry> entries;
  for (const fs::path& file : data_files(folder)) {
    const Result<JsonDocument> document = read_json(file);
    entries.push_back({file.stem().string(), document ? text_at(document->root, key) : ""});
  }
  return entries;
}

/// Models have no description: size and shape say what they are.
std::vector<Entry> models_of(const fs::path& folder) {
  std::vector<Entry> entries;
  for (const fs::path& file : data_files(folder)) {
    const Result<Model> model = read_model(file);
    if (!model) continue;
    const double parameters = static_cast<double>(parameter_count(*model).total());
    std::string text = fmt::format("{:.4g} B parameters, {} layers of width {}", parameters * 1e-9, model->num_layers,
                                   model->hidden_size);
    if (model->moe) text += fmt::format(", {} experts", model->moe->experts);
    entries.push_back({file.stem().string(), text});
  }
  return entries;
}

/// Tables that validate reads, of measured runs or of failures, with their number of rows.
std::vector<Entry> run_tables(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code))
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<Entry> entries;
  for (const fs::path& file : files)
    if (const Result<CsvTable> table = CsvTable::read(file);
        table && table->has("id") && (table->has("heads") || table->has("duration_days")))
      entries.push_back({file.stem().string(), fmt::format("{} measured {}", table->rows(),
                                                           table->has("heads") ? "runs" : "figures of failures")});
  return entries;
}

std::vector<Entry> schedules() {
  std::vector<Entry> entries;
  for (const ScheduleVariant& each : schedule_variants())
    entries.push_back({std::string(each.name), std::string(each.summary)});
  return entries;
}

std::vector<Entry> formats() {
  std::vector<Entry> entries;
  for (const Importer* each : importers()) entries.push_back({std::string(each->name), std::string(each->what)});
  return entries;
}

struct Kind {
  std::string_view name;
  std::string_view used;  ///< by which commands
  std::function<std::vector<Entry>(const DataPaths&)> entries;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = {
      {"scenarios", "predict, plan, goodput, execute",
       [](const DataPaths& data) { return files_of(data.scenarios, "description"); }},
      {"models",
       "model of a scenario, --set model=", [](const DataPaths& data) { return models_of(data.scenarios / "models"); }},
      {"machines", "topology, collective, cluster.topology of a scenario",
       [](const DataPaths& data) { return files_of(data.topologies, "description"); }},
      {"gpus", "cluster.profile of a scenario", [](const DataPaths& data) { return files_of(data.profiles, "gpu"); }},
      {"schedules", "schedule, parallel.pp_schedule of a scenario", [](const DataPaths&) { return schedules(); }},
      {"stacks", "stack of a scenario",
       [](const DataPaths& data) { return files_of(data.scenarios / "stacks", "description"); }},
      {"failures", "goodput --failures, plan --failures",
       [](const DataPaths& data) { return files_of(data.scenarios / "failures", "description"); }},
      {"runs", "validate, calibrate", [](const DataPaths& data) { return run_tables(data.scenarios / "runs"); }},
      {"economics", "plan --economics",
       [](const DataPaths& data) { return files_of(data.scenarios / "economics", "description"); }},
      {"formats", "import", [](const DataPaths&) { return formats(); }}};
  return kKinds;
}

/// Entries with all the words, in name or text.
std::vector<Entry> with_words(std::vector<Entry> entries, const std::string& words) {
  std::erase_if(entries, [&](const Entry& entry) {
    return !words.empty() && names_with(words, {entry.name + " " + entry.text}).empty();
  });
  return entries;
}

std::string table(const Kind& kind, const std::vector<Entry>& entries, const TextStyle& style) {
  int width = 0;
  for (const Entry& entry : entries) width = std::max(width, columns(entry.name));
  const std::string title = fmt::format("{} ({})", kind.name, kind.used);
  std::string text = columns(title) < style.width ? heading(title, style)
                                                  : heading(kind.name, style) + paragraph("", kind.used, style);
  for (const Entry& entry : entries) text += paragraph("  " + pad_right(entry.name, width) + "  ", entry.text, style);
  return text;
}

struct ListOptions {
  std::vector<std::string> words;
  bool json = false;
};

/// What was asked for: one kind or all, and the words.
struct Question {
  const Kind* kind = nullptr;
  std::string words;
};

Question question_of(const std::vector<std::string>& words) {
  Question question;
  std::size_t first = 0;
  if (!words.empty())
    for (const Kind& kind : kinds())
      if (kind.name == words[0]) question.kind = &kind;
  if (question.kind != nullptr) first = 1;
  for (std::size_t i = first; i < words.size(); ++i) question.words += (i > first ? " " : "") + words[i];
  return question;
}

/// How many there are of each kind.
std::string overview(const DataPaths& data) {
  std::string text = "Names that commands take; `tracecast list KIND [WORD]` lists them:\n";
  for (const Kind& kind : kinds())
    text += fmt::format("  {:<10} {:>4}   for {}\n", kind.name, kind.entries(data).size(), kind.used);
  return text;
}

Result<ExitCode> list(const ListOptions& options, const Context& context) {
  const Result<DataPaths> data = data_paths();
  if (!data) return tl::unexpected(data.error());
  if (options.words.empty() && !options.json) {
    fmt::print("{}", overview(*data));
    return ExitCode::done;
  }
  const Question question = question_of(options.words);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::string text;
  for (const Kind& kind : kinds()) {
    if (question.kind != nullptr && question.kind != &kind) continue;
    const std::vector<Entry> entries = with_words(kind.entries(*data), question.words);
    for (const Entry& entry : entries)
      json.push_back({{"kind", kind.name}, {"name", entry.name}, {"text", entry.text}});
    if (!entries.empty()) text += (text.empty() ? "" : "\n") + table(kind, entries, context.style);
  }
  if (json.empty()) {
    std::vector<std::string> names;
    for (const Kind& kind : kinds()) names.emplace_back(kind.name);
    const std::string meant = question.kind != nullptr ? "" : nearest_match(question.words, names);
    text = fmt::format("no name or description contains '{}'{}; `tracecast list` shows what there is\n", question.words,
                       meant.empty() ? "" : fmt::format(" (did you mean the kind '{}'?)", meant));
  }
  fmt::print("{}", options.json ? json_file(json) : text);
  return json.empty() ? ExitCode::no : ExitCode::done;
}

Run add_list_options(CLI::App& app) {
  auto options = std::make_shared<ListOptions>();
  std::string names;
  for (const Kind& kind : kinds()) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  app.add_option("WORDS", options->words,
                 "a kind (" + names + ") and words that name or description must contain; without a kind: all kinds");
  app.add_flag("--json", options->json, "print a list of objects: kind, name, text");
  return [options](const Context& context) { return list(*options, context); };
}

}  // namespace

const Command kListCommand{"list", "the names of scenarios, models, machines, GPUs, schedules and formats",
                           "list scenarios 405b", add_list_options};

}  // namespace tracecast::cli
