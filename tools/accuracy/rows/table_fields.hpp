/// \file
/// One row of a table of measurements, read field by field. The first error is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/io/csv_table.hpp"

namespace tracecast::accuracy {

/// "4096", "4,096", "4k" (of 1,024); empty: another word.
std::optional<double> tokens_in(const std::string& text);

/// Readers return a value that is safe to go on with after an error; problem() says whether there was one.
class TableFields {
 public:
  TableFields(const CsvTable& table, std::size_t row) : table_(&table), row_(row) {}

  std::size_t row() const { return row_; }
  /// Line of the file.
  int line() const { return table_->line(row_); }
  /// Empty also for a placeholder: "-", "n/a", "not printed" (is_placeholder in cell_words.hpp).
  const std::string& text(const char* column) const;
  bool reported(const char* column) const { return !text(column).empty(); }
  /// A number of at least 0, "8192" or "8,192"; `otherwise` for an empty field and "none".
  double number(const char* column, double otherwise);
  /// The same of a whole number; of `seq_len` and `vocab` also with a "k".
  std::int64_t count(const char* column, std::int64_t otherwise);
  /// The same, at most 2^24.
  int small_count(const char* column, int otherwise);
  /// A whole number of at least 1, also where it is written as 1024.0; `otherwise` for an empty field, unless it is 0.
  std::int64_t size(const char* column, std::int64_t otherwise = 0);
  /// A whole number of at least 1 in a field that must not be empty.
  std::int64_t required_size(const char* column);
  double positive(const char* column);
  /// The value whose name is in the field; `otherwise` for an empty field.
  template <class T>
  T word(const char* column, const std::vector<std::pair<std::string, T>>& words, T otherwise) {
    if (!reported(column)) return otherwise;
    std::string allowed;
    for (const auto& [name, value] : words) {
      if (text(column) == name) return value;
      allowed += " " + name;
    }
    add_error(column, "is unknown (allowed:" + allowed + ")");
    return otherwise;
  }

  /// 0 for an empty field, without an error.   Requires the column.
  double number_or_zero(const char* column) const;
  /// The same, rounded.
  std::int64_t integer_or_zero(const char* column) const;

  void add_error(const char* column, std::string message);
  const std::optional<Diagnostic>& problem() const { return problem_; }

 private:
  const CsvTable* table_;
  std::size_t row_;
  std::optional<Diagnostic> problem_;
};

/// True if the table has all of these columns.
bool has_all(const CsvTable& table, const std::vector<const char*>& columns);

}  // namespace tracecast::accuracy
