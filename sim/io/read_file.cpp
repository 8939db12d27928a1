#include "sim/io/read_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

namespace tracecast {
namespace {

/// Why a path is not read; "": it is.
std::string refusal(const std::filesystem::path& path) {
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (status.type() == std::filesystem::file_type::not_found) return "does not exist";
  if (is_directory(status)) return "is a folder, not a file";
  if (is_character_file(status) || is_block_file(status)) return "is a device, not a file";
  return "";
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::size_t most) {
  const auto fails = [&path](std::string message) { return fail({path.string(), 0, "", "", std::move(message)}); };
  if (std::string why = refusal(path); !why.empty()) return fails(std::move(why));
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (!file) return fails(fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string content;
  std::vector<char> part(std::size_t{1} << 16);
  for (std::size_t read = 1; read > 0;) {
    read = std::fread(part.data(), 1, part.size(), file.get());
    content.append(part.data(), read);
    if (content.size() > most) return fails(fmt::format("has more than {} bytes, the limit", most));
  }
  if (std::ferror(file.get()) != 0) return fails(fmt::format("cannot be read: {}", std::strerror(errno)));
  return content;
}

}  // namespace tracecast
