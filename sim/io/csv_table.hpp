/// \file
/// A table of comma-separated values with a header line, for tables of measurements.
///
/// Fields may be quoted, with "" for a quote and line breaks inside; a byte order mark, carriage returns and blanks around
/// a field are dropped.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast {

/// The fields of one line, without blanks around them. Empty: a quote is not closed.
std::vector<std::string> csv_fields(std::string_view line);

class CsvTable {
 public:
  /// Errors: no header, a column named twice, a quote that is not closed, a row with another number of fields.
  static Result<CsvTable> parse(std::string_view text, std::string file);
  /// Plain or packed with gzip. Errors: those of read_packed and parse.
  static Result<CsvTable> read(const std::filesystem::path& path);

  std::size_t rows() const { return rows_.size(); }
  const std::string& file() const { return file_; }
  bool has(const std::string& column) const { return columns_.contains(column); }
  const std::vector<std::string>& header() const { return header_; }
  /// Line of the file that the row begins on.
  int line(std::size_t row) const { return rows_[row].line; }
  /// The fields of a row, in the order of the header.
  const std::vector<std::string>& fields(std::size_t row) const { return rows_[row].fields; }
  /// "" for an empty field and for a column that the table lacks.
  const std::string& text(std::size_t row, const std::string& column) const;
  /// Empty when the field is empty. Errors: the field is not a finite number; error_at makes the diagnostic.
  std::optional<double> number(std::size_t row, const std::string& column) const;
  /// The rows whose `column` holds one of `values`. Line numbers stay those of the file.
  CsvTable only(const std::string& column, const std::vector<std::string>& values) const;
  /// A copy with `value` in every row's `column`. The column is added if the table lacks it.
  CsvTable with(const std::string& column, const std::string& value) const;
  /// A diagnostic at this field, with file and line.
  Diagnostic error_at(std::size_t row, const std::string& column, std::string message) const;

 private:
  struct Row {
    int line = 0;
    std::vector<std::string> fields;
  };
  std::string file_;
  std::vector<std::string> header_;
  std::map<std::string, std::size_t> columns_;
  std::vector<Row> rows_;
};

}  // namespace tracecast
