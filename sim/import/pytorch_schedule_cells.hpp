/// \file
/// Where a cell of a schedule file stands, for its reader and its checks.
#pragma once

#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "sim/base/result.hpp"

namespace tracecast {

/// "file:4: rank 3, column 5 = 3B0: message". Ranks count from 0 as in the format, lines and columns from 1 as in editors.
inline Diagnostic cell_diagnostic(const std::string& file, std::size_t rank, std::size_t index, std::string text,
                                  std::string message) {
  return {.file = file,
          .line = static_cast<int>(rank) + 1,
          .key = fmt::format("rank {}, column {}", rank, index + 1),
          .value = std::move(text),
          .message = std::move(message)};
}

}  // namespace tracecast
