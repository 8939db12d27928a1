/// \file
/// Reads files that are plain or packed with gzip. The content decides, not the file name.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "sim/base/result.hpp"

namespace tracecast {

/// Limit against decompression bombs: 1 MB of gzip may hold 1 GB of zeros. Recordings of one rank are smaller.
inline constexpr std::size_t kMaxUnpacked = std::size_t{4} << 30;

/// Returns `content` unchanged unless it starts with gzip's magic bytes; else all gzip members, unpacked and
/// concatenated. Large content is unpacked twice, so that it takes no more memory than it has bytes, and none if it is refused.
/// Errors: a gzip file that is damaged or cut; more than `most` bytes in it.
Result<std::string> unpacked(std::string content, const std::string& file, std::size_t most = kMaxUnpacked);

/// The whole file, unpacked and without a byte order mark, which some editors and shells write before a text: at most `most` bytes. Errors: those of read_file() and unpacked().
Result<std::string> read_packed(const std::filesystem::path& path, std::size_t most = kMaxUnpacked);

/// The lines of a file that is plain or packed with gzip, one after the other: uses memory for one line.
class PackedLines {
 public:
  explicit PackedLines(const std::filesystem::path& path);
  ~PackedLines();
  PackedLines(const PackedLines&) = delete;
  PackedLines& operator=(const PackedLines&) = delete;

  /// False: the file cannot be opened.
  bool good() const { return file_ != nullptr; }
  /// The next line, without its end. False: none is left, or what follows is damaged.
  bool next(std::string& line);
  /// The last line has no end, or the packed file is damaged behind it.
  bool cut() const { return cut_; }

 private:
  bool fill();

  void* file_ = nullptr;
  std::string buffer_;
  std::size_t at_ = 0;
  bool cut_ = false;
};

/// Packs `from` with gzip into `to`, which is replaced at the end. Errors: a file that cannot be read or written.
Result<void> pack(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace tracecast
