/// \file
/// Protobuf's wire format, as much as Chakra needs: fields by number, nothing of schemas. A library of its own would bring a
/// code generator and 3 MB of run time for the ten fields that are read and written.
/// Source: protobuf.dev/programming-guides/encoding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tracecast {

struct WireField {
  std::uint32_t number = 0;
  int type = 0;             ///< 0 varint, 1 64 bits, 2 bytes, 5 32 bits
  std::uint64_t value = 0;  ///< of the number types
  std::string_view bytes;   ///< of type 2
};

/// Takes messages apart. `good` turns false at the first damage.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}
  bool good() const { return good_; }
  bool at_end() const { return at_ == bytes_.size(); }
  std::size_t position() const { return at_; }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) break;
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    good_ = false;
    return 0;
  }

  std::string_view take(std::uint64_t length) {
    if (length > bytes_.size() - at_) {
      good_ = false;
      return {};
    }
    const std::string_view piece = bytes_.substr(at_, static_cast<std::size_t>(length));
    at_ += piece.size();
    return piece;
  }

  /// The next field; nothing at the end, and when it is damaged.
  std::optional<WireField> next() {
    if (!good_ || at_end()) return std::nullopt;
    const std::uint64_t key = varint();
    WireField field;
    field.number = static_cast<std::uint32_t>(key >> 3);
    field.type = static_cast<int>(key & 7);
    if (field.type == 0)
      field.value = varint();
    else if (field.type == 1)
      field.value = little_endian(take(8));
    else if (field.type == 2)
      field.bytes = take(varint());
    else if (field.type == 5)
      field.value = little_endian(take(4));
    else
      good_ = false;
    return good_ && field.number > 0 ? std::optional(field) : (good_ = false, std::nullopt);
  }

 private:
  static std::uint64_t little_endian(std::string_view bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

/// Puts messages together, field by field.
class WireWriter {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3);
    varint(value);
  }
  void bytes(std::uint32_t field, std::string_view value) {
    varint(std::uint64_t{field} << 3 | 2);
    append(value);
  }
  /// Without a field: a length and so many bytes, as messages follow each other in a stream.
  void append(std::string_view message) {
    varint(message.size());
    bytes_ += message;
  }
  const std::string& str() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(static_cast<unsigned char>(value | 0x80));
    bytes_ += static_cast<char>(static_cast<unsigned char>(value));
  }
  std::string bytes_;
};

}  // namespace tracecast
