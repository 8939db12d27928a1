#include "sim/plan/plan_check.hpp"

#include <fmt/format.h>

namespace tracecast {

std::string divisors(std::int64_t number) {
  constexpr int kShown = 40;
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    low.push_back(d);
    if (d * d != number) high.push_back(number / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  std::string text;
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (i == kShown) return text + " …";
    text += fmt::format("{}{}", i == 0 ? "" : " ", low[i]);
  }
  return text;
}

void PlanCheck::fault(std::string key, std::string value, std::string message) {
  error_.diagnostics.push_back({"", 0, std::move(key), std::move(value), std::move(message)});
}

bool PlanCheck::at_least(const std::string& key, std::int64_t value, std::int64_t minimum) {
  if (value >= minimum) return true;
  fault(key, fmt::to_string(value), fmt::format("must be at least {}", minimum));
  return false;
}

bool PlanCheck::at_most(const std::string& key, std::int64_t value, std::int64_t maximum) {
  if (value <= maximum) return true;
  fault(key, fmt::to_string(value), fmt::format("must be at most {}", maximum));
  return false;
}

bool PlanCheck::divides(const std::string& key, std::int64_t value, const std::string& name, std::int64_t whole) {
  if (whole % value == 0) return true;
  fault(key, fmt::to_string(value), fmt::format("does not divide {} = {} (allowed: {})", name, whole, divisors(whole)));
  return false;
}

void PlanCheck::append(const Error& error) {
  error_.diagnostics.insert(error_.diagnostics.end(), error.diagnostics.begin(), error.diagnostics.end());
}

}  // namespace tracecast
