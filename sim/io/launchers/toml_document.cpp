#include "sim/io/launchers/toml_document.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 1
// toml++ 3.3 asserts what only a sound file fulfils (that a key starts like one) and then reports it as an error: with
// its assertions a damaged file would end the process. Under NDEBUG it may tell the compiler to rely on them instead.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

namespace tracecast {
namespace {

constexpr int kMaxDepth = 100;

/// False when it is nested too deeply.
bool convert(const toml::node& node, JsonNode& value, int depth) {
  value.line = static_cast<int>(node.source().begin.line);
  if (depth > kMaxDepth) return false;
  if (const toml::table* table = node.as_table()) {
    value.kind = JsonNode::Kind::object;
    for (const auto& [key, member] : *table) {
      value.members.push_back({std::string(key.str()), {}});
      if (!convert(member, value.members.back().value, depth + 1)) return false;
    }
  } else if (const toml::array* array = node.as_array()) {
    value.kind = JsonNode::Kind::array;
    for (const toml::node& item : *array) {
      value.items.emplace_back();
      if (!convert(item, value.items.back(), depth + 1)) return false;
    }
  } else if (const auto* text = node.as_string()) {
    value.kind = JsonNode::Kind::string;
    value.string = text->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = JsonNode::Kind::integer;
    value.integer = integer->get();
    value.number = static_cast<double>(value.integer);
  } else if (const auto* number = node.as_floating_point()) {
    value.kind = JsonNode::Kind::number;
    value.number = number->get();
    value.string = std::to_string(value.number);
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = JsonNode::Kind::boolean;
    value.boolean = boolean->get();
  } else {
    value.kind = JsonNode::Kind::string;
    std::ostringstream date;
    date << toml::node_view<const toml::node>(node);
    value.string = date.str();
  }
  return true;
}

/// Where a character from U+FB26 to U+FEFE begins: toml++ 3.3 takes its search for blanks among them to be over and runs into what it
/// calls unreachable (found by fuzzing).
std::size_t unreadable(std::string_view text) {
  for (std::size_t at = text.find('\xEF'); at != std::string_view::npos; at = text.find('\xEF', at + 1)) {
    if (text.size() - at < 3) break;
    const auto bits = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]) & 0x3FU; };
    const unsigned character = 0xF000U | bits(1) << 6 | bits(2);
    if (character >= 0xFB26 && character <= 0xFEFE) return at;
  }
  return std::string_view::npos;
}

}  // namespace

Result<JsonDocument> parse_toml(const std::string& text, const std::string& file) {
  if (const std::size_t at = unreadable(text); at != std::string_view::npos) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    return fail({file, static_cast<int>(line), "", "",
                 "has a character that cannot be read (allowed: none from U+FB26 to U+FEFE)"});
  }
  const toml::parse_result parsed = toml::parse(std::string_view(text), std::string_view(file));
  if (!parsed) {
    const toml::parse_error& wrong = parsed.error();
    return fail({file, static_cast<int>(wrong.source().begin.line), "", "",
                 "is not TOML: " + std::string(wrong.description())});
  }
  if (parsed.table().empty()) return fail({file, 0, "", "", "is empty"});
  JsonDocument document{file, {}};
  if (!convert(parsed.table(), document.root, 0))
    return fail({file, 0, "", "", "is nested too deeply (allowed: 100 levels)"});
  return document;
}

}  // namespace tracecast
