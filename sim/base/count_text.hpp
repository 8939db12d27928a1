/// \file
/// Counts as people write them: "70B" parameters, "15.6T" tokens, "4k" tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tracecast {

/// A positive number with one of k, K, M, B, T (powers of 1000), which must be an integer of at most 9e18. Empty if the
/// text is anything else, a number without a letter included.
std::optional<std::int64_t> parse_count(std::string_view text);

}  // namespace tracecast
