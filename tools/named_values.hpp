/// \file
/// Values of an enumeration by the names that to_string gives them, for options that take one of them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tracecast::cli {

/// From the first to `last`.
template <class T>
std::map<std::string, T> values_by_name(T last) {
  std::map<std::string, T> values;
  for (int i = 0; i <= static_cast<int>(last); ++i) values.emplace(to_string(static_cast<T>(i)), static_cast<T>(i));
  return values;
}

/// What CLI::IsMember allows.
template <class T>
std::vector<std::string> names_of(const std::map<std::string, T>& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

}  // namespace tracecast::cli
