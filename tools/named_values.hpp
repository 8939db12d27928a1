/// \file
/// Enum values by name (sim/base/enum_names.hpp), for command line options.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/enum_names.hpp"

namespace tracecast::cli {

template <class T>
std::map<std::string, T> values_by_name() {
  const std::vector<std::pair<std::string, T>> values = named_values<T>();
  return {values.begin(), values.end()};
}

/// The names, for one_of (option_checks.hpp).
template <class T>
std::vector<std::string> names_of(const std::map<std::string, T>& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

}  // namespace tracecast::cli
