/// \file
/// The shipped files of one kind.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast {

/// All *.json below `folder`, sorted by path. Below the folder of scenarios those of other kinds are left out: models,
/// stacks, failure models and economics files have folders of their own there.
std::vector<std::filesystem::path> data_files(const std::filesystem::path& folder);

/// The names that contain each of the words, in their order; upper and lower case are the same.
std::vector<std::string> names_with(const std::string& words, const std::vector<std::string>& names);

/// The file below `folder` that has this name, without a suffix; never a path.   Errors: as of find_file(), which takes paths, too
Result<std::filesystem::path> find_named(const std::string& name, const std::filesystem::path& folder,
                                         std::string_view what);

}  // namespace tracecast
