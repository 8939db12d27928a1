/// \file
/// What the program does with memory that it frees; its benchmarks do the same.
#pragma once

#include <malloc.h>

namespace tracecast {

/// Searches, sweeps and servers build steps of megabytes again and again: a fifth of the time of a folded step went into
/// giving their memory back to the system and taking it anew.
inline void keep_freed_memory() {
  static_cast<void>(::mallopt(M_MMAP_THRESHOLD, 4 << 20));  // larger blocks are given back at once
  static_cast<void>(::mallopt(M_TRIM_THRESHOLD, 64 << 20));
  static_cast<void>(::mallopt(M_TOP_PAD, 1 << 20));
}

}  // namespace tracecast
