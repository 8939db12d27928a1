/// \file
/// Tables of keys. Every struct that a file describes has one in sim/io/keys: a row per key with its member, its allowed values
/// and one line of documentation. Reader, writer, JSON Schema (docs/schema) and key tables (docs/formats) follow from it.
///
///     KEYS_OF(Measured)
///     {"step_time_s", &T::step_time_s, {.minimum = 0, .above = true}, "seconds of a step"},
///     END_KEYS
///
/// A member is a pointer to member, or a function from the struct to a reference. A new type of value needs read_value, node_of
/// and type_of beside it.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {

/// The values that a key may have; for lists and maps, those of their items.
struct Allowed {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above = false;              ///< the minimum itself is not allowed
  bool below = false;              ///< the maximum itself is not allowed
  bool later = false;              ///< not checked by the reader but where more is known (make_plan)
  const char* error = nullptr;     ///< for a number that is not allowed; nullptr: "is out of range (allowed: …)"
  std::string words = {};          ///< for strings and enums, separated by blanks; empty: all
  const char* schema = nullptr;    ///< members of its JSON Schema, if they do not follow from the type
  bool required = false;           ///< absence is an error; always written
  bool always = false;             ///< written even if it is the default
  bool computed = false;           ///< computed if it is absent: no default is documented
  const char* old_name = nullptr;  ///< of earlier versions, still read
};

inline Allowed required(Allowed allowed) {
  allowed.required = true;
  return allowed;
}

template <class T>
struct Field {
  template <class Member>
  Field(const char* name, Member member, Allowed values, const char* documentation);
  template <class Member>
  Field(const char* name, Member member, const char* documentation) : Field(name, member, Allowed{}, documentation) {}

  const char* key;
  Allowed allowed;
  const char* meaning;
  std::function<void(ObjectReader&, const Field&, T&)> read;
  std::function<JsonNode(const T&)> write;
  std::string (*type)(const Allowed&);  ///< members of its JSON Schema
};

template <class T>
using FieldTable = std::vector<Field<T>>;

/// The rows of a struct: each struct with a table specialises it.
template <class T>
FieldTable<T> rows_of();
template <class T>
const FieldTable<T>& fields_of() {
  static const FieldTable<T> kTable = rows_of<T>();
  return kTable;
}

// clang-format off
#define KEYS_OF(Struct) template <> FieldTable<Struct> rows_of() { using T [[maybe_unused]] = Struct; return {
#define END_KEYS }; }
// clang-format on

/// A row as documentation shows it.
struct FieldText {
  std::string key;
  std::string type;   ///< members of its JSON Schema
  std::string usual;  ///< default, as JSON; empty: none that could be written
  std::string meaning;
  bool required = false;
};
template <class T>
std::vector<FieldText> texts_of();

/// A table with the name that docs/formats has for it.
struct KeyTable {
  std::string name;
  std::vector<FieldText> rows;
};
/// The tables of each format, that of a file's root first.
std::vector<KeyTable> scenario_keys();
std::vector<KeyTable> model_keys();
std::vector<KeyTable> topology_keys();
std::vector<KeyTable> profile_keys();
std::vector<KeyTable> stack_keys();
std::vector<KeyTable> failure_keys();
std::vector<KeyTable> economics_keys();
std::vector<KeyTable> step_keys();

/// Members of the JSON Schema of an object.
std::string object_type(const std::vector<FieldText>& fields);
/// The JSON Schema of a file.
std::string json_schema(const std::string& title, const std::vector<FieldText>& fields);
/// A table in Markdown.
std::string key_table(const std::vector<FieldText>& fields);

/// Objects a member per line, lists on one.
std::string to_json(const JsonNode& node, std::size_t depth = 0);

/// Objects and lists a member per line.
std::string indented_json(const JsonNode& node, int indent = 2);

/// The member of a member.
template <class Outer, class Inner>
auto in(Outer outer, Inner inner) {
  return [=](auto& object) -> auto& { return (object.*outer).*inner; };
}

/// A member that the code around the table reads and writes. T: what the documentation shows.
template <class T>
struct ByHand {};
template <class T>
inline constexpr auto kByHand = [](const auto&) { return ByHand<T>{}; };

/// True, false, or a count, which means true.
template <class Flag, class Count>
struct FlagOrCount {
  Flag& flag;
  Count& count;
};
template <class Flag, class Count>
FlagOrCount(Flag&, Count&) -> FlagOrCount<Flag, Count>;  // clang 16 deduces no aggregates itself

/// Each reads the value of a key that is present, and returns true if it is good; else it reports the error.
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, int& value);
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, std::int64_t& value);
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, double& value);
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, std::string& value);
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, Bandwidth& value);
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, FlagOrCount<bool, int> value);
template <class V>
bool read_value(ObjectReader&, const char*, const Allowed&, ByHand<V>) {
  return true;
}

JsonNode node_of(bool value);
JsonNode node_of(std::int64_t value);
inline JsonNode node_of(int value) { return node_of(std::int64_t{value}); }
JsonNode node_of(double value);
JsonNode node_of(const std::string& value);
JsonNode node_of(Bytes value);
JsonNode node_of(Bandwidth value);  ///< like a Duration, "" if 0, which files leave out
JsonNode node_of(Duration value);
JsonNode node_of(FlagOrCount<const bool, const int> value);
template <class V>
JsonNode node_of(ByHand<V>) {
  return {};
}

std::string type_of(const bool*, const Allowed& allowed);
std::string type_of(const int*, const Allowed& allowed);
std::string type_of(const std::int64_t*, const Allowed& allowed);
std::string type_of(const double*, const Allowed& allowed);
std::string type_of(const std::string*, const Allowed& allowed);
std::string type_of(const Bytes*, const Allowed& allowed);
std::string type_of(const Bandwidth*, const Allowed& allowed);
std::string type_of(const Duration*, const Allowed& allowed);
std::string type_of(const FlagOrCount<bool, int>*, const Allowed& allowed);

/// Reads the keys of `object`. Errors: malformed values, and absent ones if the object must be complete. ObjectReader::finish
/// reports unknown keys.
template <class T>
void read_fields(ObjectReader& reader, T& object, bool complete = true) {
  for (const Field<T>& field : fields_of<T>())
    if (field.allowed.old_name != nullptr) reader.accept_old_name(field.allowed.old_name, field.key);
  for (const Field<T>& field : fields_of<T>()) {
    if (reader.get_node(field.key) != nullptr)
      field.read(reader, field, object);
    else if (field.allowed.required && complete)
      reader.error(field.key, "is missing");
  }
}

/// An object of the keys that differ from the defaults, or of all.
template <class T>
JsonNode write_fields(const T& object, bool all = false) {
  const T defaults{};
  JsonNode node;
  node.kind = JsonNode::Kind::object;
  for (const Field<T>& field : fields_of<T>()) {
    JsonNode value = field.write(object);
    const bool kept = all || field.allowed.required || field.allowed.always || !(value == field.write(defaults));
    if (kept && value.kind != JsonNode::Kind::null) node.members.push_back({field.key, std::move(value)});
  }
  return node;
}

/// The names of an enum's values that a key allows.
template <class E>
std::vector<std::pair<std::string, E>> names_of(const Allowed& allowed) {
  std::vector<std::pair<std::string, E>> names = named_values<E>();
  const auto is_allowed = [&](const auto& name) {
    return (" " + allowed.words + " ").find(" " + name.first + " ") != std::string::npos;
  };
  if (!allowed.words.empty()) std::erase_if(names, [&](const auto& name) { return !is_allowed(name); });
  return names;
}

/// Enums by name, what ObjectReader itself reads, and objects with a table.
template <class V>
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, V& value) {
  if constexpr (std::is_enum_v<V>) {
    return reader.get(key, value, names_of<V>(allowed));
  } else if constexpr (requires { reader.get(key, value); }) {
    return reader.get(key, value);
  } else {
    std::optional<ObjectReader> object = reader.get_object(key);
    if (!object) return false;
    read_fields(*object, value);
    object->finish();
    return true;
  }
}
template <class V>
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, std::optional<V>& value) {
  V read{};
  if (!read_value(reader, key, allowed, read)) return false;
  value = std::move(read);
  return true;
}

template <class V>
bool read_value(ObjectReader& reader, const char* key, const Allowed&, std::vector<V>& values) {
  if constexpr (requires { reader.get(key, values); }) {
    return reader.get(key, values);
  } else {
    for (ObjectReader& item : reader.get_objects(key)) {
      read_fields(item, values.emplace_back());
      item.finish();
    }
    return true;
  }
}
template <class V>
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, std::map<std::string, V>& values) {
  std::optional<ObjectReader> object = reader.get_object(key);
  if (!object) return false;
  for (const JsonMember& member : reader.get_node(key)->members)
    if (V value{}; read_value(*object, member.key.c_str(), allowed, value)) values[member.key] = std::move(value);
  return true;
}
/// Values by the names of an enum.
template <class E, class V>
  requires std::is_enum_v<E>
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, std::map<E, V>& values) {
  std::optional<ObjectReader> object = reader.get_object(key);
  if (!object) return false;
  for (const NamedValue<E>& each : EnumNames<E>::table)
    if (V value{}; object->get_node(each.name) != nullptr && read_value(*object, each.name, allowed, value))
      values[each.value] = std::move(value);
  object->finish();
  return true;
}

template <class V>
JsonNode node_of(const V& value) {
  if constexpr (std::is_enum_v<V>)
    return node_of(std::string(to_string(value)));
  else
    return write_fields(value);
}
template <class V>
JsonNode node_of(const std::optional<V>& value) {
  return value ? node_of(*value) : JsonNode{};
}
template <class V>
JsonNode node_of(const std::vector<V>& values) {
  JsonNode node;
  node.kind = JsonNode::Kind::array;
  for (const V& value : values) node.items.push_back(node_of(value));
  return node;
}

template <class K, class V>
JsonNode node_of(const std::map<K, V>& values) {
  JsonNode node;
  node.kind = JsonNode::Kind::object;
  for (const auto& [key, value] : values) {
    if constexpr (std::is_enum_v<K>)
      node.members.push_back({to_string(key), node_of(value)});
    else
      node.members.push_back({key, node_of(value)});
  }
  return node;
}

template <class V>
std::string type_of(const V*, const Allowed& allowed) {
  if constexpr (std::is_enum_v<V>)
    return type_of(static_cast<const std::string*>(nullptr),
                   {.words = allowed.words.empty() ? all_names<V>() : allowed.words});
  else
    return object_type(texts_of<V>());
}
template <class V>
std::string type_of(const std::vector<V>*, const Allowed& allowed) {
  return R"("type": "array", "items": { )" + type_of(static_cast<const V*>(nullptr), allowed) + " }";
}
template <class V>
std::string type_of(const std::map<std::string, V>*, const Allowed& allowed) {
  return R"("type": "object", "additionalProperties": { )" + type_of(static_cast<const V*>(nullptr), allowed) + " }";
}

template <class E, class V>
  requires std::is_enum_v<E>
std::string type_of(const std::map<E, V>*, const Allowed& allowed) {
  std::vector<FieldText> texts;
  const std::string type = type_of(static_cast<const V*>(nullptr), allowed);
  for (const NamedValue<E>& each : EnumNames<E>::table) texts.push_back({each.name, type, "", "", false});
  return object_type(texts);
}
template <class V>
std::string type_of(const std::optional<V>*, const Allowed& allowed) {
  return type_of(static_cast<const V*>(nullptr), allowed);
}
template <class V>
std::string type_of(const ByHand<V>*, const Allowed& allowed) {
  return type_of(static_cast<const V*>(nullptr), allowed);
}

template <class T>
template <class Member>
Field<T>::Field(const char* name, Member member, Allowed values, const char* documentation)
    : key(name),
      allowed(std::move(values)),
      meaning(documentation),
      read([member](ObjectReader& reader, const Field& field, T& object) {
        auto&& value = std::invoke(member, object);
        read_value(reader, field.key, field.allowed, value);
      }),
      write([member](const T& object) { return node_of(std::invoke(member, object)); }),
      type([](const Allowed& a) {
        using Value = std::remove_cvref_t<std::invoke_result_t<Member, T&>>;
        return a.schema != nullptr ? a.schema : type_of(static_cast<const Value*>(nullptr), a);
      }) {}

template <class T>
std::vector<FieldText> texts_of() {
  std::vector<FieldText> texts;
  for (const Field<T>& field : fields_of<T>()) {
    const JsonNode usual = field.write(T{});
    const bool is_number = usual.kind == JsonNode::Kind::integer || usual.kind == JsonNode::Kind::number;
    const bool none = field.allowed.required || field.allowed.computed || usual.kind == JsonNode::Kind::null ||
                      (usual.string.empty() && usual.kind == JsonNode::Kind::string) ||
                      (usual.items.empty() && usual.kind >= JsonNode::Kind::array) ||
                      (is_number && !(usual.number >= field.allowed.minimum && usual.number <= field.allowed.maximum));
    const std::string text = usual.kind == JsonNode::Kind::number ? usual.string : to_json(usual);
    texts.push_back({field.key, field.type(field.allowed), none ? "" : text, field.meaning, field.allowed.required});
  }
  return texts;
}

}  // namespace tracecast
