// Every command that README.md and docs/ print is run: the ```sh blocks. A block that cannot be (it installs, or takes
// minutes) says so in its first line: ```sh by-hand.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/e2e/shell.hpp"
#include "tests/support/paths.hpp"
#include "tools/commands.hpp"

using namespace tracecast;

namespace {

struct Block {
  std::string file;
  int line;
  std::string script;
};

std::vector<Block> blocks_of(const std::filesystem::path& path) {
  std::vector<Block> blocks;
  std::istringstream text(content_of(path));
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (!inside && line == "```sh") {
      blocks.push_back({path.string(), number, ""});
      inside = true;
    } else if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back().script += line + "\n";
    }
  }
  CHECK_FALSE(inside);
  return blocks;
}

std::vector<std::filesystem::path> pages() {
  const std::filesystem::path source = source_dir();
  std::vector<std::filesystem::path> found = {source / "README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source / "docs"))
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

TEST_CASE("every command that the documentation prints works as printed", "[e2e][docs]") {
  const Sandbox sandbox;
  int run = 0;
  for (const std::filesystem::path& page : pages()) {
    for (const Block& block : blocks_of(page)) {
      const Outcome outcome = sandbox.run(block.script);
      INFO(block.file << ":" << block.line << ":\n" << block.script << outcome.err);
      CHECK(outcome.code == 0);
      ++run;
    }
  }
  CHECK(run > 0);
  // Pictures are what these commands write (tools/refresh-docs puts them there); that of the architecture is drawn by it,
  // and those of pages (PNG) by tests/browser/screens.mjs.
  int pictures = 0;
  const std::filesystem::path kept = std::filesystem::path(source_dir()) / "docs/pictures";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kept)) {
    if (entry.path().extension() != ".svg" || entry.path().filename() == "architecture.svg") continue;
    const std::filesystem::path name = std::filesystem::relative(entry.path(), kept);
    INFO("docs/pictures/" << name.string() << ": written by no command of the documentation");
    CHECK(content_of(sandbox.path() / name).starts_with("<svg"));
    ++pictures;
  }
  CHECK(pictures > 0);
}

TEST_CASE("every relative link of the documentation leads to a file", "[e2e][docs]") {
  int links = 0;
  for (const std::filesystem::path& page : pages()) {
    const std::string text = content_of(page);
    for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 2)) {
      const std::string target = text.substr(at + 2, text.find_first_of(")#", at + 2) - at - 2);
      if (target.empty() || target.find("://") != std::string::npos || target.find_first_of(" \n") != std::string::npos)
        continue;
      INFO(page << ": " << target);
      CHECK(std::filesystem::exists(page.parent_path() / target));
      ++links;
    }
  }
  CHECK(links > 0);
}

TEST_CASE("every command's example works as its help prints it", "[e2e]") {
  const Sandbox sandbox;
  for (const cli::Command& command : cli::commands()) {
    const Outcome outcome = sandbox.run("tracecast " + std::string(command.example));
    INFO("tracecast " << command.example << "\n" << outcome.err);
    CHECK(outcome.code == 0);
    CHECK_FALSE(outcome.out.empty());
    CHECK(outcome.err.empty());
  }
}
