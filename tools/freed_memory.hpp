/// \file
/// What programs do with memory that they free. Each says how much it keeps, and why.
#pragma once

#include <malloc.h>

namespace tracecast {

struct KeptMemory {
  int largest_block = 4 << 20;  ///< bytes; larger blocks are given back at once
  int most = 64 << 20;          ///< bytes that are free before memory is given back
  int step = 1 << 20;           ///< bytes that are asked for at a time, more than what is needed
};

/// The default is that of searches and sweeps, which build steps of megabytes again and again: a fifth of the time of a folded step
/// went into giving their memory back to the system and taking it anew.
inline void keep_freed_memory(const KeptMemory& kept = {}) {
  static_cast<void>(::mallopt(M_MMAP_THRESHOLD, kept.largest_block));
  static_cast<void>(::mallopt(M_TRIM_THRESHOLD, kept.most));
  static_cast<void>(::mallopt(M_TOP_PAD, kept.step));
}

}  // namespace tracecast
