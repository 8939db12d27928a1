/// A folder of a test's own, gone when the test ends.
#pragma once

#include <filesystem>
#include <string>

#include <stdlib.h>

#include "sim/base/result.hpp"

namespace tracecast {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tracecast-test-XXXXXX").string();
    TRACECAST_ASSERT(::mkdtemp(name.data()) != nullptr, "a temporary folder can be made");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tracecast
