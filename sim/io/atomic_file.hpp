/// \file
/// Atomic file replacement: writes a temporary file in the same folder and renames it at the end. Symlinks are followed, the
/// permissions of an existing file are kept, and one without permission to write is not replaced. Non-regular files
/// (/dev/stdout, /dev/null, a pipe) are written directly.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "sim/base/result.hpp"

namespace tracecast {

class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();  ///< without commit() the temporary file is removed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// False if this write or an earlier one failed; commit() returns the error.
  bool write(std::string_view piece);
  /// The temporary file, for a writer that opens files itself and then calls commit().
  const std::filesystem::path& partial() const { return partial_; }
  /// What it replaces: its path after following symlinks.
  const std::filesystem::path& target() const { return target_; }
  /// Writes what is buffered and closes the file. Errors: the folder does not exist or is not writable, the disk is full.
  Result<void> finish();
  /// Renames the file to its final path, finished or not. Errors: as of finish().
  Result<void> commit();

 private:
  tl::unexpected<Error> error(std::string message) const;

  std::filesystem::path path_;
  std::filesystem::path target_;   ///< path_ after following symlinks
  std::filesystem::path partial_;  ///< the file being written; target_ itself when that is not a regular file
  std::ofstream stream_;
  bool opened_ = false;
  bool committed_ = false;
};

}  // namespace tracecast
