#include "sim/io/files.hpp"

#include <iterator>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "tests/support/files.hpp"
#include "tests/support/results.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {}  // namespace

TEST_CASE("files: a name is looked up recursively, a path is taken as it is", "[io]") {
  const TemporaryFolder folder;
  const fs::path root = folder.path();
  fs::create_directories(root / "published");
  fs::create_directories(root / "models");
  REQUIRE(write_file(root / "published" / "llama3-405b-16k.json", "{}"));
  REQUIRE(write_file(root / "models" / "llama-2-7b.json", "{}"));
  const fs::path expected = root / "published" / "llama3-405b-16k.json";
  CHECK(find_file("llama3-405b-16k", root, "scenario").value() == expected);
  CHECK(find_file("published/llama3-405b-16k", root, "scenario").value() == expected);
  CHECK(find_file("published/llama3-405b-16k.json", root, "scenario").value() == expected);
  CHECK(find_file(expected.string(), root, "scenario").value() == expected);
  CHECK(find_file("llama-2-7b", root / "models", "model").value() == root / "models" / "llama-2-7b.json");
  CHECK(error_text(find_file("llama-2-7b", root, "scenario")) ==  // a model is no scenario
        "unknown scenario 'llama-2-7b' (allowed: llama3-405b-16k, or a path)");
}

TEST_CASE("files: a name that is not found or not unique is an error, word for word", "[io][error]") {
  const TemporaryFolder folder;
  const fs::path root = folder.path();
  fs::create_directories(root / "a");
  fs::create_directories(root / "b");
  for (const char* name : {"a/dgx-h100.json", "b/dgx-h100.json", "a/dgx-a100.json", "a/abci.json"})
    REQUIRE(write_file(root / name, "{}"));
  CHECK(error_text(find_file("dgx-h10", root, "topology")) == "unknown topology 'dgx-h10' (did you mean 'dgx-h100'?)");
  CHECK(error_text(find_file("a100", root, "topology")) == "unknown topology 'a100' (did you mean 'dgx-a100'?)");
  CHECK(error_text(find_file("frontier", root, "topology")) ==
        "unknown topology 'frontier' (allowed: abci dgx-a100 dgx-h100 dgx-h100, or a path)");
  CHECK(error_text(find_file("dgx-h100", root, "topology")) ==
        "more than one topology has the name 'dgx-h100' (give the path: " + (root / "a/dgx-h100.json").string() + ", " +
            (root / "b/dgx-h100.json").string() + ")");
  CHECK(error_text(find_file("c/dgx-h100.json", root, "topology")) == "c/dgx-h100.json: does not exist");
  CHECK(error_text(find_file("x", root / "absent", "topology")) == "unknown topology 'x'");
  for (const char* stream : {"-", "/dev/null"})
    CHECK(error_text(find_file(stream, root, "topology")) ==
          std::string(stream) + ": is not a file; files are read more than once, so a pipe cannot be given");
}

TEST_CASE("files: writing replaces the whole file and leaves nothing beside it", "[io]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "out.json";
  REQUIRE(write_file(file, "first, and longer"));
  REQUIRE(write_file(file, "second"));
  CHECK(content_of(file) == "second");
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("files: a failed write is an error and leaves no file", "[io][error]") {
  const TemporaryFolder folder;
  const fs::path absent = folder.path() / "absent" / "out.json";
  CHECK(to_string(write_file(absent, "x").error()) ==
        absent.string() + ": cannot be written (does the folder exist, and is it writable?)");
  CHECK(to_string(write_file(folder.path(), "x").error()) == folder.path().string() + ": is a folder, not a file");
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("files: a link stays and what it points to is replaced", "[io]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "out.json";
  const fs::path link = folder.path() / "link.json";
  REQUIRE(write_file(file, "first"));
  fs::create_symlink(file, link);
  REQUIRE(write_file(link, "second"));
  CHECK(fs::is_symlink(link));
  CHECK(content_of(file) == "second");
}

TEST_CASE("files: a device is written to, not replaced", "[io][error]") {
  if (!fs::is_character_file("/dev/full") || !fs::is_character_file("/dev/null")) {
    WARN("no /dev/full here");
    return;
  }
  CHECK(write_file("/dev/null", "x"));
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(to_string(write_file("/dev/full", "x").error()) == "/dev/full: cannot be written (is the disk full?)");
  CHECK(fs::is_character_file("/dev/full"));
}

TEST_CASE("files: many shipped names are not listed, but counted; a folder is not a file", "[io][error]") {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i) REQUIRE(write_file(folder.path() / fmt::format("machine-{}.json", i), "{}"));
  CHECK(error_text(find_file("zebra", folder.path(), "topology")) ==
        "unknown topology 'zebra' (a path, or one of the 20 that `tracecast list` shows)");
  CHECK(error_text(find_file("machine-1", folder.path(), "topology")) == "");
  CHECK(error_text(find_file("INE-1", folder.path(), "topology")) ==
        "unknown topology 'INE-1' (with it in their names: machine-1 machine-10 machine-11 machine-12 machine-13 "
        "machine-14 machine-15 machine-16 machine-17 machine-18 machine-19)");
  fs::create_directories(folder.path() / "x.json");
  const std::string path = (folder.path() / "x.json").string();
  CHECK(error_text(find_file(path, folder.path(), "topology")) == path + ": is a folder, not a file");
}

TEST_CASE("files: a rewritten file keeps its permissions, and a link keeps pointing", "[io]") {
  const TemporaryFolder folder;
  const fs::path secret = folder.path() / "secret.json";
  REQUIRE(write_file(secret, "old"));
  fs::permissions(secret, fs::perms::owner_read | fs::perms::owner_write);
  REQUIRE(write_file(secret, "new"));
  CHECK(content_of(secret) == "new");
  CHECK(fs::status(secret).permissions() == (fs::perms::owner_read | fs::perms::owner_write));

  const fs::path link = folder.path() / "link.json";
  fs::create_symlink("not-there-yet.json", link);
  REQUIRE(write_file(link, "text"));
  CHECK(fs::is_symlink(link));
  CHECK(content_of(folder.path() / "not-there-yet.json") == "text");
  const fs::path circle = folder.path() / "circle.json";
  fs::create_symlink("circle.json", circle);
  REQUIRE(write_file(circle, "text"));  // replaced: it points nowhere
  CHECK(content_of(circle) == "text");

  if (::geteuid() == 0) return;  // root may write everywhere
  fs::permissions(secret, fs::perms::owner_read);
  CHECK_FALSE(write_file(secret, "newer"));
  CHECK(content_of(secret) == "new");
}
