// Every command that README.md and docs/ print is run, and what they print below it is compared with its output:
//   ```sh            a script that is run
//   ```sh by-hand    one that is not: it installs, needs a GPU, takes minutes or does not end
//   ```text          the output of the script above
//   ```text 3-14     lines 3 to 14 of it
// tools/scripts/refresh-docs replaces printed output with that of the current program.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/e2e/shell.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/paths.hpp"
#include "tools/commands.hpp"

using namespace tracecast;

namespace {

struct Block {
  int line;
  std::string kind;  ///< the words behind the fence
  std::string text;
  bool left_out = false;
};

struct Page {
  std::filesystem::path path;
  std::vector<Block> blocks;
};

/// The fenced blocks of a page, in order.
std::vector<Block> blocks_of(const std::filesystem::path& path) {
  std::vector<Block> blocks;
  std::istringstream text(content_of(path));
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.starts_with("```")) {
      if (!inside) blocks.push_back({number, line.substr(3), "", false});
      inside = !inside;
    } else if (inside) {
      blocks.back().text += line + "\n";
    }
  }
  CHECK_FALSE(inside);
  return blocks;
}

/// The lines of `output` that a block of this kind shows: "text" all, "text 3-14" some.
std::string shown(const std::string& output, const std::string& kind) {
  int first = 1;
  int last = std::numeric_limits<int>::max();
  if (kind != "text") REQUIRE(std::sscanf(kind.c_str(), "text %d-%d", &first, &last) == 2);
  std::istringstream lines(output);
  std::string part;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (number >= first && number <= last) part += line + "\n";
  }
  return part;
}

std::vector<Page> pages() {
  const std::filesystem::path source = source_dir();
  std::vector<std::filesystem::path> found = {source / "README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source / "docs"))
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  std::vector<Page> pages;
  for (const std::filesystem::path& path : found) pages.push_back({path, blocks_of(path)});
  return pages;
}

/// The commands and options of a script.
std::set<std::string> features_of(const std::string& script) {
  std::set<std::string> features;
  std::istringstream words(script);
  std::string before;
  for (std::string word; words >> word; before = word) {
    if (word.starts_with("--") || before.ends_with("tracecast")) features.insert(word);
  }
  return features;
}

/// Other than a picture, which no script reads.
bool writes_file(const std::string& script) {
  for (const char* mark : {">", " -o ", "--out", "--csv"})
    if (script.find(mark) != std::string::npos) return true;
  return false;
}

/// Leaves out each script that writes no file and whose features are all in other scripts as well.
void leave_out_repetitions(std::vector<Page>& pages) {
  std::map<std::string, int> scripts_with;
  for (const Page& page : pages)
    for (const Block& block : page.blocks)
      if (block.kind == "sh")
        for (const std::string& feature : features_of(block.text)) ++scripts_with[feature];
  for (Page& page : pages)
    for (Block& block : page.blocks) {
      if (block.kind != "sh" || writes_file(block.text)) continue;
      const std::set<std::string> features = features_of(block.text);
      block.left_out =
          std::all_of(features.begin(), features.end(), [&](const std::string& f) { return scripts_with[f] > 1; });
      if (block.left_out)
        for (const std::string& feature : features) --scripts_with[feature];
    }
}

}  // namespace

TEST_CASE("every command that the documentation prints works, and prints what stands below it", "[e2e][docs]") {
  const Sandbox sandbox;
  std::vector<Page> all = pages();
  // The release build compares every output. With sanitizers a command takes ten times as long, and each command and option is
  // run at least once.
  if (test::kSanitized) leave_out_repetitions(all);
  int run = 0;
  int compared = 0;
  for (const Page& page : all) {
    std::string output;
    bool ran = false;
    bool left_out = false;  // the script above
    for (const Block& block : page.blocks) {
      INFO(page.path.string() << ":" << block.line << ":\n" << block.text);
      if (block.kind == "sh") {
        ran = true;
        left_out = block.left_out;
        if (left_out) continue;
        const Outcome outcome = sandbox.run(block.text);
        INFO(outcome.err);
        CHECK(outcome.code == 0);
        output = outcome.out;
        ++run;
      } else if (block.kind == "sh by-hand") {
        ran = false;
      } else if (block.kind.starts_with("text")) {
        CHECK(ran);
        if (left_out) continue;
        CHECK(block.text == shown(output, block.kind));
        ++compared;
      }
    }
  }
  CHECK(run > 0);
  CHECK(compared > 0);
  if (test::kSanitized) return;  // some scripts were left out
  // These commands write the pictures. tools/scripts/refresh-docs copies them and draws the one of the architecture;
  // tests/browser/screens.mjs makes those of pages (PNG).
  int pictures = 0;
  const std::filesystem::path kept = std::filesystem::path(source_dir()) / "docs/pictures";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kept)) {
    if (entry.path().extension() != ".svg" || entry.path().filename() == "architecture.svg" || test::kSanitized)
      continue;
    const std::filesystem::path name = std::filesystem::relative(entry.path(), kept);
    INFO("docs/pictures/" << name.string() << ": written by no command of the documentation");
    CHECK(content_of(sandbox.path() / name).starts_with("<svg"));
    ++pictures;
  }
  CHECK(pictures > 0);
}

TEST_CASE("every command's example works as its help prints it", "[e2e]") {
  const Sandbox sandbox;
  std::set<std::string> documented;  // with sanitizers: the commands that the test above has run
  if (test::kSanitized)
    for (const Page& page : pages())
      for (const Block& block : page.blocks)
        if (block.kind == "sh") documented.merge(features_of(block.text));
  for (const cli::Command& command : cli::commands()) {
    if (documented.contains(std::string(command.name))) continue;
    const Outcome outcome = sandbox.run("tracecast " + std::string(command.example));
    INFO("tracecast " << command.example << "\n" << outcome.err);
    CHECK(outcome.code == 0);
    CHECK_FALSE(outcome.out.empty());
    CHECK(outcome.err.empty());
  }
}
