/// \file
/// Helpers that the checks of a plan share: a list of errors, and the values that are allowed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/result.hpp"

namespace tracecast {

/// "1 2 4 8": the divisors of `number`, all of them up to 40, else the 40 smallest and "…".
std::string divisors(std::int64_t number);

/// The errors found so far; keys as in a scenario file.
class PlanCheck {
 public:
  void fault(std::string key, std::string value, std::string message);
  /// False, and a fault, when value < minimum.
  bool at_least(const std::string& key, std::int64_t value, std::int64_t minimum);
  /// False, and a fault, when value > maximum.
  bool at_most(const std::string& key, std::int64_t value, std::int64_t maximum);
  /// False, and a fault that lists the divisors, when value does not divide `whole`, called `name`.
  bool divides(const std::string& key, std::int64_t value, const std::string& name, std::int64_t whole);
  /// A fault for each value that is not a name of the enum.
  template <class E>
  void names(const char* key, const std::vector<std::string>& values) {
    for (const std::string& value : values)
      if (!parse_enum<E>(value)) fault(key, value, "is unknown (allowed: " + all_names<E>() + ")");
  }
  void append(const Error& error);

  bool passed() const { return error_.diagnostics.empty(); }
  Error take() { return std::move(error_); }

 private:
  Error error_;
};

}  // namespace tracecast
