/// \file
/// Options that several commands have, and checks of option values, for CLI::Option::check. A failed check says what is allowed; the
/// name and value of the option are added by run_command_line.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tracecast::cli {

/// One of these words.
CLI::Validator one_of(const std::vector<std::string>& allowed);

/// A number from low to high, both included.
CLI::Validator in_range(double low, double high);

/// At least 1, for CLI::Option::transform: the number may be written as a count, "70B" or "15T".
CLI::Validator count_up_to(double most);

/// Above 0, for CLI::Option::transform: the number may be written as a count, "1.5M".
CLI::Validator count_or_above_zero();

CLI::Validator at_least_zero();

CLI::Validator above_zero();

/// SCENARIO, which is required.
void add_scenario(CLI::App& app, std::string& name);
/// --set KEY=VALUE, any number of times.
CLI::Option* add_overrides(CLI::App& app, std::vector<std::string>& overrides, const std::string& text);
/// --html FILE
CLI::Option* add_html(CLI::App& app, std::string& file);
/// --threads
void add_threads(CLI::App& app, int& threads);

}  // namespace tracecast::cli
