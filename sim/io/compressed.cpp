#include "sim/io/compressed.hpp"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <zlib.h>

#include "sim/io/atomic_file.hpp"
#include "sim/io/read_file.hpp"

namespace tracecast {
namespace {

constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr std::size_t kPiece = std::size_t{1} << 16;
constexpr std::size_t kLongestLine = std::size_t{64} << 20;  ///< of a recording; longer ones are cut

/// Owns zlib's inflate state.
class Inflater {
 public:
  explicit Inflater(const std::string& packed) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    left_ = packed.size();
    good_ = inflateInit2(&stream_, kGzipOnly) == Z_OK;
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Appends the next piece. False: damaged.
  bool next(std::string& out) {
    const std::size_t before = out.size();
    out.resize(before + kPiece);
    const std::size_t given = std::min<std::size_t>(left_, 1U << 30);
    stream_.avail_in = static_cast<uInt>(given);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream_.avail_out = static_cast<uInt>(kPiece);
    const int status = good_ ? inflate(&stream_, Z_NO_FLUSH) : Z_DATA_ERROR;
    left_ -= given - stream_.avail_in;
    out.resize(before + kPiece - stream_.avail_out);
    if (status == Z_STREAM_END) {
      ended_ = left_ < 2 || stream_.next_in[0] != 0x1F;  // else another member follows
      return ended_ || inflateReset(&stream_) == Z_OK;
    }
    return status == Z_OK && (left_ > 0 || stream_.avail_out == 0);
  }
  bool ended() const { return ended_; }

 private:
  z_stream stream_{};
  std::size_t left_ = 0;
  bool good_ = false;
  bool ended_ = false;
};

/// The size of larger content is found before memory is taken for it.
constexpr std::size_t kLarge = std::size_t{32} << 20;

/// Passes the pieces of unpacked content to `take` until it returns false. Errors: damaged.
template <class Take>
Result<void> each_piece(const std::string& content, const std::string& file, const Take& take) {
  Inflater inflater(content);
  std::string piece;
  while (!inflater.ended()) {
    piece.clear();
    if (!inflater.next(piece)) return fail({file, 0, "", "", "is a gzip file that is damaged or cut"});
    if (!take(piece)) break;
  }
  return {};
}

}  // namespace

Result<std::string> unpacked(std::string content, const std::string& file, std::size_t most) {
  if (!content.starts_with("\x1F\x8B")) return content;
  std::string out;
  std::size_t size = 0;
  const Result<void> counted = each_piece(content, file, [&](const std::string& piece) {
    size += piece.size();
    if (size <= kLarge) out += piece;
    return size <= most;
  });
  if (!counted) return tl::unexpected(counted.error());
  if (size > most) return fail({file, 0, "", "", fmt::format("unpacks to more than {} bytes, the limit", most)});
  if (size <= kLarge) return out;
  out.clear();
  out.shrink_to_fit();  // else reserve() takes twice what it had
  out.reserve(size);
  const Result<void> copied = each_piece(content, file, [&](const std::string& piece) {
    out += piece;
    return true;
  });
  TRACECAST_ASSERT(copied.has_value(), "content that was counted can be unpacked");
  return out;
}

PackedLines::PackedLines(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (is_directory(status) || is_character_file(status) || is_block_file(status)) return;
  file_ = gzopen(path.c_str(), "rb");  // reads plain files as well
  if (file_ != nullptr) gzbuffer(static_cast<gzFile>(file_), kPiece);
}

PackedLines::~PackedLines() {
  if (file_ != nullptr) gzclose(static_cast<gzFile>(file_));
}

bool PackedLines::fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kPiece);
  const int count = gzread(static_cast<gzFile>(file_), buffer_.data() + before, static_cast<unsigned>(kPiece));
  buffer_.resize(before + static_cast<std::size_t>(std::max(0, count)));
  return count > 0;
}

bool PackedLines::next(std::string& line) {
  std::size_t searched = at_;
  std::size_t end = std::string::npos;
  while ((end = buffer_.find('\n', searched)) == std::string::npos) {
    const std::size_t seen = buffer_.size() - at_;
    if (seen > kLongestLine || !fill()) break;
    searched = seen;
  }
  cut_ = end == std::string::npos;
  if (cut_ && buffer_.size() == at_) return false;
  line = buffer_.substr(at_, cut_ ? std::string::npos : end - at_);
  at_ = cut_ ? buffer_.size() : end + 1;
  return true;
}

Result<void> pack(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::ifstream in(from, std::ios::binary);
  if (!in) return fail({from.string(), 0, "", "", "cannot be read"});
  AtomicFile file(to);
  if (Result<void> opened = file.finish(); !opened) return opened;
  const gzFile out = gzopen(file.partial().c_str(), "wb6");
  bool good = out != nullptr;
  std::string piece(kPiece, '\0');
  while (good && (in.read(piece.data(), static_cast<std::streamsize>(kPiece)) || in.gcount() > 0)) {
    const auto count = static_cast<unsigned>(in.gcount());
    good = gzwrite(out, piece.data(), count) == static_cast<int>(count);
  }
  if (out != nullptr) good = gzclose(out) == Z_OK && good;
  if (in.bad()) return fail({from.string(), 0, "", "", "cannot be read"});
  if (!good) return fail({to.string(), 0, "", "", "cannot be written (is the disk full?)"});
  return file.commit();
}

Result<std::string> read_packed(const std::filesystem::path& path, std::size_t most) {
  Result<std::string> content = read_file(path, most);
  if (content) content = unpacked(std::move(*content), path.string(), most);
  if (content && content->starts_with("\xEF\xBB\xBF")) content->erase(0, 3);
  return content;
}

}  // namespace tracecast
