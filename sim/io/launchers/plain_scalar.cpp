#include "sim/io/launchers/plain_scalar.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace tracecast {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

template <class T>
bool parse_whole(std::string_view text, T& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc{} && end == text.data() + text.size();
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
  if (is_one_of(text, {"true", "True", "TRUE"}) || (yaml_words && is_one_of(text, {"yes", "Yes", "on", "On"}))) {
    node.kind = JsonNode::Kind::boolean;
    node.boolean = true;
  } else if (is_one_of(text, {"false", "False", "FALSE"}) ||
             (yaml_words && is_one_of(text, {"no", "No", "off", "Off"}))) {
    node.kind = JsonNode::Kind::boolean;
  } else if (is_one_of(text, {"null", "None"}) || (yaml_words && is_one_of(text, {"", "~", "Null", "NULL"}))) {
    node.kind = JsonNode::Kind::null;
  } else if (parse_whole(digits, node.integer)) {
    node.kind = JsonNode::Kind::integer;
    node.number = static_cast<double>(node.integer);
  } else if (parse_whole(digits, node.number) && std::isfinite(node.number)) {
    node.kind = JsonNode::Kind::number;
  } else {
    node.kind = JsonNode::Kind::string;
    node.number = 0;
  }
  return node;
}

}  // namespace tracecast
