// Importers of steps in other formats: Chakra, PyTorch's execution traces, SimAI; and Calculon's inputs.

#include <filesystem>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/engine/engine.hpp"
#include "sim/import/calculon.hpp"
#include "sim/import/imported_graph.hpp"
#include "sim/io/files.hpp"
#include "sim/io/step_record.hpp"
#include "tools/import_formats.hpp"

namespace tracecast::cli {

Result<ExitCode> import_foreign_step(const ImportOptions& options, const std::string& content, const Context& context) {
  const Result<ForeignStep> step = import_step(content, options.file, options.format);
  if (!step) return tl::unexpected(step.error());
  const StepGraph graph = step_graph_of(*step);
  const Result<Timeline> timeline = simulate(graph, {.record_spans = true});
  if (!timeline) return tl::unexpected(timeline.error());
  std::string summary =
      fmt::format("{}: {}\n  {:<28} {:>8}\n", options.file, step->format, "nodes", step->nodes.size());
  for (const auto& [what, count] : step->found) summary += fmt::format("  {:<28} {:>8}\n", what, count);
  summary += fmt::format("  {:<28} {:>8}\n", "longest path", to_text(timeline->step_time));
  for (const std::string& note : step->notes) summary += paragraph("note: ", note, context.style);
  const std::string name = std::filesystem::path(options.file).filename().string();
  return deliver(options, to_json(record_of(graph, *timeline, name, StepOrigin::executed)), summary);
}

Result<ExitCode> import_calculon(const ImportOptions& options, const std::string& content, const Context& context) {
  Result<CalculonInput> input = read_calculon(content, options.file);
  if (!input) return tl::unexpected(input.error());
  std::string summary = options.file + ": Calculon\n";
  for (const std::string& note : input->notes) summary += paragraph("note: ", note, context.style);
  if (!input->model) {
    std::string settings;
    for (const std::string& each : input->settings) settings += "--set " + each + "\n";
    return deliver(options, settings, summary);
  }
  input->model->name = std::filesystem::path(options.file).stem().string();
  return deliver(options, to_json(*input->model), summary);
}

}  // namespace tracecast::cli
