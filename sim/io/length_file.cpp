#include "sim/io/length_file.hpp"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/io/compressed.hpp"

namespace tracecast {
namespace {

constexpr std::string_view kBetween = " \t,\r";
constexpr std::int64_t kMost = 999'999'999;

/// The next number of `line`, which is shortened by it; 0: there is none from 1 to kMost.
std::int64_t take_number(std::string_view& line) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc{} || number < 1 || number > kMost) return 0;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (!line.empty() && kBetween.find(line.front()) == std::string_view::npos) return 0;
  line.remove_prefix(std::min(line.find_first_not_of(kBetween), line.size()));
  return number;
}

}  // namespace

Result<std::map<std::string, double>> parse_length_histogram(std::string_view text, const std::string& file) {
  std::map<std::string, double> histogram;
  int number = 0;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    ++number;
    const std::string whole(line.substr(0, 40));
    line.remove_prefix(std::min(line.find_first_not_of(kBetween), line.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::int64_t length = take_number(line);
    const std::int64_t count = line.empty() ? 1 : take_number(line);
    if (length == 0 || count == 0 || !line.empty())
      return fail({file, number, "length", whole,
                   fmt::format("is not a number of tokens, with or without a count (allowed: 1 to {})", kMost)});
    histogram[fmt::to_string(length)] += static_cast<double>(count);
  }
  if (histogram.empty()) return fail({file, 0, "", "", "has no lengths of documents"});
  return histogram;
}

Result<std::map<std::string, double>> read_length_histogram(const std::filesystem::path& path) {
  return read_packed(path).and_then(
      [&](const std::string& text) { return parse_length_histogram(text, path.string()); });
}

}  // namespace tracecast
