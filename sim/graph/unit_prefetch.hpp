/// \file
/// When the units of ZeRO-3 are gathered: before their use, some of them ahead.
/// Source: docs/references.md#data-parallel-traffic
#pragma once

#include <vector>

#include "sim/graph/data_parallel.hpp"

namespace tracecast {

/// ZeRO-3: parameters of the units of one chunk are gathered before their use: by FSDP one unit ahead, at most two at a
/// time; by DeepSpeed as many as prefetch_bucket_size holds, and always the next one.
///
/// The first gathers of a pass wait for nothing. If a chunk has no others, they may run any number of micro-batches
/// ahead of the computation, which waits for messages; so their ends are rank events.
class UnitPrefetch {
 public:
  UnitPrefetch(DataParallel& data, TemplateWriter& writer, const Chunk& chunk, DataParallel::UnitPass pass);
  /// Around the compute of a unit.
  void before(int unit);
  void after(int unit);

 private:
  /// Numbers of the rank events of this chunk's unit.
  EventRef event(const char* forward, const char* backward, int unit) const;
  /// How many gathers may have been issued when `used` units are done.
  std::size_t allowed(std::size_t used) const;
  void advance();
  void gather_next(const std::vector<EventRef>& after);
  /// Of a root that is one unit: both of its ends.
  Bucket gathered_with(int unit) const;
  bool waits_for(int unit) const { return used_ < units_.size() && units_[used_] == unit; }

  DataParallel& data_;
  TemplateWriter& writer_;
  const Chunk& chunk_;
  const bool backward_;
  const DataParallel::GatherSlots slots_;
  std::vector<int> units_;                       ///< those that are gathered, in order of use
  std::size_t used_ = 0;                         ///< of them
  std::vector<std::vector<EventRef>> gathered_;  ///< [position in units_]
};

}  // namespace tracecast
