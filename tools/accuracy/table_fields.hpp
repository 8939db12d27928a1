/// \file
/// One row of a table of measurements, read field by field. The first error is kept.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/io/csv_table.hpp"

namespace tracecast::accuracy {

class TableFields {
 public:
  TableFields(const CsvTable& table, std::size_t row) : table_(&table), row_(row) {}

  std::size_t row() const { return row_; }
  const std::string& text(const char* column) const { return table_->text(row_, column); }
  /// 0 for an empty field, without an error.   Requires the column.
  double number_or_zero(const char* column) const {
    TRACECAST_ASSERT(table_->has(column), column);
    return table_->number(row_, column).value_or(0);
  }
  /// The same, rounded.
  std::int64_t integer_or_zero(const char* column) const { return std::llround(number_or_zero(column)); }
  /// A whole number of at least 1, also where it is written as 1024.0; `otherwise` for an empty field, unless it is 0.
  std::int64_t size(const char* column, std::int64_t otherwise = 0) {
    if (text(column).empty() && otherwise > 0) return otherwise;
    const std::optional<double> value = table_->number(row_, column);
    if (value && *value >= 1 && *value <= 1e15 && *value == std::trunc(*value))
      return static_cast<std::int64_t>(*value);
    refuse(column, "is not a whole number of at least 1");
    return 1;
  }
  double positive(const char* column) {
    const std::optional<double> value = table_->number(row_, column);
    if (value && *value > 0) return *value;
    refuse(column, "is not a positive number");
    return 1;
  }
  template <class T>
  T word(const char* column, const std::vector<std::pair<std::string, T>>& words, T otherwise) {
    if (text(column).empty()) return otherwise;
    for (const auto& [name, value] : words)
      if (text(column) == name) return value;
    std::string allowed;
    for (const auto& [name, value] : words) allowed += " " + name;
    refuse(column, "is unknown (allowed:" + allowed + ")");
    return otherwise;
  }
  void refuse(const char* column, std::string message) {
    if (!problem_) problem_ = table_->wrong(row_, column, std::move(message));
  }
  const std::optional<Diagnostic>& problem() const { return problem_; }

 private:
  const CsvTable* table_;
  std::size_t row_;
  std::optional<Diagnostic> problem_;
};

/// Has the table all of these columns?
inline bool has_all(const CsvTable& table, const std::vector<const char*>& columns) {
  for (const char* column : columns)
    if (!table.has(column)) return false;
  return true;
}

}  // namespace tracecast::accuracy
