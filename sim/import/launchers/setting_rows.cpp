#include "sim/import/launchers/setting_rows.hpp"

#include <fmt/format.h>

#include "sim/io/scenario_fields.hpp"

namespace tracecast {
namespace {

JsonNode node_of(bool value) {
  JsonNode node;
  node.kind = JsonNode::Kind::boolean;
  node.boolean = value;
  return node;
}
JsonNode node_of(std::int64_t value) {
  JsonNode node;
  node.kind = JsonNode::Kind::integer;
  node.integer = value;
  node.number = static_cast<double>(value);
  return node;
}
JsonNode node_of(int value) { return node_of(std::int64_t{value}); }
JsonNode node_of(double value) {
  JsonNode node;
  node.kind = JsonNode::Kind::number;
  node.number = value;
  node.string = fmt::format("{}", value);
  return node;
}
JsonNode node_of(const std::string& value) {
  JsonNode node;
  node.kind = JsonNode::Kind::string;
  node.string = value;
  return node;
}
template <class T>
JsonNode node_of(const std::vector<T>& values) {
  JsonNode node;
  node.kind = JsonNode::Kind::array;
  for (const T& value : values) node.items.push_back(node_of(value));
  return node;
}

/// The visitor that collects a group's settings.
class Collector {
 public:
  Collector(std::string group, std::map<std::string, JsonNode>& values) : group_(std::move(group)), values_(&values) {}
  template <class T>
  void operator()(const char* key, const T& field, Range) const {
    add(key, node_of(field));
  }
  template <class T>
  void operator()(const char* key, const T& field, const Names<T>& names) const {
    for (const auto& [name, value] : names)
      if (value == field) add(key, node_of(name));
  }
  void operator()(const char* key, const bool& field, const int& number, Range) const {
    add(key, field && number != 0 ? node_of(number) : node_of(field));
  }
  template <class T>
  void operator()(const char* key, const T& field) const {
    add(key, node_of(field));
  }

 private:
  void add(const char* key, JsonNode value) const { (*values_)[group_ + key] = std::move(value); }
  std::string group_;
  std::map<std::string, JsonNode>* values_;
};

void collect(const Parallel& parallel, const Training& training, std::map<std::string, JsonNode>& values) {
  visit_parallel(Collector("parallel.", values), parallel);
  visit_training(Collector("training.", values), training);
}

std::string text_of(const JsonNode& node) {
  if (node.kind != JsonNode::Kind::array) return node.text();
  std::string text = "[";
  for (const JsonNode& item : node.items) text += (text.size() > 1 ? "," : "") + item.text();
  return text + "]";
}

}  // namespace

void import_rows(RunImport& run, std::span<const SettingRow> rows, AbsentFlag absent) {
  using Kind = SettingRow::Kind;
  for (const SettingRow& row : rows) {
    if (row.kind == Kind::size || row.kind == Kind::count) {
      if (const auto value = run.count(row.theirs)) run.put(row.ours, *value, row.theirs);
    } else if (const auto value = run.flag(row.theirs); value || absent == AbsentFlag::is_false) {
      run.put_flag(row.ours, value.value_or(false) == (row.kind == Kind::flag), row.theirs);
    }
  }
}

RunSettings::RunSettings(const Scenario& scenario) {
  collect(scenario.parallel, scenario.training, values_);
  collect(Parallel{}, Training{}, defaults_);
}

const JsonNode& RunSettings::take(const std::string& ours) {
  taken_[ours] = true;
  return values_.at(ours);
}

bool RunSettings::is_default(const std::string& ours) const {
  return text_of(values_.at(ours)) == text_of(defaults_.at(ours));
}

std::vector<std::string> RunSettings::left() const {
  std::vector<std::string> left;
  for (const auto& [key, value] : values_)
    if (!taken_.contains(key) && (listed_.contains(key) || !is_default(key)))
      left.push_back(key + "=" + text_of(value));
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
