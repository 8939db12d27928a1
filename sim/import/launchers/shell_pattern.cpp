#include "sim/import/launchers/shell_pattern.hpp"

#include <algorithm>
#include <cstdint>

#include "sim/base/words.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;

/// The usual loop with one place to return to: the last '*'.
bool matches(Name text, Name pattern) {
  std::size_t at = 0, of = 0, star = Name::npos, resume = 0;
  while (at < text.size()) {
    if (of < pattern.size() && pattern[of] == '*') {
      star = of++;
      resume = at;
    } else if (of < pattern.size() && (pattern[of] == '?' || pattern[of] == text[at])) {
      ++at;
      ++of;
    } else if (star != Name::npos) {
      of = star + 1;
      at = ++resume;
    } else {
      return false;
    }
  }
  return pattern.substr(of).find_first_not_of('*') == Name::npos;
}

bool is_plain(Name pattern) { return pattern.find_first_of("[]\\(){}") == Name::npos; }

/// All pairs of places are tried.
bool is_short(const std::string& text) {
  constexpr std::size_t kMaxText = 128;
  return text.size() <= kMaxText;
}

/// ${NAME#p} and ${NAME%p}; a doubled mark takes the longest match.
std::string without_end(const std::string& text, char mark, bool longest, Name pattern) {
  const std::size_t size = text.size();
  for (std::size_t each = 0; each <= size; ++each) {
    const std::size_t taken = longest ? size - each : each;
    const bool begin = mark == '#';
    const Name part = begin ? Name(text).substr(0, taken) : Name(text).substr(size - taken);
    if (matches(part, pattern)) return begin ? text.substr(taken) : text.substr(0, size - taken);
  }
  return text;
}

/// The size of the longest match that begins at `at`; npos: none.
std::size_t longest_match(Name text, std::size_t at, Name pattern) {
  for (std::size_t size = text.size() - at + 1; size-- > 0;)
    if (matches(text.substr(at, size), pattern)) return size;
  return Name::npos;
}

std::string replaced(const std::string& text, Name pattern, Name by, bool all, char anchor) {
  std::string result;
  for (std::size_t at = 0; at <= text.size();) {
    const bool may_match = anchor != '#' || at == 0;
    std::size_t size = may_match ? longest_match(text, at, pattern) : Name::npos;
    if (anchor == '%' && size != Name::npos && at + size != text.size()) size = Name::npos;
    const bool found = size != Name::npos && (size > 0 || anchor != '\0');
    if (found) result += by;
    if (found && (!all || size == 0)) return result + text.substr(at + size);
    if (found)
      at += size;
    else if (at < text.size())
      result += text[at++];
    else
      break;
  }
  return result;
}

std::optional<std::string> substituted(const std::string& text, Name rest) {
  const bool all = rest.starts_with('/');
  const char anchor = rest.starts_with('#') || rest.starts_with('%') ? rest[0] : '\0';
  if (all || anchor != '\0') rest.remove_prefix(1);
  const std::size_t end = std::min(rest.find('/'), rest.size());
  const Name pattern = rest.substr(0, end), by = rest.substr(std::min(end + 1, rest.size()));
  if (!is_plain(pattern) || by.find_first_of("\\&") != Name::npos) return std::nullopt;
  return pattern.empty() && anchor == '\0' ? text : replaced(text, pattern, by, all, anchor);
}

/// ":2", ":2:3", ": -1". Negative numbers count from the end.
std::optional<std::string> slice(const std::string& text, Name rest) {
  const std::size_t colon = std::min(rest.find(':'), rest.size());
  const bool sized = colon < rest.size();
  const auto offset = parse_number<std::int64_t>(trim(rest.substr(0, colon)));
  const auto length = sized ? parse_number<std::int64_t>(trim(rest.substr(colon + 1))) : std::nullopt;
  if (!offset || (sized && !length)) return std::nullopt;
  const auto size = static_cast<std::int64_t>(text.size());
  if (*offset < -size || *offset > size) return "";
  const std::int64_t begin = *offset < 0 ? size + *offset : *offset;
  const std::int64_t wanted = length.value_or(size);
  const std::int64_t end =
      wanted < 0 ? std::max(size + std::max(wanted, -size), begin) : begin + std::min(wanted, size - begin);
  return text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

}  // namespace

std::optional<std::string> part_of(const std::string& text, Name rest) {
  if (rest.empty()) return text;
  const char mark = rest[0];
  rest.remove_prefix(1);
  if (mark == ':') return slice(text, rest);
  if (!is_short(text)) return std::nullopt;
  if (mark == '/') return substituted(text, rest);
  if (mark != '#' && mark != '%') return std::nullopt;
  const bool longest = rest.starts_with(mark);
  if (longest) rest.remove_prefix(1);
  return is_plain(rest) ? std::optional(without_end(text, mark, longest, rest)) : std::nullopt;
}

std::optional<bool> matches_pattern(Name text, Name pattern) {
  return is_plain(pattern) ? std::optional(matches(text, pattern)) : std::nullopt;
}

}  // namespace tracecast
