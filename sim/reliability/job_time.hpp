/// \file
/// Time of a job that runs for months: integer nanoseconds (int64 spans 292 years).
///
/// The engine's picoseconds span 106 days, too few for a job or for the mean time between failures of one part. A step
/// time is rounded to this tick once; every sum after that is exact.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

#include "sim/base/units.hpp"

namespace tracecast {

struct JobTime {
  std::int64_t nanoseconds = 0;
  auto operator<=>(const JobTime&) const = default;
};

inline constexpr JobTime kNever{std::numeric_limits<std::int64_t>::max()};

/// Sums and products of times that are at least 0 end at kNever, never beyond it.
constexpr JobTime operator+(JobTime a, JobTime b) {
  JobTime sum;
  return __builtin_add_overflow(a.nanoseconds, b.nanoseconds, &sum.nanoseconds) ? kNever : sum;
}
constexpr JobTime operator-(JobTime a, JobTime b) { return {a.nanoseconds - b.nanoseconds}; }
constexpr JobTime operator*(JobTime a, std::int64_t k) {
  JobTime product;
  return __builtin_mul_overflow(a.nanoseconds, k, &product.nanoseconds) ? kNever : product;
}
constexpr JobTime operator*(std::int64_t k, JobTime a) { return a * k; }
constexpr JobTime& operator+=(JobTime& a, JobTime b) { return a = a + b; }
constexpr JobTime& operator-=(JobTime& a, JobTime b) { return a = a - b; }

constexpr double seconds(JobTime t) { return static_cast<double>(t.nanoseconds) * 1e-9; }

/// Rounds to the nearest tick. kNever beyond 292 years.
inline JobTime job_time(double seconds) { return seconds < 9.2e9 ? JobTime{std::llround(seconds * 1e9)} : kNever; }
/// Rounds to the nearest tick, halves away from zero.
constexpr JobTime job_time(Duration d) { return {(d.picoseconds + (d.picoseconds < 0 ? -500 : 500)) / 1000}; }

}  // namespace tracecast
