#include "sim/import/launchers/shell_condition.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/import/launchers/shell_pattern.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;
using Number = std::optional<std::int64_t>;
using Words = std::span<const ShellWord>;

constexpr std::int64_t kMaxNumber = 1'000'000'000'000'000;

/// The expression inside $(( )): + - * / %, brackets, whole numbers and variables. No value: other words, an unknown variable, a
/// division by zero, more than 10^15, a number to another base (010). A recursive descent.
class Arithmetic {
 public:
  Arithmetic(Name text, const ShellLookup& lookup) : text_(text), lookup_(&lookup) {}

  Number value() {
    const Number result = sum(0);
    return at() == '\0' ? result : std::nullopt;
  }

 private:
  char at() {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \t"), text_.size()));
    return text_.empty() ? '\0' : text_[0];
  }

  static Number bounded(double exact, std::int64_t value) {
    return exact >= -1.0 * kMaxNumber && exact <= 1.0 * kMaxNumber ? Number(value) : std::nullopt;
  }

  static Number applied(char sign, Number left, Number right) {
    if (!left || !right) return std::nullopt;
    const std::int64_t a = *left, b = *right;
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    if (sign == '+') return bounded(x + y, a + b);
    if (sign == '-') return bounded(x - y, a - b);
    if (sign == '*') return x * y <= kMaxNumber && x * y >= -1.0 * kMaxNumber ? Number(a * b) : std::nullopt;
    if (b == 0) return std::nullopt;
    return sign == '/' ? a / b : a % b;
  }

  Number sum(int depth) {
    Number result = product(depth);
    while (at() == '+' || at() == '-') {
      const char sign = text_[0];
      text_.remove_prefix(1);
      result = applied(sign, result, product(depth));
    }
    return result;
  }

  Number product(int depth) {
    Number result = factor(depth);
    while (at() == '*' || at() == '/' || at() == '%') {
      const char sign = text_[0];
      text_.remove_prefix(1);
      result = applied(sign, result, factor(depth));
    }
    return result;
  }

  Number factor(int depth) {
    constexpr int kMaxDepth = 50;
    if (depth > kMaxDepth) return std::nullopt;
    if (at() == '(' || at() == '-') {
      const bool bracket = text_[0] == '(';
      text_.remove_prefix(1);
      const Number inner = bracket ? sum(depth + 1) : factor(depth + 1);
      if (!bracket) return applied('-', 0, inner);
      if (at() != ')') return std::nullopt;
      text_.remove_prefix(1);
      return inner;
    }
    if (const Expansion expansion = expansion_at(text_); expansion.size > 0)
      return operand(expansion.size, expansion.rest.empty() ? expansion.name : Name());
    const std::size_t length = name_length(text_);
    return operand(length, text_.substr(0, length));
  }

  /// A number or the name of a variable, `size` characters as written.
  Number operand(std::size_t size, Name name) {
    text_.remove_prefix(size);
    if (name.empty()) return std::nullopt;
    const bool digits = name.find_first_not_of("0123456789") == Name::npos;
    const std::optional<std::string> text = digits ? std::string(name) : lookup_->text(name);
    const bool octal = text && text->size() > 1 && text->front() == '0';
    const Number value = text && !octal ? parse_number<std::int64_t>(*text) : std::nullopt;
    return value ? bounded(static_cast<double>(*value), *value) : std::nullopt;
  }

  Name text_;
  const ShellLookup* lookup_;
};

/// Both are known, or one of them decides.
std::optional<bool> joined(Name by, std::optional<bool> left, std::optional<bool> right) {
  const bool decides = by == "||";
  if (left == decides || right == decides) return decides;
  return left && right ? std::optional(!decides) : std::nullopt;
}

bool is_pattern(Name text) { return text.find_first_of("*?[") != Name::npos; }

std::optional<bool> compared(const std::string& left, Name by, const std::string& right) {
  if (by == "=" || by == "==") return left == right;
  if (by == "!=") return left != right;
  const Number a = parse_number<std::int64_t>(left), b = parse_number<std::int64_t>(right);
  if (!a || !b) return std::nullopt;
  const std::array<std::pair<Name, bool>, 6> results{
      {{"-eq", *a == *b}, {"-ne", *a != *b}, {"-lt", *a < *b}, {"-le", *a <= *b}, {"-gt", *a > *b}, {"-ge", *a >= *b}}};
  const auto* const found = std::ranges::find(results, by, &std::pair<Name, bool>::first);
  return found == results.end() ? std::nullopt : std::optional(found->second);
}

/// Nothing but the expansion of a variable that is not set.
bool is_unset(Name text, const ShellLookup& lookup) {
  const Expansion expansion = expansion_at(text);
  const bool plain = expansion.size == text.size() && !expansion.name.empty() && expansion.rest.empty();
  return plain && lookup.is_unset && lookup.is_unset(expansion.name);
}

/// "llama*" behind [[ … ==. Of quotes it is not known which part they are around.
std::optional<bool> matched(const std::string& left, Name by, const ShellWord& pattern) {
  const bool plain = !pattern.quoted && pattern.text.find_first_of("$`") == Name::npos;
  if (!plain || (by != "=" && by != "==" && by != "!=")) return std::nullopt;
  const std::optional<bool> matches = matches_pattern(left, pattern.text);
  return matches ? std::optional(*matches == (by != "!=")) : std::nullopt;
}

/// What stands between the brackets of a test. `patterns`: [[ has them; in [ they are names of files.
std::optional<bool> inside_test(Words words, const ShellLookup& lookup, bool patterns) {
  if (words.size() > 1 && words[0].text == "!") {
    const std::optional<bool> value = inside_test(words.subspan(1), lookup, patterns);
    return value ? std::optional(!*value) : std::nullopt;
  }
  if (words.size() != 2 && words.size() != 3) return std::nullopt;
  std::optional<std::string> last = known_text(words.back().text, lookup);
  if (!last && words.size() == 2 && is_unset(words.back().text, lookup)) last = "";
  if (!last) return std::nullopt;
  if (words.size() == 2)
    return words[0].text == "-z" || words[0].text == "-n" ? std::optional(last->empty() == (words[0].text == "-z"))
                                                          : std::nullopt;
  const std::optional<std::string> first = known_text(words[0].text, lookup);
  if (!first) return std::nullopt;
  if (is_pattern(words[2].text)) return patterns ? matched(*first, words[1].text, words[2]) : std::nullopt;
  if (!words[2].quoted && is_pattern(*last)) return std::nullopt;
  return compared(*first, words[1].text, *last);
}

std::optional<bool> one_test(Words words, const ShellLookup& lookup) {
  if (!words.empty() && words[0].text == "!") {
    const std::optional<bool> value = one_test(words.subspan(1), lookup);
    return value ? std::optional(!*value) : std::nullopt;
  }
  constexpr std::array<std::pair<Name, Name>, 3> kTests{{{"[", "]"}, {"[[", "]]"}, {"test", ""}}};
  for (const auto& [begins, ends] : kTests) {
    if (words.empty() || words.front().text != begins) continue;
    if (ends.empty()) return inside_test(words.subspan(1), lookup, false);
    if (words.back().text == ends) return inside_test(words.subspan(1, words.size() - 2), lookup, begins == "[[");
  }
  return std::nullopt;
}

/// ${NAME%%-*} and the like, where what stands behind the name has known texts.
std::optional<std::string> known_part(const std::optional<std::string>& text, Name rest, const ShellLookup& lookup) {
  const std::optional<std::string> plain = text ? known_text(rest, lookup) : std::nullopt;
  return plain ? part_of(*text, *plain) : std::nullopt;
}

/// $NAME, ${NAME:-8} and ${NAME:=8}, of which a colon replaces an empty text, too, and parts of a text.
std::optional<std::string> known_variable(const Expansion& expansion, const ShellLookup& lookup) {
  std::optional<std::string> text = lookup.text(expansion.name);
  if (expansion.rest.empty()) return text;
  const bool colon = expansion.rest.starts_with(':');
  const Name rest = expansion.rest.substr(colon ? 1 : 0);
  if (rest.starts_with('+') || rest.starts_with('?')) return std::nullopt;
  if (!rest.starts_with('-') && !rest.starts_with('=')) return known_part(text, expansion.rest, lookup);
  if (text && !(colon && text->empty())) return text;
  if (!text && !(lookup.is_unset && lookup.is_unset(expansion.name))) return std::nullopt;
  return known_text(rest.substr(1), lookup);
}

}  // namespace

std::optional<std::string> known_text(Name text, const ShellLookup& lookup) {
  std::string result;
  while (!text.empty() && result.size() < kMaxShellValue) {
    if (text[0] != '$' && text[0] != '`') {
      result += text[0];
      text.remove_prefix(1);
      continue;
    }
    const Expansion expansion = expansion_at(text);
    constexpr Name kBegin = "$((", kEnd = "))";
    const Name all = text.substr(0, expansion.size);
    std::optional<std::string> value;
    if (all.starts_with(kBegin) && all.ends_with(kEnd)) {
      const Number number =
          Arithmetic(all.substr(kBegin.size(), all.size() - kBegin.size() - kEnd.size()), lookup).value();
      if (number) value = std::to_string(*number);
    } else if (!expansion.name.empty()) {
      value = known_variable(expansion, lookup);
    }
    if (!value) return std::nullopt;
    result += *value;
    text.remove_prefix(expansion.size);
  }
  return result;
}

std::optional<bool> known_condition(Words words, const ShellLookup& lookup) {
  std::vector<ShellWord> plain;
  std::ranges::copy_if(words, std::back_inserter(plain), [](const ShellWord& each) { return !each.ends_line; });
  std::optional<bool> value;
  Name by = "||";
  bool first = true;
  for (std::size_t begin = 0; begin <= plain.size();) {
    std::size_t end = begin;
    while (end < plain.size() && plain[end].text != "&&" && plain[end].text != "||") ++end;
    const std::optional<bool> test = one_test(Words(plain).subspan(begin, end - begin), lookup);
    value = std::exchange(first, false) ? test : joined(by, value, test);
    by = end < plain.size() ? Name(plain[end].text) : Name();
    begin = end + 1;
  }
  return value;
}

std::optional<bool> known_match(const std::optional<std::string>& subject, Name patterns, const ShellLookup& lookup) {
  std::optional<bool> matches = false;
  if (!subject) return std::nullopt;
  for (const Name pattern : split_words(patterns, "|()")) {
    const std::optional<std::string> text = known_text(pattern, lookup);
    const bool open = !text || (is_pattern(*text) && *text != "*");
    matches = joined("||", matches, open ? std::nullopt : std::optional(*text == "*" || *text == *subject));
  }
  return matches;
}

}  // namespace tracecast
