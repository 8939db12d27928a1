/// \file
/// A table of measurements: a CSV file, gzipped or not, with a header line. Fields may be quoted.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast::accuracy {

class Table {
 public:
  /// Errors: the file cannot be read; a row has another number of fields than the header.
  static Result<Table> read(const std::filesystem::path& path);

  std::size_t rows() const { return fields_.size() / header_.size(); }
  bool has(const std::string& column) const;
  /// Column numbers are looked up once, outside of loops. Requires has(column).
  std::size_t column(const std::string& column) const;
  const std::string& text(std::size_t row, std::size_t column) const { return fields_[row * header_.size() + column]; }
  /// NaN for an empty field or one that is not a number.
  double number(std::size_t row, std::size_t column) const;
  std::int64_t integer(std::size_t row, std::size_t column) const;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::vector<std::string> header_;
  std::vector<std::string> fields_;
};

}  // namespace tracecast::accuracy
