/// \file
/// Zero-initialised memory that is taken from the system when it is first touched.
///
/// Large blocks use huge pages: an unfolded run accesses hundreds of MiB in random order, and with pages of 4 KiB most of its
/// time goes into address translation.
#pragma once

#include <cstddef>

namespace tracecast::engine {

class ZeroedMemory {
 public:
  ZeroedMemory() = default;
  explicit ZeroedMemory(std::size_t bytes);
  ~ZeroedMemory();
  ZeroedMemory(ZeroedMemory&& other) noexcept;
  ZeroedMemory& operator=(ZeroedMemory&& other) noexcept;

  void* begin() const { return begin_; }

 private:
  void* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tracecast::engine
