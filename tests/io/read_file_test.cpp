#include "sim/io/read_file.hpp"

#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "sim/io/compressed.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/io/incident_log.hpp"
#include "sim/io/json_document.hpp"
#include "tests/support/temporary_folder.hpp"

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

TEST_CASE("read file: large packed content takes its own size in memory, and none if it is refused", "[io]") {
  const TemporaryFolder folder;
  const std::filesystem::path plain = folder.path() / "zeros";
  const std::filesystem::path packed = folder.path() / "zeros.gz";
  const std::size_t size = (std::size_t{40} << 20) + 1;
  std::ofstream(plain).close();
  std::filesystem::resize_file(plain, size);
  REQUIRE(pack(plain, packed));
  REQUIRE(std::filesystem::file_size(packed) < 100'000);
  const std::string content = read_packed(packed).value();
  CHECK(content == std::string(size, '\0'));
  CHECK(content.capacity() < size + (std::size_t{1} << 20));
  CHECK(to_string(read_packed(packed, size - 1).error()) ==
        packed.string() + ": unpacks to more than 41943040 bytes, the limit");
}

TEST_CASE("read file: a byte order mark is no part of a text, packed or not", "[io]") {
  const TemporaryFolder folder;
  const std::filesystem::path plain = folder.path() / "plain";
  const std::filesystem::path packed = folder.path() / "packed.gz";
  std::ofstream(plain, std::ios::binary) << "\xEF\xBB\xBF{}";
  REQUIRE(pack(plain, packed));
  CHECK(read_packed(plain).value() == "{}");
  CHECK(read_packed(packed).value() == "{}");
}

TEST_CASE("read file: files of our own formats are smaller than 256 MiB", "[io][error]") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "big";
  std::ofstream(file).close();
  std::filesystem::resize_file(file, (std::uintmax_t{256} << 20) + 1);
  const std::string refused = file.string() + ": has more than 268435456 bytes, the limit";
  CHECK(to_string(read_json(file).error()) == refused);
  CHECK(to_string(read_incident_log(file).error()) == refused);
  CHECK(to_string(CsvTable::read(file).error()) == refused);
}

TEST_CASE("read file: lines of endless input are cut, and devices are not opened", "[io][error]") {
  CHECK_FALSE(PackedLines("/dev/zero").good());
  const TemporaryFolder folder;
  CHECK_FALSE(PackedLines(folder.path()).good());
  const std::filesystem::path file = folder.path() / "one_line";
  std::ofstream(file).close();
  std::filesystem::resize_file(file, std::uintmax_t{200} << 20);
  PackedLines lines(file);
  std::string line;
  REQUIRE(lines.next(line));
  CHECK(lines.cut());
  CHECK(line.size() >= (std::size_t{64} << 20));
  CHECK(line.size() < (std::size_t{66} << 20));
}

TEST_CASE("packing what cannot be read is an error and leaves no file", "[io][error]") {
  const TemporaryFolder folder;
  CHECK_FALSE(pack(folder.path() / "absent", folder.path() / "packed.gz"));
  CHECK_FALSE(pack(folder.path(), folder.path() / "packed.gz"));  // opens, but every read fails
  CHECK(std::filesystem::is_empty(folder.path()));
}
