/// \file
/// Files of one folder that are replaced together: an error, such as a full disk, leaves the folder as it was.
#pragma once

#include <filesystem>
#include <list>
#include <string>
#include <string_view>

#include "sim/base/result.hpp"
#include "sim/io/atomic_file.hpp"

namespace tracecast {

class OutputFolder {
 public:
  /// Creates the folder and its parents.
  explicit OutputFolder(std::filesystem::path folder);
  ~OutputFolder();  ///< without commit() what was written is removed, and a folder that was created for it
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// A file to be written in pieces. The reference lives as long as the folder.
  AtomicFile& file(const std::string& name);
  /// A whole file. Errors are those of commit().
  void write(const std::string& name, std::string_view content);

  /// True if one of its files replaces `target`.
  bool replaces(const std::filesystem::path& target) const;
  /// Writes what is buffered. Errors: the path is not a folder and cannot be created; a file could not be written.
  Result<void> finish();
  /// Renames the files to their names, finished or not. Errors: as of finish().
  Result<void> commit();

 private:
  std::filesystem::path folder_;
  std::filesystem::path created_;  ///< the topmost folder that the constructor created; empty: none
  std::list<AtomicFile> files_;
};

}  // namespace tracecast
