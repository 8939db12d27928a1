#include "tools/accuracy/rows/row_scenario.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/io/json_document.hpp"
#include "tools/accuracy/rows/gpu_names.hpp"
#include "tools/accuracy/rows/row_part.hpp"

namespace tracecast::accuracy {
namespace {

/// True if the row says that its model has experts: more than one, or without their number by its `arch`, else if the model that it
/// names has some.
bool has_experts(RowReading& row) {
  TableFields& fields = row.fields;
  const std::string arch = lower_case(fields.text("arch"));
  if (lower_case(fields.text("moe_experts")) == "dense") return false;
  if (fields.reported("moe_experts")) return fields.number("moe_experts", 0) > 1;
  if (affirms(arch, "moe") || affirms(arch, "mixture of experts") || arch == "sparse") return true;
  if (affirms(arch, "dense")) return false;
  if (fields.reported("layers")) return known_experts(fields, row.library).has_value();
  const std::optional<Model> shipped = row.library.model(fields.text("model_name"));
  return shipped && shipped->moe;
}

/// A column as stacks ask for it: the GPU by its part number, `arch` (dense, moe) by the experts, the stage of ZeRO as a number.
std::string column_for_stack(RowReading& row, const std::string& column) {
  const std::string& text = row.fields.text(column.c_str());
  if (column == "gpu") return gpu_name(text).part;
  if (column == "arch") return row.experts ? "moe" : "dense";
  if (column == "task") return usual_word("task", text);
  if (column != "zero_stage") return text;
  const std::optional<int> stage = named_zero_stage(row.fields);
  return stage ? std::to_string(*stage) : text;
}

/// The stack by the framework, else by one that works alike.
void choose_stack(RowReading& row) {
  const auto find = [&](const std::string& framework) {
    return find_stack(row.library.stacks(), framework, row.fields.text("source"),
                      [&](const std::string& column) { return column_for_stack(row, column); });
  };
  row.framework = framework_name(row.fields, row.experts);
  row.stack = find(row.framework);
  if (row.stack != nullptr) return;
  const std::string similar = similar_framework(row.framework);
  if (!similar.empty()) row.stack = find(similar);
  row.result.assumptions.push_back(row.stack == nullptr ? "unknown software stack: general defaults"
                                                        : fmt::format("{} is taken as {}", row.framework, similar));
}

}  // namespace

Result<RowScenario> scenario_of_row(const CsvTable& table, std::size_t row, const RowLibrary& library) {
  RowReading reading{TableFields(table, row), library, {}, nullptr, false, {}};
  TableFields& fields = reading.fields;
  RowScenario& result = reading.result;
  result.row = row;
  reading.experts = has_experts(reading);
  choose_stack(reading);
  if (reading.stack != nullptr) {
    result.stack = reading.stack->name;
    result.memory_report = reading.stack->memory_report;
  }
  result.software = result.stack.empty() ? lower_case(reading.framework) : result.stack;
  if (const double release = year_of_release(reading.framework); release > 0)
    result.software += fmt::format(" of {:.2f}", release);
  read_row_model(reading);
  read_row_machine(reading);
  for (const auto read : {read_row_parallel, read_row_training, complete_row_model})
    if (!fields.problem()) read(reading);
  if (fields.problem()) return fail(*fields.problem());
  Scenario& s = result.scenario;
  s.name = fields.text("id").empty() ? fmt::format("row {}", fields.line()) : fields.text("id");
  s.source = fields.text("source");
  if (const double time = fields.number("step_time_s", 0); time > 0) s.measured = Measured{time, fields.text("source")};
  return std::move(result);
}

}  // namespace tracecast::accuracy
