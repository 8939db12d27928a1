/// \file
/// Quantities with their units: bytes, durations, bandwidths, floating-point operations.
///
/// Durations are integer picoseconds (int64 spans 106 days), so that equal is equal and sums do not depend on
/// their order. Costs are computed in double and rounded once, by `from_seconds`, on entering a step graph.
/// Sizes are bytes (KiB = 1024), rates bytes per second (GB/s = 10^9), one direction.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace tracecast {

struct Bytes {
  std::int64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
};

/// A span of time, or a point of time counted from the start of the step.
struct Duration {
  std::int64_t picoseconds = 0;
  auto operator<=>(const Duration&) const = default;
};

/// Bytes per second in one direction.
struct Bandwidth {
  std::int64_t bytes_per_second = 0;
  auto operator<=>(const Bandwidth&) const = default;
};

/// Floating-point operations. A double, since a step of a large model has more than 2^63; counts below 2^53 are exact.
struct Flops {
  double count = 0;
  auto operator<=>(const Flops&) const = default;
};

constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
constexpr Bytes operator*(Bytes a, std::int64_t k) { return {a.count * k}; }
constexpr Bytes operator*(std::int64_t k, Bytes a) { return a * k; }
/// Rounds up: a share of a buffer is never smaller than its part.
constexpr Bytes operator/(Bytes a, std::int64_t k) { return {(a.count + k - 1) / k}; }
constexpr Bytes& operator+=(Bytes& a, Bytes b) { return a = a + b; }
constexpr Bytes& operator-=(Bytes& a, Bytes b) { return a = a - b; }

constexpr Duration operator+(Duration a, Duration b) { return {a.picoseconds + b.picoseconds}; }
constexpr Duration operator-(Duration a, Duration b) { return {a.picoseconds - b.picoseconds}; }
constexpr Duration operator*(Duration a, std::int64_t k) { return {a.picoseconds * k}; }
constexpr Duration operator*(std::int64_t k, Duration a) { return a * k; }
constexpr Duration& operator+=(Duration& a, Duration b) { return a = a + b; }
constexpr Duration& operator-=(Duration& a, Duration b) { return a = a - b; }

constexpr Flops operator+(Flops a, Flops b) { return {a.count + b.count}; }
constexpr Flops operator*(Flops a, double k) { return {a.count * k}; }
constexpr Flops operator*(double k, Flops a) { return a * k; }
constexpr Flops& operator+=(Flops& a, Flops b) { return a = a + b; }

inline constexpr double kSecondsPerHour = 3600;
inline constexpr double kSecondsPerDay = 24 * kSecondsPerHour;
inline constexpr double kSecondsPerYear = 365.25 * kSecondsPerDay;
inline constexpr Duration kLongestDuration{std::numeric_limits<std::int64_t>::max()};

/// Rounds to the nearest picosecond, halves away from zero; kLongestDuration if it is longer.
inline Duration from_seconds(double seconds) {
  const double picoseconds = seconds * 1e12;
  return picoseconds < static_cast<double>(kLongestDuration.picoseconds) ? Duration{std::llround(picoseconds)}
                                                                         : kLongestDuration;
}
constexpr double seconds(Duration d) { return static_cast<double>(d.picoseconds) * 1e-12; }
constexpr double microseconds(Duration d) { return static_cast<double>(d.picoseconds) * 1e-6; }

/// Time to move `size` at `rate` (which is not zero), rounded to the nearest picosecond.
inline Duration operator/(Bytes size, Bandwidth rate) {
  return from_seconds(static_cast<double>(size.count) / static_cast<double>(rate.bytes_per_second));
}

constexpr double gib(Bytes b) { return static_cast<double>(b.count) / (1024.0 * 1024.0 * 1024.0); }

namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return {static_cast<std::int64_t>(n)}; }
constexpr Bytes operator""_KiB(unsigned long long n) { return {static_cast<std::int64_t>(n) << 10}; }
constexpr Bytes operator""_MiB(unsigned long long n) { return {static_cast<std::int64_t>(n) << 20}; }
constexpr Bytes operator""_GiB(unsigned long long n) { return {static_cast<std::int64_t>(n) << 30}; }
constexpr Duration operator""_ps(unsigned long long n) { return {static_cast<std::int64_t>(n)}; }
constexpr Duration operator""_ns(unsigned long long n) { return {static_cast<std::int64_t>(n) * 1'000}; }
constexpr Duration operator""_us(unsigned long long n) { return {static_cast<std::int64_t>(n) * 1'000'000}; }
constexpr Duration operator""_ms(unsigned long long n) { return {static_cast<std::int64_t>(n) * 1'000'000'000}; }
constexpr Duration operator""_s(unsigned long long n) { return {static_cast<std::int64_t>(n) * 1'000'000'000'000}; }
constexpr Bandwidth operator""_GBps(unsigned long long n) { return {static_cast<std::int64_t>(n) * 1'000'000'000}; }
constexpr Bandwidth operator""_Gbps(unsigned long long n) { return {static_cast<std::int64_t>(n) * 125'000'000}; }
}  // namespace literals

}  // namespace tracecast
