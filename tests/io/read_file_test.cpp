#include "sim/io/read_file.hpp"

#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "tests/io/temporary_folder.hpp"

using namespace tracecast;

TEST_CASE("read file: bytes as they are, up to a limit", "[io]") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "bytes";
  const std::string bytes("a\0b\r\n\xFF", 6);
  std::ofstream(file, std::ios::binary) << bytes;
  CHECK(read_file(file).value() == bytes);
  CHECK(read_file(file, 6).value() == bytes);
  CHECK(to_string(read_file(file, 5).error()) == file.string() + ": has more than 5 bytes, the limit");
}

TEST_CASE("read file: what is not a file is refused, word for word", "[io][error]") {
  const TemporaryFolder folder;
  const auto error = [](const std::filesystem::path& path) { return to_string(read_file(path).error()); };
  CHECK(error(folder.path() / "none") == (folder.path() / "none").string() + ": does not exist");
  CHECK(error(folder.path()) == folder.path().string() + ": is a folder, not a file");
  CHECK(error("/dev/zero") == "/dev/zero: is a device, not a file");
  CHECK(error("/proc/self/mem") == "/proc/self/mem: cannot be read: Input/output error");
}
