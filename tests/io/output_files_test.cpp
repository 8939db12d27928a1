#include "sim/io/output_files.hpp"

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "sim/io/read_file.hpp"
#include "tests/support/results.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

TEST_CASE("files of one command: all are written, or none", "[io][error]") {
  const TemporaryFolder sandbox;
  const fs::path root = sandbox.path();
  const auto commit = [&](const fs::path& page) {
    OutputFiles files;
    files.folder(root / "out").write("a.txt", "new");
    files.write(root / "table.csv", "new");
    files.write(page, "new");
    return error_text(files.commit());
  };
  CHECK(commit(root / "none/page.html") ==
        (root / "none/page.html").string() + ": cannot be written (does the folder exist, and is it writable?)");
  CHECK(fs::is_empty(root));
  CHECK(commit(root / "out/page.html").empty());
  for (const char* name : {"out/a.txt", "table.csv", "out/page.html"}) CHECK(value_of(read_file(root / name)) == "new");
  CHECK(commit(root / "out/../out/a.txt").find("is a file of the output folder, too") != std::string::npos);
  CHECK(std::distance(fs::recursive_directory_iterator(root), {}) == 4);
}
