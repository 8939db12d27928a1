#include "sim/base/count_text.hpp"

#include <charconv>
#include <cmath>

namespace tracecast {

std::optional<std::int64_t> parse_count(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end + 1 != text.data() + text.size()) return std::nullopt;
  const double factor = *end == 'k' || *end == 'K' ? 1e3
                        : *end == 'M'              ? 1e6
                        : *end == 'B'              ? 1e9
                        : *end == 'T'              ? 1e12
                                                   : 0;
  const double value = number * factor;
  const double rounded = std::round(value);
  if (!(value >= 1 && value <= 9e18) || std::abs(value - rounded) > 1e-9 * value) return std::nullopt;
  return static_cast<std::int64_t>(rounded);
}

}  // namespace tracecast
