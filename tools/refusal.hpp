/// \file
/// Sentences about options that several commands need.
#pragma once

#include <filesystem>
#include <string>

#include "sim/base/result.hpp"

namespace tracecast::cli {

/// `option`'s `value` is not taken: "option = value: message".
tl::unexpected<Error> wrong(std::string option, std::string value, std::string message);

/// Makes the folder of --out, with those above it. Errors: something else is there, or it cannot be made.
Result<void> make_folder(const std::filesystem::path& folder);

}  // namespace tracecast::cli
