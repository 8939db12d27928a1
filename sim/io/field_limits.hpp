/// \file
/// Vocabulary of the tables of keys (scenario_fields.hpp, model_fields.hpp).
///
/// A visitor is called with (key, field, limits): limits are a Range for integers, a table of names for enumerations and
/// nothing for booleans, numbers, strings and lists. What may be true, false or a count has two fields: (key, flag,
/// count, Range).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tracecast {

template <class T>
using Names = std::vector<std::pair<std::string, T>>;

/// Inclusive.
struct Range {
  std::int64_t minimum = 0;
  std::int64_t maximum = 0;
};

}  // namespace tracecast
