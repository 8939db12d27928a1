/// Memory that begins as zeros and costs nothing until it is touched.
///
/// Large blocks ask for huge pages: an unfolded run reaches for hundreds of MiB in no order, and with pages of 4 KiB spends
/// its time on address translation.
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
