/// Runs the built `tracecast` as a user would: in a folder that looks like the source tree, through bash.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

/// A folder with links to the shipped data, `tools/tracecast`, and `tracecast` on the PATH; gone at the end.
class Sandbox {
 public:
  Sandbox() {
    const std::filesystem::path source = source_dir();
    for (const char* data : {"scenarios", "topologies", "kernels", "docs"}) {
      if (std::filesystem::exists(source / data))
        std::filesystem::create_directory_symlink(source / data, path() / data);
    }
    std::filesystem::create_directory(path() / "tools");
    std::filesystem::create_symlink(tracecast_binary(), path() / "tools" / "tracecast");
  }

  const std::filesystem::path& path() const { return folder_.path(); }

  /// Standard output is a file, so the program writes plain text.
  Outcome run(const std::string& script) const {
    std::ofstream(path() / ".script") << "set -euo pipefail\nexport PATH=\"$PWD/tools:$PATH\"\nunset TRACECAST_DATA\n"
                                      << script << "\n";
    const std::string command = "cd '" + path().string() + "' && bash .script >.out 2>.err </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(path() / ".out"), content_of(path() / ".err")};
  }

 private:
  TemporaryFolder folder_;
};

/// What a script prints, which succeeds, as JSON.
inline nlohmann::json json_of(const Sandbox& sandbox, const std::string& script) {
  const Outcome outcome = sandbox.run(script);
  INFO(script << ": " << outcome.err);
  REQUIRE(outcome.code == 0);
  return nlohmann::json::parse(outcome.out);
}

/// What a script says of its bad input, before it prints anything.
inline std::string complaint_of(const Sandbox& sandbox, const std::string& script) {
  const Outcome outcome = sandbox.run(script);
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  return outcome.err;
}

}  // namespace tracecast
