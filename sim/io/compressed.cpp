#include "sim/io/compressed.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include "sim/io/read_file.hpp"

namespace tracecast {
namespace {

constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr std::size_t kPiece = std::size_t{1} << 16;

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

}  // namespace

Result<std::string> unpacked(std::string content, const std::string& file, std::size_t most) {
  if (!content.starts_with("\x1F\x8B")) return content;
  Inflater inflater(content);
  std::string out;
  while (!inflater.ended()) {
    if (!inflater.next(out)) return fail({file, 0, "", "", "is a gzip file that is damaged or cut"});
    if (out.size() > most)
      return fail({file, 0, "", "", fmt::format("unpacks to more than {} bytes, the limit", most)});
  }
  return out;
}

Result<std::string> read_packed(const std::filesystem::path& path) {
  Result<std::string> content = read_file(path);
  return content ? unpacked(std::move(*content), path.string()) : content;
}

}  // namespace tracecast
