/// \file
/// Atomic file replacement: writes a temporary file in the same folder and renames it at the end. Symlinks are
/// followed. Non-regular files (/dev/stdout, /dev/null, a pipe) are written directly.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

#include "sim/base/result.hpp"

namespace tracecast {

class WholeFile {
 public:
  explicit WholeFile(std::filesystem::path path);
  ~WholeFile();  ///< without commit() the temporary file is removed
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  /// False if this write or an earlier one failed; commit() returns the error.
  bool write(std::string_view piece);
  /// Renames the file to its final path. Errors: the folder does not exist or is not writable, the disk is full.
  Result<void> commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path target_;   ///< path_ after following symlinks
  std::filesystem::path partial_;  ///< the file being written; target_ itself when that is not a regular file
  std::ofstream stream_;
  bool opened_ = false;
  bool committed_ = false;
};

}  // namespace tracecast
