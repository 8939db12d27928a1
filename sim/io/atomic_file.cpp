#include "sim/io/atomic_file.hpp"

#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace tracecast {
namespace {
namespace fs = std::filesystem;

/// The target of `path` after following symlinks, which need not exist; `path` itself if it is not a link, or a circle of them.
fs::path behind_links(const fs::path& path) {
  constexpr int kMostLinks = 40;  // Linux's own limit
  std::error_code code;
  fs::path target = path;
  for (int links = 0; fs::is_symlink(target, code); ++links) {
    if (links == kMostLinks) return path;
    target = target.parent_path() / fs::read_symlink(target, code);
  }
  return target;
}

bool is_special(const fs::path& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  return fs::exists(status) && fs::is_other(status);
}
}  // namespace

AtomicFile::AtomicFile(fs::path path)
    : path_(std::move(path)),
      target_(is_special(path_) ? path_ : behind_links(path_)),
      partial_(is_special(path_) ? path_ : fs::path(target_.string() + fmt::format(".{}.partial", ::getpid()))) {
  std::error_code ignored;
  if (!path_.has_filename() || fs::is_directory(path_, ignored)) return;
  const fs::file_status before = fs::status(target_, ignored);
  if (fs::exists(before) && ::access(target_.c_str(), W_OK) != 0) return;
  stream_.open(partial_, std::ios::binary | std::ios::trunc);
  opened_ = stream_.is_open();
  if (opened_ && partial_ != target_ && fs::exists(before)) fs::permissions(partial_, before.permissions(), ignored);
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (opened_ && !committed_ && partial_ != target_) fs::remove(partial_, ignored);
}

bool AtomicFile::write(std::string_view piece) {
  stream_.write(piece.data(), static_cast<std::streamsize>(piece.size()));
  return opened_ && stream_.good();
}

tl::unexpected<Error> AtomicFile::error(std::string message) const {
  return fail({path_.string(), 0, "", "", std::move(message)});
}

Result<void> AtomicFile::finish() {
  std::error_code ignored;
  if (!opened_) {
    if (!path_.has_filename() || fs::is_directory(path_, ignored)) return error("is a folder, not a file");
    return error("cannot be written (does the folder exist, and is it writable?)");
  }
  if (stream_.is_open()) stream_.close();
  if (!stream_) return error("cannot be written (is the disk full?)");
  return {};
}

Result<void> AtomicFile::commit() {
  if (Result<void> finished = finish(); !finished) return finished;
  std::error_code code;
  if (partial_ != target_) fs::rename(partial_, target_, code);
  if (code) return error(fmt::format("cannot be written ({})", code.message()));
  committed_ = true;
  return {};
}

}  // namespace tracecast
