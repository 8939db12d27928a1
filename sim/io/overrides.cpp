#include "sim/io/overrides.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/words.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {

JsonNode& member_of(JsonNode& object, const std::string& key) {
  const auto found = std::find_if(object.members.begin(), object.members.end(),
                                  [&key](const auto& candidate) { return candidate.key == key; });
  if (found != object.members.end()) return found->value;
  JsonNode empty;
  empty.kind = JsonNode::Kind::object;
  empty.line = kOverrideLine;
  object.members.push_back({key, std::move(empty)});
  return object.members.back().value;
}

namespace {

void mark_overridden(JsonNode& node) {
  node.line = kOverrideLine;
  for (JsonNode& item : node.items) mark_overridden(item);
  for (auto& member : node.members) mark_overridden(member.value);
}

JsonNode value_of(const std::string& text) {
  Result<JsonDocument> parsed = parse_json(text, "--set");
  JsonNode node = parsed ? std::move(parsed->root) : node_of(text);
  mark_overridden(node);
  return node;
}

Diagnostic error_at(std::string key, std::string value, std::string message) {
  return {"--set", 0, std::move(key), std::move(value), std::move(message)};
}

std::string name_of(const JsonNode& item) {
  const JsonNode* name = item.find("name");
  return name != nullptr && name->kind == JsonNode::Kind::string ? name->string : "";
}

/// The item of a list by its index, or by its member "name".
JsonNode* item_of(JsonNode& list, const std::string& part) {
  if (const std::optional<std::size_t> index = parse_number<std::size_t>(part))
    return *index < list.items.size() ? &list.items[*index] : nullptr;
  const auto found = std::ranges::find(list.items, part, name_of);
  return found == list.items.end() ? nullptr : &*found;
}

/// "0 leaf", "1 spine": what item_of takes.
std::string items_of(const JsonNode& list) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const std::string name = name_of(list.items[i]);
    names.push_back(name.empty() ? fmt::to_string(i) : fmt::format("{} or {}", i, name));
  }
  return names.empty() ? "none, it is empty" : fmt::format("{}", fmt::join(names, ", "));
}

/// Empty when the override was applied.
std::optional<Diagnostic> apply(JsonNode& root, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return error_at(shortened(text), "", "is not key=value (for example parallel.tp=8)");
  const std::string key = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  JsonNode* node = &root;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('.', begin), key.size());
    if (end == begin) return error_at(shortened(key), shortened(value), "has an empty part in its key");
    const std::string part = key.substr(begin, end - begin);
    begin = end + 1;
    if (node->kind == JsonNode::Kind::array) {
      JsonNode* item = item_of(*node, part);
      if (item == nullptr)
        return error_at(shortened(key), shortened(value),
                        fmt::format("'{}' is not an item of the list (allowed: {})", shortened(part), items_of(*node)));
      node = item;
      continue;
    }
    if (node->kind != JsonNode::Kind::object)
      return error_at(shortened(key), shortened(value),
                      fmt::format("{} = {} is not an object", key.substr(0, begin - part.size() - 2), node->text()));
    node = &member_of(*node, part);
  }
  *node = value_of(value);
  return std::nullopt;
}

}  // namespace

void apply_overrides(JsonNode& root, const std::vector<std::string>& overrides, std::vector<Diagnostic>& errors) {
  if (root.kind != JsonNode::Kind::object) return;  // the reader of the document reports this
  for (const std::string& text : overrides)
    if (std::optional<Diagnostic> error = apply(root, text)) errors.push_back(std::move(*error));
}

}  // namespace tracecast
