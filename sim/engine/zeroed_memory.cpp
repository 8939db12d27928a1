#include "sim/engine/zeroed_memory.hpp"

#include <cstdlib>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace tracecast::engine {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
/// Below this size, clearing memory that the process has used before is faster than new pages.
constexpr std::size_t kMapped = std::size_t{4} << 20;

}  // namespace

ZeroedMemory::ZeroedMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes < kMapped) {
    begin_ = std::calloc(bytes, 1);
    if (begin_ == nullptr) throw std::bad_alloc();
    return;
  }
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  begin_ = mapped;
  // Advice only: without huge pages it works, more slowly.
  if (bytes >= 2 * kHugePage) static_cast<void>(::madvise(begin_, bytes, MADV_HUGEPAGE));
}

ZeroedMemory::~ZeroedMemory() {
  if (begin_ == nullptr) return;
  if (bytes_ < kMapped) {
    std::free(begin_);
  } else {
    ::munmap(begin_, bytes_);
  }
}

ZeroedMemory::ZeroedMemory(ZeroedMemory&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

ZeroedMemory& ZeroedMemory::operator=(ZeroedMemory&& other) noexcept {
  std::swap(begin_, other.begin_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace tracecast::engine
