#include "tools/accuracy/fit/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <zlib.h>

#include "sim/base/words.hpp"

namespace tracecast::accuracy {
namespace {

/// The whole file; zlib passes plain files through.
Result<std::string> read_text(const std::filesystem::path& path) {
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) return fail({path.string(), 0, "", "", "cannot be opened"});
  std::string text;
  std::array<char, 1 << 16> buffer{};
  int count = 0;
  while ((count = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(count));
  if (count < 0) return fail({path.string(), 0, "", "", "is not a complete gzip file"});
  return text;
}

std::vector<std::string> split_line(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else if (c != '\r')
      fields.back() += c;
  }
  return fields;
}

}  // namespace

Result<Table> Table::read(const std::filesystem::path& path) {
  const Result<std::string> text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  Table table;
  table.name_ = path.filename().string();
  int line = 0;
  for (const std::string_view row : split_lines(*text)) {
    ++line;
    std::vector<std::string> fields = split_line(row);
    if (table.header_.empty()) {
      table.header_ = std::move(fields);
      continue;
    }
    if (fields.size() != table.header_.size())
      return fail({path.string(), line, "", "",
                   fmt::format("has {} fields, the header has {}", fields.size(), table.header_.size())});
    std::move(fields.begin(), fields.end(), std::back_inserter(table.fields_));
  }
  if (table.header_.empty()) return fail({path.string(), 0, "", "", "is empty"});
  return table;
}

bool Table::has(const std::string& column) const {
  return std::find(header_.begin(), header_.end(), column) != header_.end();
}

std::size_t Table::column(const std::string& column) const {
  const auto found = std::find(header_.begin(), header_.end(), column);
  TRACECAST_ASSERT(found != header_.end(), column.c_str());
  return static_cast<std::size_t>(found - header_.begin());
}

double Table::number(std::size_t row, std::size_t column) const {
  return parse_number<double>(text(row, column)).value_or(std::numeric_limits<double>::quiet_NaN());
}

std::int64_t Table::integer(std::size_t row, std::size_t column) const {
  const double value = number(row, column);
  return std::isnan(value) ? 0 : std::llround(value);
}

}  // namespace tracecast::accuracy
