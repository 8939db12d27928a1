#include "sim/base/quantity_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "sim/base/words.hpp"

namespace tracecast {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr std::array<Unit, 9> kSizes{{{"B", 1},
                                      {"kB", 1e3},
                                      {"MB", 1e6},
                                      {"GB", 1e9},
                                      {"TB", 1e12},
                                      {"KiB", kKi},
                                      {"MiB", kKi* kKi},
                                      {"GiB", kKi* kKi* kKi},
                                      {"TiB", kKi* kKi* kKi* kKi}}};
constexpr std::array<Unit, 13> kRates{{{"B/s", 1},
                                       {"kB/s", 1e3},
                                       {"MB/s", 1e6},
                                       {"GB/s", 1e9},
                                       {"TB/s", 1e12},
                                       {"MiB/s", kKi* kKi},
                                       {"GiB/s", kKi* kKi* kKi},
                                       {"TiB/s", kKi* kKi* kKi* kKi},
                                       {"b/s", 1.0 / 8},
                                       {"kb/s", 1e3 / 8},
                                       {"Mb/s", 1e6 / 8},
                                       {"Gb/s", 1e9 / 8},
                                       {"Tb/s", 1e12 / 8}}};
constexpr std::array<Unit, 8> kTimes{
    {{"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}, {"min", 60e12}, {"h", 3600e12}, {"d", 86400e12}}};

/// Rates as ports of switches and NICs are named, "400G" and "400Gbps". The letters alone are bits, as there.
constexpr std::array<Unit, 12> kPortRates{{{"K", 1e3 / 8},
                                           {"M", 1e6 / 8},
                                           {"G", 1e9 / 8},
                                           {"T", 1e12 / 8},
                                           {"kbps", 1e3 / 8},
                                           {"Mbps", 1e6 / 8},
                                           {"Gbps", 1e9 / 8},
                                           {"Tbps", 1e12 / 8},
                                           {"kbit/s", 1e3 / 8},
                                           {"Mbit/s", 1e6 / 8},
                                           {"Gbit/s", 1e9 / 8},
                                           {"Tbit/s", 1e12 / 8}}};

std::string names(std::span<const Unit> units) {
  std::string text;
  for (const Unit& unit : units) text += (text.empty() ? "" : " ") + std::string(unit.name);
  return text;
}

/// The quantity in the base unit of the table, rounded to an integer. `also`: units that messages do not list.
Result<std::int64_t> parse(std::string_view text, std::span<const Unit> units, std::string_view example,
                           std::span<const Unit> also = {}) {
  const std::string_view trimmed = trim(text, " ");
  double number = 0;
  const auto [rest, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (error != std::errc{} || !std::isfinite(number))
    return fail(fmt::format("is not a number with a unit (for example \"{}\")", example));
  if (number < 0) return fail("is negative");
  const std::string_view unit_name =
      trim({rest, static_cast<std::size_t>(trimmed.data() + trimmed.size() - rest)}, " ");
  for (const std::span<const Unit> table : {units, also}) {
    for (const Unit& unit : table) {
      if (unit.name != unit_name) continue;
      const double value = number * unit.factor;
      if (!(value < 9.2e18)) return fail("is too large");
      return std::llround(value);
    }
  }
  if (unit_name.empty())
    return fail(fmt::format("has no unit (for example \"{}\"; allowed: {})", example, names(units)));
  return fail(fmt::format("has the unknown unit '{}' (allowed: {})", unit_name, names(units)));
}

/// Prints with the largest of `units` that leaves a number of at least 1, to three significant digits.
std::string print(double value, std::span<const Unit> units) {
  const Unit* best = &units.front();
  for (const Unit& unit : units)
    if (value >= unit.factor) best = &unit;
  const double scaled = value / best->factor;
  return fmt::format("{:.{}f} {}", scaled, scaled >= 100 || scaled == 0 ? 0 : scaled >= 10 ? 1 : 2, best->name);
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  return parse(text, kSizes, "80 GiB").map([](std::int64_t n) { return Bytes{n}; });
}
Result<Bandwidth> parse_bandwidth(std::string_view text) {
  return parse(text, kRates, "400 Gb/s", kPortRates).map([](std::int64_t n) { return Bandwidth{n}; });
}
Result<Duration> parse_duration(std::string_view text) {
  return parse(text, kTimes, "5 us").map([](std::int64_t n) { return Duration{n}; });
}

std::string to_text(Bytes size) {
  constexpr std::array<Unit, 5> kBinary{
      {{"B", 1}, {"KiB", kKi}, {"MiB", kKi * kKi}, {"GiB", kKi * kKi * kKi}, {"TiB", kKi * kKi * kKi * kKi}}};
  return print(static_cast<double>(size.count), kBinary);
}
std::string to_text(Bandwidth rate) {
  return print(static_cast<double>(rate.bytes_per_second), std::span(kRates).first<5>());
}
std::string to_text(Duration time) {
  if (time.picoseconds == 0) return "0 s";
  const std::string sign = time.picoseconds < 0 ? "-" : "";
  return sign + print(std::abs(static_cast<double>(time.picoseconds)), std::span(kTimes).first<5>());
}

}  // namespace tracecast
