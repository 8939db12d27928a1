/// Tells a deadlock as the circle of streams that wait for each other.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast::engine {

/// A stream that cannot go on.
struct Wait {
  std::string where;             ///< "rank 3, pp send, forward chunk 0 of micro-batch 4"
  std::string what;              ///< "waits for rank 2 to receive it"
  std::vector<std::int32_t> on;  ///< indices into the list of waits: those whose progress it needs
};

/// The first circle found from the first wait on; when there is none (a partner that has already finished), the first
/// wait alone. Requires at least one wait.
Error describe_deadlock(const std::vector<Wait>& waits);

}  // namespace tracecast::engine
