/// \file
/// Describes a deadlock as the cycle of streams that wait for each other.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast::engine {

/// A blocked stream.
struct Wait {
  std::string where;             ///< "rank 3, pp send, forward chunk 0 of micro-batch 4"
  std::string what;              ///< "waits for rank 2 to receive it"
  std::vector<std::int32_t> on;  ///< indices into the list of waits: the streams that it depends on
};

/// Describes the shortest cycle through the first wait that is in one (a strongly connected component of the waits).
/// Without a cycle (the partner has finished), describes the last wait that the first one depends on.
/// Requires at least one wait
Error describe_cycle(const std::vector<Wait>& waits);

}  // namespace tracecast::engine
