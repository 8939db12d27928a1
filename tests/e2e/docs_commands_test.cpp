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

/// From the top of the source tree; README.md: "".
std::string folder_of(const Page& page) {
  return std::filesystem::relative(page.path, source_dir()).parent_path().string();
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

/// Commands of tests/data/kept_outputs.txt: all, or those that kept_outputs_test.cpp runs with sanitizers.
std::vector<std::string> kept_commands(int every) {
  std::vector<std::string> commands;
  std::istringstream lines(content_of(source_dir() / "tests/data/kept_outputs.txt"));
  int number = 0;
  for (std::string line; std::getline(lines, line);)
    if (number++ % every == 0) commands.push_back("tracecast" + line.substr(line.find(' ')));
  return commands;
}

/// Leaves out each script that writes no file and whose features are all in other scripts or kept outputs as well.
void leave_out_repetitions(std::vector<Page>& pages) {
  std::map<std::string, int> scripts_with;
  for (const std::string& command : kept_commands(test::kKeptOutputs))
    for (const std::string& feature : features_of(command)) ++scripts_with[feature];
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

/// docs/pictures that the program draws, relative to there. tools/scripts/refresh-docs draws the one of the architecture, and
/// tests/browser/screens.mjs makes those of pages (PNG).
std::vector<std::filesystem::path> pictures() {
  const std::filesystem::path kept = source_dir() / "docs/pictures";
  std::vector<std::filesystem::path> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kept))
    if (entry.path().extension() == ".svg" && entry.path().filename() != "architecture.svg")
      names.push_back(std::filesystem::relative(entry.path(), kept));
  return names;
}

/// By name, or with others in a folder.
bool writes(const std::string& script, const std::filesystem::path& picture) {
  return script.find("--svg " + picture.string()) != std::string::npos ||
         script.find("--out " + picture.parent_path().string() + "\n") != std::string::npos;
}

/// Runs the scripts of the pages in `folders` of docs/ (README.md: "") and compares what they print.
void check_pages(const std::set<std::string>& folders) {
  const Sandbox sandbox;
  std::vector<Page> all = pages();
  // The release build compares every output. With sanitizers a command takes ten times as long, and each command and option is
  // run at least once.
  if (test::kSanitized) leave_out_repetitions(all);
  int run = 0;
  for (const Page& page : all) {
    if (!folders.contains(folder_of(page))) continue;
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
        for (const std::filesystem::path& picture : pictures())
          if (writes(block.text, picture)) CHECK(content_of(sandbox.path() / picture).starts_with("<svg"));
        ++run;
      } else if (block.kind == "sh by-hand") {
        ran = false;
      } else if (block.kind.starts_with("text")) {
        CHECK(ran);
        if (!left_out) CHECK(block.text == shown(output, block.kind));
      }
    }
  }
  CHECK(run > 0);
}

}  // namespace

// Several tests, which run beside each other.
TEST_CASE("every command of the tutorial works, and prints what stands below it", "[e2e][docs]") {
  check_pages({"docs/tutorial"});
}

TEST_CASE("every command of the pages in docs/ and of README.md works, and prints what stands below it",
          "[e2e][docs]") {
  check_pages({"", "docs"});
}

TEST_CASE("every command of the pages of formats and validation works, and prints what stands below it",
          "[e2e][docs]") {
  check_pages({"docs/formats", "docs/validation"});
}

TEST_CASE("the tests above run all pages with commands, which write all pictures", "[docs]") {
  std::set<std::string> folders;
  std::vector<std::filesystem::path> missing = pictures();
  CHECK_FALSE(missing.empty());
  for (const Page& page : pages())
    for (const Block& block : page.blocks) {
      if (block.kind != "sh") continue;
      folders.insert(folder_of(page));
      std::erase_if(missing, [&](const std::filesystem::path& picture) { return writes(block.text, picture); });
    }
  CHECK(folders == std::set<std::string>{"", "docs", "docs/formats", "docs/tutorial", "docs/validation"});
  CHECK(missing.empty());
}

TEST_CASE("every command's example works as its help prints it", "[e2e]") {
  const Sandbox sandbox;
  // Other tests run the examples that stand in the documentation or among kept outputs; with sanitizers other examples of the same
  // commands are enough.
  std::set<std::string> run_elsewhere;
  for (const std::string& kept : kept_commands(1)) run_elsewhere.insert(kept);
  std::set<std::string> documented;
  for (const Page& page : pages())
    for (const Block& block : page.blocks) {
      if (block.kind != "sh") continue;
      std::istringstream lines(block.text);
      for (std::string line; std::getline(lines, line);) run_elsewhere.insert(line);
      if (test::kSanitized) documented.merge(features_of(block.text));
    }
  for (const cli::Command& command : cli::commands()) {
    if (documented.contains(std::string(command.name))) continue;
    if (run_elsewhere.contains("tracecast " + std::string(command.example))) continue;
    const Outcome outcome = sandbox.run("tracecast " + std::string(command.example));
    INFO("tracecast " << command.example << "\n" << outcome.err);
    CHECK(outcome.code == 0);
    CHECK_FALSE(outcome.out.empty());
    CHECK(outcome.err.empty());
  }
}
