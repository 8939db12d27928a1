#include "sim/io/whole_file.hpp"

#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace tracecast {
namespace {
namespace fs = std::filesystem;
}

WholeFile::WholeFile(fs::path path)
    : path_(std::move(path)), partial_(path_.string() + fmt::format(".{}.partial", ::getpid())) {
  std::error_code ignored;
  if (!path_.has_filename() || fs::is_directory(path_, ignored)) return;
  stream_.open(partial_, std::ios::binary | std::ios::trunc);
  opened_ = stream_.is_open();
}

WholeFile::~WholeFile() {
  std::error_code ignored;
  if (opened_ && !committed_) fs::remove(partial_, ignored);
}

bool WholeFile::write(std::string_view piece) {
  stream_.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  return opened_ && stream_.good();
}

Result<void> WholeFile::commit() {
  const auto about = [this](std::string message) { return fail({path_.string(), 0, "", "", std::move(message)}); };
  std::error_code code;
  if (!opened_) {
    if (!path_.has_filename() || fs::is_directory(path_, code)) return about("is a folder, not a file");
    return about("cannot be written (is there such a folder, and may it be written?)");
  }
  stream_.close();
  if (!stream_) return about("cannot be written (is the disk full?)");
  fs::rename(partial_, path_, code);
  if (code) return about(fmt::format("cannot be written ({})", code.message()));
  committed_ = true;
  return {};
}

}  // namespace tracecast
