#include "tools/accuracy/rows/table_fields.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/words.hpp"
#include "tools/accuracy/rows/cell_words.hpp"

namespace tracecast::accuracy {
namespace {

constexpr double kMaxCount = 1e15;
constexpr std::int64_t kMaxSmallCount = std::int64_t{1} << 24;

bool is_count(double value) { return value >= 0 && value <= kMaxCount && value == std::trunc(value); }

/// Also with commas before every three digits.
std::optional<double> number_in(const std::string& text) {
  if (text.find(',') == std::string::npos) return parse_number<double>(text);
  const std::vector<std::string_view> groups = split(text);
  std::string digits;
  for (const std::string_view group : groups) {
    const bool first = digits.empty();
    if (group.empty() || group.size() > 3 || (!first && group.size() < 3) || !parse_number<int>(group))
      return std::nullopt;
    digits += group;
  }
  return parse_number<double>(digits);
}

/// Also "8k", of so many; of tokens "1M", too.
std::optional<double> number_in(const std::string& text, double kilo) {
  if (kilo == 1024 && (text.ends_with('m') || text.ends_with('M'))) {
    const std::optional<double> value = number_in(text.substr(0, text.size() - 1));
    return value ? std::optional(kilo * kilo * *value) : std::nullopt;
  }
  if (!text.ends_with('k') && !text.ends_with('K')) return number_in(text);
  const std::optional<double> value = number_in(text.substr(0, text.size() - 1));
  return value ? std::optional(kilo * *value) : std::nullopt;
}

/// Of tokens and of the words of a vocabulary also with a "k".
std::optional<double> count_in(std::string_view column, const std::string& text) {
  if (column == "seq_len") return tokens_in(text);
  return column == "vocab" ? number_in(text, 1000) : number_in(text);
}

}  // namespace

std::optional<double> tokens_in(const std::string& text) { return number_in(text, 1024); }

const std::string& TableFields::text(const char* column) const {
  static const std::string kEmpty;
  const std::string& cell = table_->text(row_, column);
  return is_placeholder(cell) ? kEmpty : cell;
}

double TableFields::number(const char* column, double otherwise) {
  if (!reported(column) || lower_case(text(column)) == "none") return otherwise;
  const std::optional<double> value = number_in(text(column));
  if (!value || *value < 0) add_error(column, "must be a number of at least 0");
  return value.value_or(otherwise);
}

std::int64_t TableFields::count(const char* column, std::int64_t otherwise) {
  const std::optional<double> written = count_in(column, text(column));
  const double value = written ? *written : number(column, static_cast<double>(otherwise));
  if (is_count(value)) return static_cast<std::int64_t>(value);
  add_error(column, "must be a whole number");
  return otherwise;
}

int TableFields::small_count(const char* column, int otherwise) {
  const std::int64_t value = count(column, otherwise);
  if (value <= kMaxSmallCount) return static_cast<int>(value);
  add_error(column, "is too large");
  return otherwise;
}

std::int64_t TableFields::size(const char* column, std::int64_t otherwise) {
  if (!reported(column) && otherwise > 0) return otherwise;
  const std::optional<double> value = count_in(column, text(column));
  if (value && *value >= 1 && is_count(*value)) return static_cast<std::int64_t>(*value);
  add_error(column, "must be a whole number of at least 1");
  return 1;
}

std::int64_t TableFields::required_size(const char* column) {
  if (!reported(column)) add_error(column, "is not reported");
  return size(column);
}

double TableFields::positive(const char* column) {
  const std::optional<double> value = number_in(text(column));
  if (value && *value > 0) return *value;
  add_error(column, "must be a positive number");
  return 1;
}

double TableFields::number_or_zero(const char* column) const {
  TRACECAST_ASSERT(table_->has(column), column);
  return number_in(text(column)).value_or(0);
}

std::int64_t TableFields::integer_or_zero(const char* column) const { return std::llround(number_or_zero(column)); }

void TableFields::add_error(const char* column, std::string message) {
  if (!problem_) problem_ = table_->error_at(row_, column, std::move(message));
}

bool has_all(const CsvTable& table, const std::vector<const char*>& columns) {
  return std::all_of(columns.begin(), columns.end(), [&](const char* column) { return table.has(column); });
}

}  // namespace tracecast::accuracy
