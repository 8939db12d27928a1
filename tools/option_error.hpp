/// \file
/// Errors of options that several commands use.
#pragma once

#include <filesystem>
#include <string>

#include "sim/base/result.hpp"

namespace tracecast::cli {

/// The error of an option's value: "option = value: message".
tl::unexpected<Error> fail_key(std::string option, std::string value, std::string message);

/// Creates the folder of --out and its parents. Errors: the path is not a folder, or it cannot be created.
Result<void> make_folder(const std::filesystem::path& folder);

}  // namespace tracecast::cli
