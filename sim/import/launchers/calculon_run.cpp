#include "sim/import/launchers/calculon_run.hpp"

#include <utility>

#include <fmt/format.h>

#include "sim/import/calculon.hpp"
#include "sim/io/fields.hpp"
#include "sim/io/overrides.hpp"

namespace tracecast {
namespace {

constexpr const char* kNotes = "notes";

void set_line(JsonNode& node, int line) {
  node.line = line;
  for (JsonMember& each : node.members) set_line(each.value, line);
}

/// What Calculon says, under the keys of a scenario, and the notes of its reader.
Result<JsonDocument> parse_calculon(const std::string& content, const std::string& file) {
  const Result<CalculonInput> input = read_calculon(content, file);
  if (!input) return tl::unexpected(input.error());
  Result<JsonDocument> document = parse_json("{}", file);
  std::vector<std::string> settings = input->settings;
  if (input->model) {
    document->root.members.push_back({"model", parse_json(to_json(*input->model), file)->root});
    settings.push_back(fmt::format("training.seq_length={}", input->model->max_position_embeddings));
  }
  std::vector<Diagnostic> errors;
  apply_overrides(document->root, settings, errors);
  if (!errors.empty()) return tl::unexpected(Error{std::move(errors)});
  set_line(document->root, 0);
  document->root.members.push_back({kNotes, node_of(input->notes)});
  return document;
}

void import_calculon(RunImport& run) {
  for (const JsonMember& each : run.theirs().members) {
    if (each.key != kNotes) {
      run.put(each.key, each.value);
      continue;
    }
    for (const JsonNode& note : each.value.items) run.assume(note.string);
  }
  run.pass_over_rest();
}

}  // namespace

const Launcher kCalculonRun{parse_calculon, RunImport::Names::dotted, "execution.json", import_calculon, nullptr};

}  // namespace tracecast
