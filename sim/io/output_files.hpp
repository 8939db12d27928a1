/// \file
/// All files that one command writes, replaced together: an error with one of them, such as a folder that does not exist or a
/// full disk, leaves all as they were. Only a rename that fails after others, which the operating system hardly ever does, does not.
#pragma once

#include <filesystem>
#include <list>
#include <optional>
#include <string_view>

#include "sim/base/result.hpp"
#include "sim/io/atomic_file.hpp"
#include "sim/io/output_folder.hpp"

namespace tracecast {

class OutputFiles {
 public:
  /// The folder of some of the files, at most one; before single files, which may be in it.
  OutputFolder& folder(const std::filesystem::path& path) { return folder_.emplace(path); }
  /// A whole file. Errors are those of commit().   Requires another name for each
  void write(const std::filesystem::path& path, std::string_view content);

  /// Renames all files to their names. Errors: those of OutputFolder and AtomicFile.
  Result<void> commit();

 private:
  std::optional<OutputFolder> folder_;  ///< outlives the files, which may be in it
  std::list<AtomicFile> files_;
};

}  // namespace tracecast
