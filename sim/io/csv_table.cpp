#include "sim/io/csv_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/io/compressed.hpp"
#include "sim/io/json_document.hpp"
#include "sim/io/read_file.hpp"

namespace tracecast {
namespace {

/// One record at a time.
class CsvScanner {
 public:
  explicit CsvScanner(std::string_view text) : rest_(text) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }
  bool done() const { return rest_.empty(); }
  int line() const { return line_; }
  bool open_quote() const { return quoted_; }

  /// `columns`: as many fields as are expected.
  std::vector<std::string> record(std::size_t columns) {
    std::vector<std::string> fields;
    fields.reserve(columns + 1);
    fields.emplace_back();
    for (; !rest_.empty(); rest_.remove_prefix(1)) {
      take_plain_text(fields.back());
      if (rest_.empty()) break;
      const char c = rest_.front();
      if (c == '\n') ++line_;
      if (quoted_)
        take_quote(fields.back());
      else if (c == '"')
        quoted_ = true;
      else if (c == ',')
        fields.emplace_back();
      else if (c == '\n')
        return end_of_record(fields);
    }
    return fields;
  }

 private:
  /// Moves everything up to the next quote, and outside of quotes to the next separator or end of line, to the field.
  void take_plain_text(std::string& field) {
    const char* const begin = rest_.data();
    const char* const end = begin + rest_.size();
    const char* at = begin;
    if (quoted_) {
      at = std::find(begin, end, '"');
      line_ += static_cast<int>(std::count(begin, at, '\n'));
    } else {
      while (at != end && *at != ',' && *at != '\n' && *at != '"' && *at != '\r') ++at;
    }
    field.append(begin, at);
    rest_.remove_prefix(static_cast<std::size_t>(at - begin));
  }
  std::vector<std::string> end_of_record(std::vector<std::string>& fields) {
    rest_.remove_prefix(1);
    return std::move(fields);
  }
  /// Two quotes are one in the text; one ends the quoted part.
  void take_quote(std::string& field) {
    if (rest_.size() > 1 && rest_[1] == '"') {
      field += '"';
      rest_.remove_prefix(1);
    } else {
      quoted_ = false;
    }
  }

  std::string_view rest_;
  int line_ = 1;
  bool quoted_ = false;
};

Diagnostic at(const std::string& file, int line, std::string key, std::string message) {
  return {file, line, std::move(key), "", std::move(message)};
}

}  // namespace

std::vector<std::string> csv_fields(std::string_view line) {
  CsvScanner scanner(line);
  std::vector<std::string> fields = scanner.record(0);
  if (scanner.open_quote()) return {};
  for (std::string& field : fields) field = trim(field);
  return fields;
}

Result<CsvTable> CsvTable::parse(std::string_view text, std::string file) {
  CsvTable table;
  table.file_ = std::move(file);
  CsvScanner scanner(text);
  if (scanner.done()) return fail(at(table.file_, 0, "", "has no header line"));
  table.header_ = scanner.record(0);
  for (std::size_t c = 0; c < table.header_.size(); ++c)
    if (!table.columns_.emplace(table.header_[c], c).second)
      return fail(at(table.file_, 1, shortened(table.header_[c]), "is a column twice"));
  while (!scanner.done()) {
    Row row{scanner.line(), scanner.record(table.header_.size())};
    if (row.fields.size() == 1 && row.fields[0].empty()) continue;
    if (row.fields.size() != table.header_.size())
      return fail(at(table.file_, row.line, "",
                     fmt::format("has {} fields where the header has {}", row.fields.size(), table.header_.size())));
    for (std::string& field : row.fields) field = trim(field);
    table.rows_.push_back(std::move(row));
  }
  if (scanner.open_quote()) return fail(at(table.file_, scanner.line(), "", "a quote is not closed"));
  return table;
}

Result<CsvTable> CsvTable::read(const std::filesystem::path& path) {
  const Result<std::string> text = read_packed(path, kMaxOwnFile);
  if (!text) return tl::unexpected(text.error());
  return parse(*text, path.string());
}

const std::string& CsvTable::text(std::size_t row, const std::string& column) const {
  static const std::string kNothing;
  const auto found = columns_.find(column);
  return found == columns_.end() ? kNothing : rows_[row].fields[found->second];
}

std::optional<double> CsvTable::number(std::size_t row, const std::string& column) const {
  return parse_number<double>(text(row, column));
}

CsvTable CsvTable::only(const std::string& column, const std::vector<std::string>& values) const {
  CsvTable kept = *this;
  kept.rows_.clear();
  for (std::size_t row = 0; row < rows(); ++row)
    if (std::find(values.begin(), values.end(), text(row, column)) != values.end()) kept.rows_.push_back(rows_[row]);
  return kept;
}

CsvTable CsvTable::with(const std::string& column, const std::string& value) const {
  CsvTable changed = *this;
  const auto [place, is_new] = changed.columns_.try_emplace(column, header_.size());
  if (is_new) changed.header_.push_back(column);
  for (Row& row : changed.rows_) {
    row.fields.resize(changed.header_.size());
    row.fields[place->second] = value;
  }
  return changed;
}

Diagnostic CsvTable::error_at(std::size_t row, const std::string& column, std::string message) const {
  return {file_, line(row), column, shortened(text(row, column)), std::move(message)};
}

}  // namespace tracecast
