#include "tools/option_checks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/count_text.hpp"
#include "sim/base/result.hpp"
#include "sim/base/words.hpp"

namespace tracecast::cli {
namespace {

bool starts_with_number(const std::string& text) {
  const std::size_t letters = text.find_first_not_of("+-.0123456789");
  return letters != std::string::npos && letters > 0 && parse_number<double>(text.substr(0, letters));
}

/// A number that is `accepted`. `allowed` says which numbers are.
CLI::Validator number(const std::string& allowed, const std::function<bool(double)>& accepted) {
  const auto check = [=](const std::string& text) {
    double value = 0;
    if (!CLI::detail::lexical_cast(text, value))
      return std::string(starts_with_number(text) ? "needs a number without a unit" : "not a number");
    return accepted(value) ? "" : fmt::format("is out of range (allowed: {})", allowed);
  };
  return {check, allowed};
}

/// `check` of a number that may be written as a count.
CLI::Validator or_count(const CLI::Validator& check) {
  const auto transform = [check](std::string& text) {
    if (const std::optional<std::int64_t> count = parse_count(text))
      text = std::to_string(*count);
    else if (double value = 0; !CLI::detail::lexical_cast(text, value))
      return std::string("not a number");
    return check(text);
  };
  return {transform, check.get_description()};
}

}  // namespace

CLI::Validator one_of(const std::vector<std::string>& allowed) {
  const auto check = [=](const std::string& text) {
    if (std::ranges::find(allowed, text) != allowed.end()) return std::string();
    const std::string nearest = nearest_match(text, allowed);
    return fmt::format("is unknown ({}allowed: {})", nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest),
                       fmt::join(allowed, " "));
  };
  return {check, fmt::format("{{{}}}", fmt::join(allowed, ","))};
}

CLI::Validator in_range(double low, double high) {
  return number(fmt::format("{:.10g} to {:.10g}", low, high),
                [=](double value) { return value >= low && value <= high; });
}

CLI::Validator count_up_to(double most) { return or_count(in_range(1, most)); }

CLI::Validator count_or_above_zero() { return or_count(above_zero()); }

CLI::Validator at_least_zero() {
  return number("at least 0", [](double value) { return value >= 0 && std::isfinite(value); });
}

CLI::Validator above_zero() {
  return number("above 0", [](double value) { return value > 0 && std::isfinite(value); });
}

void add_scenario(CLI::App& app, std::string& name) {
  app.add_option("SCENARIO", name, "a scenario file, or the name of one that is shipped")->required();
}

CLI::Option* add_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& text) {
  return app.add_option("--set", overrides, text)->type_name("KEY=VALUE")->allow_extra_args(false);
}

CLI::Option* add_html(CLI::App& app, std::string& file) {
  return app.add_option("--html", file, "also write a page for a browser there: one file, no network needed")
      ->type_name("FILE");
}

void add_threads(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "threads; same result for any number")->check(in_range(1, 1024));
}

}  // namespace tracecast::cli
