#include "sim/import/launchers/plain_scalar.hpp"

#include <algorithm>
#include <string_view>

#include "sim/base/words.hpp"

namespace tracecast {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// Digits may be grouped by '_', as Python and TOML have it.
std::string without_underscores(const std::string& text) {
  std::string plain = text;
  if (!text.empty() && text.front() != '_') std::erase(plain, '_');
  return plain;
}

}  // namespace

JsonNode plain_scalar(const std::string& text, int line, bool yaml_words) {
  JsonNode node;
  node.line = line;
  node.string = text;
  const std::string digits = without_underscores(text);
  if (is_one_of(text, {"true", "True", "TRUE"}) ||
      (yaml_words && is_one_of(text, {"yes", "Yes", "YES", "on", "On", "ON"}))) {
    node.kind = JsonNode::Kind::boolean;
    node.boolean = true;
  } else if (is_one_of(text, {"false", "False", "FALSE"}) ||
             (yaml_words && is_one_of(text, {"no", "No", "NO", "off", "Off", "OFF"}))) {
    node.kind = JsonNode::Kind::boolean;
  } else if (is_one_of(text, {"null", "None"}) || (yaml_words && is_one_of(text, {"", "~", "Null", "NULL"}))) {
    node.kind = JsonNode::Kind::null;
  } else if (const auto integer = parse_number<std::int64_t>(digits)) {
    node.kind = JsonNode::Kind::integer;
    node.integer = *integer;
    node.number = static_cast<double>(*integer);
  } else if (const auto number = parse_number<double>(digits)) {
    node.kind = JsonNode::Kind::number;
    node.number = *number;
  } else {
    node.kind = JsonNode::Kind::string;
  }
  return node;
}

}  // namespace tracecast
