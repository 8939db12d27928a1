#include "sim/import/launchers/setting_rows.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/cost/rated_precision.hpp"
#include "sim/io/scenario_fields.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {
namespace {

void collect(const std::string& group, const JsonNode& settings, std::map<std::string, JsonNode>& values) {
  for (const auto& [key, value] : settings.members) values[group + key] = value;
}

}  // namespace

void import_rows(RunImport& run, std::span<const SettingRow> rows, AbsentFlag absent) {
  using Kind = SettingRow::Kind;
  for (const SettingRow& row : rows) {
    if (row.kind == Kind::size || row.kind == Kind::count) {
      if (const auto value = run.count(row.theirs, row.ours)) run.put(row.ours, *value, row.theirs);
    } else if (const auto value = run.flag(row.theirs, row.ours); value || absent == AbsentFlag::is_false) {
      run.put_flag(row.ours, value.value_or(false) == (row.kind == Kind::flag), row.theirs);
    }
  }
}

void import_ulysses(RunImport& run, std::string_view key) {
  const auto ranks = run.count(key);
  if (!ranks || *ranks <= 1) return;
  run.put("parallel.cp", *ranks, key);
  run.put("parallel.cp_comm_type", "a2a", key);
}

void import_megatron_fsdp(RunImport& run, std::int64_t stage, std::string_view key) {
  run.put("parallel.zero_stage", stage, key);
  if (stage == 3) run.put_flag("parallel.gathers_in_place", true, key);
  run.put_flag("parallel.joint_root", false, key);
}

bool put_schedule(RunImport& run, const std::string& name, std::string_view key) {
  const ScheduleVariant* const variant = find_schedule(name);
  if (variant == nullptr) {
    run.error(key, "unknown schedule (see tracecast schedule --help)");
    return false;
  }
  run.put("parallel.pp_schedule", variant->name, key);
  run.put("parallel.vpp", variant->default_chunks, key);
  return true;
}

bool says_type(const RunImport& run, std::string_view key, std::string_view type) {
  const std::string of_pytorch = fmt::format("{}{}", type == "bf16" ? "bfloat" : "float", type.substr(type.size() - 2));
  return std::ranges::any_of(std::array{std::string(type), of_pytorch, "torch." + of_pytorch},
                             [&](const std::string& name) { return run.says(key, '"' + name + '"'); });
}

RunSettings::RunSettings(const Scenario& scenario) : stack_(scenario.stack) {
  collect("parallel.", write_fields(scenario.parallel, true), values_);
  collect("training.", write_fields(scenario.training, true), values_);
  collect("parallel.", write_fields(Parallel{}, true), defaults_);
  Training usual;
  usual.fp8_transpose = !multiplies_fp8_either_way(scenario.profile);  // a launcher's software knows the GPU
  collect("training.", write_fields(usual, true), defaults_);
  for (const std::string& key : scenario.against_stack) listed_[key] = true;
}

const JsonNode& RunSettings::take(const std::string& ours) {
  taken_[ours] = true;
  return values_.at(ours);
}

bool RunSettings::is_default(const std::string& ours) const {
  return values_.at(ours).setting_text() == defaults_.at(ours).setting_text();
}

std::vector<std::string> RunSettings::left() const {
  const auto is_left = [this](const std::string& key) {
    return !taken_.contains(key) && (listed_.contains(key) || !is_default(key));
  };
  std::vector<std::string> left;
  for (const auto& [key, value] : values_) {
    // The name of a schedule alone sets its usual number of chunks.
    const bool chunks = key == "parallel.vpp" && is_left("parallel.pp_schedule");
    if (chunks || is_left(key)) left.push_back(key + "=" + value.setting_text());
  }
  return left;
}

std::vector<std::pair<std::string, JsonNode>> emit_rows(RunSettings& settings, std::span<const SettingRow> rows) {
  using Kind = SettingRow::Kind;
  std::vector<std::pair<std::string, JsonNode>> written;
  for (const SettingRow& row : rows) {
    const bool is_default = settings.is_default(row.ours);
    const JsonNode& value = settings.take(row.ours);
    const bool is_flag = row.kind == Kind::flag || row.kind == Kind::negated;
    if (is_flag && value.boolean == (row.kind == Kind::flag)) written.emplace_back(row.theirs, node_of(true));
    if (row.kind == Kind::size || (row.kind == Kind::count && !is_default)) written.emplace_back(row.theirs, value);
  }
  return written;
}

}  // namespace tracecast
