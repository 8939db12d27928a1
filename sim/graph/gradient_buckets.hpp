/// \file
/// When gradients are reduced during a backward: bucket by bucket, or unit by unit.
/// Source: docs/references.md#fsdp-variants
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "sim/graph/data_parallel.hpp"

namespace tracecast {

/// Collects the gradients of one chunk in buckets, inside one backward template.
class GradientBuckets {
 public:
  GradientBuckets(DataParallel& data, TemplateWriter& writer, const Chunk& chunk, bool active)
      : data_(data), writer_(writer), chunk_(chunk), active_(active) {}

  void add(const Work& work);
  /// After each unit: FSDP reduces unit by unit, a root that is one unit at the end.
  void unit_done(int unit);
  /// After all units.
  void finish();
  /// Ends of the last reductions: one of dense, one of expert gradients, if there are any.
  std::vector<EventRef> last_events() const;

 private:
  void flush_all();
  void flush(bool expert);

  DataParallel& data_;
  TemplateWriter& writer_;
  const Chunk& chunk_;
  const bool active_;
  int count_ = 0;
  std::int64_t dense_ = 0;
  std::int64_t expert_ = 0;
  std::int64_t root_ = 0;  ///< dense ones of a root that is one unit
  std::int64_t made_ = 0;  ///< since the last unit, also where nothing is reduced
  std::optional<bool> last_was_expert_;
  std::array<EventRef, 2> last_;  ///< [expert]
};

}  // namespace tracecast
