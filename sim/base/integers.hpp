/// \file
/// Whole-number arithmetic.   Divisions require a >= 0 and b >= 1, and a + b within their type.
#pragma once

#include <concepts>
#include <cstdint>

namespace tracecast {

/// a / b, rounded up: how many pieces of at most b make up a.
constexpr auto ceil_div(std::integral auto a, std::integral auto b) { return (a + b - 1) / b; }

/// The least multiple of b that is not below a.
constexpr auto round_up(std::integral auto a, std::integral auto b) { return ceil_div(a, b) * b; }

/// Adds `more` to `sum`. False: it is negative or the sum does not fit; `sum` stays as it is.
constexpr bool add_count(std::int64_t& sum, std::int64_t more) {
  if (more < 0 || more > INT64_MAX - sum) return false;
  sum += more;
  return true;
}

/// For products of rates, weights and picoseconds.
__extension__ using Wide = unsigned __int128;

constexpr Wide wide(std::int64_t a) { return static_cast<Wide>(a); }

}  // namespace tracecast
