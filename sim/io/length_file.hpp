/// \file
/// Lengths of documents: a number of tokens per line, or a length and how often it occurs, with blanks, a tab or a comma between
/// them. Empty lines and lines that begin with # are passed over.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "sim/base/result.hpp"

namespace tracecast {

/// [tokens] how often, as Documents::histogram.
/// Errors: those of read_packed; a line that is not that, with its number; no length in the file.
Result<std::map<std::string, double>> read_length_histogram(const std::filesystem::path& path);
Result<std::map<std::string, double>> parse_length_histogram(std::string_view text, const std::string& file);

}  // namespace tracecast
