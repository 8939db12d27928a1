/// \file
/// The shipped files of one kind.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tracecast {

/// All *.json below `folder`, sorted by path. Below the folder of scenarios those of other kinds are left out: models,
/// stacks, failure models and economics files have folders of their own there.
std::vector<std::filesystem::path> data_files(const std::filesystem::path& folder);

/// The names that contain each of the words, in their order; upper and lower case are the same.
std::vector<std::string> names_with(const std::string& words, const std::vector<std::string>& names);

}  // namespace tracecast
