#include "sim/io/fields.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/base/words.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

/// A bound as an integer; infinite ones are those of the type.
template <class T>
T integer(double bound) {
  using Limits = std::numeric_limits<T>;
  return std::isinf(bound) ? (bound < 0 ? Limits::min() : Limits::max()) : static_cast<T>(bound);
}

std::string range_text(const Allowed& a) {
  if (std::isinf(a.maximum)) return fmt::format("{} {}", a.above ? "above" : "at least", a.minimum);
  if (!a.above && !a.below) return fmt::format("{} to {}", a.minimum, a.maximum);
  return fmt::format("{} {}, {} {}", a.above ? "above" : "from", a.minimum, a.below ? "below" : "to", a.maximum);
}

std::string number_type(const char* type, const Allowed& a) {
  std::string text = fmt::format(R"("type": "{}")", type);
  if (!std::isinf(a.minimum))
    text += fmt::format(R"(, "{}": {:.16g})", a.above ? "exclusiveMinimum" : "minimum", a.minimum);
  if (!std::isinf(a.maximum))
    text += fmt::format(R"(, "{}": {:.16g})", a.below ? "exclusiveMaximum" : "maximum", a.maximum);
  return text;
}

/// True if the number is allowed; else reports it.
bool check(ObjectReader& reader, const char* key, const Allowed& a, double value) {
  const bool enough = a.above ? value > a.minimum : value >= a.minimum;
  const bool not_too_much = a.below ? value < a.maximum : value <= a.maximum;
  if (a.later || (enough && not_too_much)) return true;
  reader.error(key, a.error != nullptr ? a.error : fmt::format("is out of range (allowed: {})", range_text(a)));
  return false;
}

/// ObjectReader's own message for an integer out of range, unless the key has one.
template <class T>
bool read_integer(ObjectReader& reader, const char* key, const Allowed& allowed, T& value) {
  if (allowed.error != nullptr || allowed.later)
    return reader.get(key, value) && check(reader, key, allowed, static_cast<double>(value));
  return reader.get(key, value, integer<T>(allowed.minimum), integer<T>(allowed.maximum));
}

Json json_of(const JsonNode& node) {
  switch (node.kind) {
    case JsonNode::Kind::boolean:
      return node.boolean;
    case JsonNode::Kind::integer:
      return node.integer;
    case JsonNode::Kind::number:
      return node.number;
    case JsonNode::Kind::string:
      return node.string;
    case JsonNode::Kind::array: {
      Json items = Json::array();
      for (const JsonNode& item : node.items) items.push_back(json_of(item));
      return items;
    }
    case JsonNode::Kind::object: {
      Json object = Json::object();
      for (const auto& [key, member] : node.members) object[key] = json_of(member);
      return object;
    }
    default:
      return nullptr;
  }
}

/// Objects with `properties` a member per line, all else on one line.
std::string schema_layout(const Json& value, const std::string& indent, bool open) {
  if (!value.is_structured()) return value.dump();
  open = open || (value.is_object() && (value.contains("properties")));
  std::string text;
  for (const auto& [key, member] : value.items()) {
    text += text.empty() ? "" : ",";
    text += open ? "\n" + indent + "  " : text.empty() && !value.is_object() ? "" : " ";
    if (value.is_object()) text += Json(key).dump() + ": ";
    text += schema_layout(member, open ? indent + "  " : indent, open && key == "properties");
  }
  if (value.is_array()) return "[" + text + "]";
  return "{" + text + (open ? "\n" + indent : " ") + "}";
}

/// Replaces each object type that was already described by a reference to its first description.
void refer_to_first(Json& value, const std::string& path, std::map<std::string, std::string>& seen) {
  if (value.is_object() && value.contains("properties") && !path.empty()) {
    Json same = value;
    same.erase("description");
    if (const auto [found, added] = seen.emplace(same.dump(), path); !added) {
      const Json meaning = value.value("description", Json());
      value = {{"$ref", "#" + found->second}};
      if (!meaning.is_null()) value["description"] = meaning;
      return;
    }
  }
  if (!value.is_structured()) return;
  for (const auto& [key, member] : value.items()) refer_to_first(member, path + "/" + key, seen);
}

/// The allowed values as a reader of the documentation sees them.
std::string values_text(const Json& type, const char* plural = "") {
  if (type.contains("enum"))
    return fmt::format("`{}`", fmt::join(type["enum"].get<std::vector<std::string>>(), "`, `"));
  if (type.contains("items")) return "list of " + values_text(type["items"], "s");
  if (type.contains("additionalProperties") && type["additionalProperties"].is_object())
    return "object of " + values_text(type["additionalProperties"], "s");
  if (type.contains("examples")) return fmt::format("as `{}`", type["examples"][0].dump());
  if (type.contains("oneOf")) {
    std::string text;
    for (const Json& each : type["oneOf"])
      if (const std::string values = values_text(each); text.find(values) == std::string::npos)
        text += (text.empty() ? "" : " or ") + values;
    return text;
  }
  Allowed a;
  a.above = type.contains("exclusiveMinimum");
  a.below = type.contains("exclusiveMaximum");
  a.minimum = type.value(a.above ? "exclusiveMinimum" : "minimum", a.minimum);
  a.maximum = type.value(a.below ? "exclusiveMaximum" : "maximum", a.maximum);
  const std::string name = type.value("type", "") + plural;
  return std::isinf(a.minimum) ? name : name + ", " + range_text(a);
}

/// A string with a unit. `units`: alternatives of a regular expression.
std::string quantity_type(const char* units, const char* example) {
  return fmt::format(R"("type": "string", "pattern": "^[0-9.]+(e[-+]?[0-9]+)? ?({})$", "examples": ["{}"])", units,
                     example);
}

}  // namespace

bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, int& value) {
  return read_integer(reader, key, allowed, value);
}
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, std::int64_t& value) {
  return read_integer(reader, key, allowed, value);
}
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, double& value) {
  return reader.get(key, value) && check(reader, key, allowed, value);
}
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, Bandwidth& value) {
  return reader.get(key, value) && check(reader, key, allowed, static_cast<double>(value.bytes_per_second));
}
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, std::string& value) {
  if (allowed.words.empty() || allowed.later) return reader.get(key, value);
  std::vector<std::pair<std::string, std::string>> words;
  for (const std::string_view word : split_words(allowed.words)) words.emplace_back(word, word);
  return reader.get(key, value, words);
}

bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, FlagOrCount<bool, int> value) {
  const JsonNode& node = *reader.get_node(key);
  if (node.kind == JsonNode::Kind::boolean) {
    value.flag = node.boolean;
    return true;
  }
  if (node.kind == JsonNode::Kind::integer) return value.flag = read_value(reader, key, allowed, value.count);
  reader.error(key, "must be true, false or a count");
  return false;
}

JsonNode node_of(bool value) {
  JsonNode node;
  node.kind = JsonNode::Kind::boolean;
  node.boolean = value;
  return node;
}
JsonNode node_of(std::int64_t value) {
  JsonNode node;
  node.kind = JsonNode::Kind::integer;
  node.integer = value;
  node.number = static_cast<double>(value);
  return node;
}
JsonNode node_of(double value) {
  JsonNode node;
  node.kind = JsonNode::Kind::number;
  node.number = value;
  node.string = fmt::format("{}", value);
  return node;
}
JsonNode node_of(const std::string& value) {
  JsonNode node;
  node.kind = JsonNode::Kind::string;
  node.string = value;
  return node;
}
/// The count in the largest unit that leaves an integer.
template <std::size_t kCount>
JsonNode quantity(std::int64_t count, const std::pair<std::int64_t, const char*> (&units)[kCount]) {
  if (count == 0) return node_of(std::string());
  const auto* unit = std::find_if(units, units + kCount - 1, [count](const auto& u) { return count % u.first == 0; });
  return node_of(fmt::format("{} {}", count / unit->first, unit->second));
}
JsonNode node_of(Bytes value) { return node_of(fmt::format("{} B", value.count)); }
JsonNode node_of(Bandwidth value) {
  return quantity(value.bytes_per_second, {{1'000'000'000, "GB/s"}, {1'000'000, "MB/s"}, {1, "B/s"}});
}
JsonNode node_of(Duration value) {
  return quantity(value.picoseconds,
                  {{1'000'000'000'000, "s"}, {1'000'000'000, "ms"}, {1'000'000, "us"}, {1'000, "ns"}, {1, "ps"}});
}
JsonNode node_of(FlagOrCount<const bool, const int> value) {
  return value.flag && value.count != 0 ? node_of(value.count) : node_of(value.flag);
}

std::string type_of(const bool*, const Allowed&) { return R"("type": "boolean")"; }
std::string type_of(const int*, const Allowed& allowed) { return number_type("integer", allowed); }
std::string type_of(const std::int64_t*, const Allowed& allowed) { return number_type("integer", allowed); }
std::string type_of(const double*, const Allowed& allowed) { return number_type("number", allowed); }
std::string type_of(const std::string*, const Allowed& allowed) {
  return allowed.words.empty() ? R"("type": "string")" : R"("enum": )" + Json(split_words(allowed.words)).dump();
}
std::string type_of(const Bytes*, const Allowed&) { return quantity_type("[kMGT]?B|[KMGT]iB", "64 MiB"); }
std::string type_of(const Bandwidth*, const Allowed&) {
  return quantity_type("[kMGT]?B/s|[MGT]iB/s|[kMGT]?b/s", "400 Gb/s");
}
std::string type_of(const Duration*, const Allowed&) { return quantity_type("ps|ns|us|ms|s|min|h|d", "1.5 us"); }
std::string type_of(const FlagOrCount<bool, int>*, const Allowed& allowed) {
  return fmt::format(R"("oneOf": [{{ "type": "boolean" }}, {{ {} }}])", number_type("integer", allowed));
}

std::string object_type(const std::vector<FieldText>& fields) {
  std::string required, properties;
  for (const FieldText& field : fields) {
    if (field.required) required += (required.empty() ? "" : ", ") + Json(field.key).dump();
    properties += (properties.empty() ? "" : ", ") + Json(field.key).dump() + ": { " + field.type;
    if (!field.usual.empty()) properties += (field.type.empty() ? "" : ", ") + (R"("default": )" + field.usual);
    if (!field.meaning.empty()) properties += R"(, "description": )" + Json(field.meaning).dump();
    properties += " }";
  }
  if (!required.empty()) required = R"("required": [)" + required + "], ";
  return R"("type": "object", "additionalProperties": false, )" + required + R"("properties": { )" + properties + " }";
}

std::string json_schema(const std::string& title, const std::vector<FieldText>& fields) {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  schema.update(Json::parse("{ " + object_type(fields) + " }"));
  std::map<std::string, std::string> seen;
  refer_to_first(schema, "", seen);
  return schema_layout(schema, "", false) + "\n";
}

std::string key_table(const std::vector<FieldText>& fields) {
  std::string text = "| key | values | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const FieldText& field : fields)
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.key, values_text(Json::parse("{" + field.type + "}")),
                        field.required        ? "required"
                        : field.usual.empty() ? ""
                                              : "`" + field.usual + "`",
                        field.meaning);
  return text;
}

std::string indented_json(const JsonNode& node, int indent) {
  return json_of(node).dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const JsonNode& node, std::size_t depth) {
  if (node.kind != JsonNode::Kind::object || node.members.empty())
    return node.kind == JsonNode::Kind::object ? "{}" : json_of(node).dump();
  const std::string indent(2 * depth, ' ');
  std::string text;
  for (const auto& [key, member] : node.members) {
    text += text.empty() ? "{\n" : ",\n";
    text += indent + "  " + Json(key).dump() + ": " + to_json(member, depth + 1);
  }
  return text + "\n" + indent + "}";
}

}  // namespace tracecast
