/// \file
/// Options that are short for a --set of one key: `--spares 4` for `--set recovery.spares=4`.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast::cli {

struct ShortOption {
  std::string option;  ///< "--spares"
  std::string given;   ///< "4"
  std::string key;     ///< "recovery.spares"
  std::string value;   ///< as --set takes it
};

/// "recovery.spares" of "recovery.spares=4".
std::string key_of(const std::string& setting);

/// Error: --set has the key of one of them too, so that one of the two would be ignored.
Result<void> check_given_once(const std::vector<ShortOption>& options, const std::vector<std::string>& settings);

/// Errors of keys that an option stands for, with the option's name and its text.
Error named_by_option(Error error, const std::vector<ShortOption>& options);

}  // namespace tracecast::cli
