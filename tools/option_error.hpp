/// \file
/// Errors of options that several commands use.
#pragma once

#include <string>

#include "sim/base/result.hpp"

namespace tracecast::cli {

/// The error of an option's value: "option = value: message".
tl::unexpected<Error> fail_key(std::string option, std::string value, std::string message);

}  // namespace tracecast::cli
