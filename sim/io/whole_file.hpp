/// \file
/// A file that is seen whole or not at all: written beside its place under another name, renamed at the end. A link
/// stays: what it points to is replaced. What is no file (/dev/stdout, /dev/null, a pipe) is written to as it is.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

#include "sim/base/result.hpp"

namespace tracecast {

class WholeFile {
 public:
  explicit WholeFile(std::filesystem::path path);
  ~WholeFile();  ///< without commit() nothing is left behind
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  /// False when it could not be written (now or before); commit() says why.
  bool write(std::string_view piece);
  /// Puts the file in its place. Errors: the folder does not exist or may not be written, the disk is full.
  Result<void> commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path target_;   ///< path_ behind its links
  std::filesystem::path partial_;  ///< what is written; target_ itself when that is no file
  std::ofstream stream_;
  bool opened_ = false;
  bool committed_ = false;
};

}  // namespace tracecast
