/// \file
/// A new folder in the system's temporary folder that only this user can enter, gone at the end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace tracecast::cli {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "tracecast-XXXXXX").string()) {
    good_ = mkdtemp(path_.data()) != nullptr;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (good_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// False: it could not be made.
  bool good() const { return good_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool good_ = false;
};

}  // namespace tracecast::cli
