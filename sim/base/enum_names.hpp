/// \file
/// The names that users type for the values of an enum: one table per enum, written beside the enum.
///
///     enum class Routing { even, ecmp };
///     template <>
///     struct EnumNames<Routing> {
///       static constexpr NamedValue<Routing> table[] = {{Routing::even, "even"}, {Routing::ecmp, "ecmp"}};
///     };
///
/// Readers, writers, `--help` and error messages all use this table. Names are unique; each value is in the table once.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast {

template <class E>
struct NamedValue {
  E value;
  const char* name;
};

/// Specialised for each enum with names: `table` lists its values in the order in which messages show them.
template <class E>
struct EnumNames;

/// Requires a value that is in the table.
template <class E>
  requires requires { EnumNames<E>::table; }
constexpr const char* to_string(E value) {
  for (const NamedValue<E>& each : EnumNames<E>::table)
    if (each.value == value) return each.name;
  TRACECAST_ASSERT(false, "every value of an enum has a name");
  return "";
}

/// The value with this name; nullopt: there is none.
template <class E>
constexpr std::optional<E> parse_enum(std::string_view name) {
  for (const NamedValue<E>& each : EnumNames<E>::table)
    if (name == each.name) return each.value;
  return std::nullopt;
}

/// All names and their values, in the table's order, for readers and option parsers.
template <class E>
std::vector<std::pair<std::string, E>> named_values() {
  std::vector<std::pair<std::string, E>> values;
  for (const NamedValue<E>& each : EnumNames<E>::table) values.emplace_back(each.name, each.value);
  return values;
}

/// "even ecmp": the allowed values, for messages.
template <class E>
std::string all_names(const char* separator = " ") {
  std::string names;
  for (const NamedValue<E>& each : EnumNames<E>::table) names.append(names.empty() ? "" : separator).append(each.name);
  return names;
}

}  // namespace tracecast
