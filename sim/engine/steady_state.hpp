/// \file
/// Periods of the steady state that are skipped, not simulated.
///
/// A run is deterministic: if its state after some periods is the state before them, shifted by some time, so is the state after
/// as many further periods, as long as programs repeat. Then all times of the state are moved on by as many periods as are left,
/// with what belongs to micro-batches, and sums grow by what they grew in the period. This is exact, since all times are integers,
/// of which only differences decide anything.
///
/// Compared is everything that can decide what happens later (Worker::describe). A time that has passed only counts as passed. A
/// host that issues the whole steady state without waiting may be ever further ahead, so it is not compared: either it decided no start
/// in the period and is not slower than the rank, or it takes exactly as long.
///
/// Not skipped are runs with spans, with operations that take other times in each micro-batch, or of many ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/engine/repetition.hpp"
#include "sim/engine/time_breakdown.hpp"

namespace tracecast::engine {

/// The state at one instant, with times relative to it and micro-batches relative to `periods` periods.
struct SteadySnapshot {
  std::int32_t periods = 0;  ///< since the first item that repeats
  std::int64_t instant = 0;
  std::int32_t lowest = 0;  ///< micro-batches that streams are at, or that later items have
  std::int32_t highest = 0;
  std::vector<std::int64_t> outline = {};  ///< the part that most states differ in
  std::vector<std::int64_t> state = {};
  std::vector<TimeBreakdown> breakdowns = {};
  std::int64_t executed = 0;
};

struct SteadyState {
  /// Null: nothing repeats, or not in a way that can be skipped.
  static std::unique_ptr<SteadyState> find(const StepGraph& graph, const CompiledGraph& compiled);

  /// True if an event of the micro-batches from `lowest` to `highest` also has a number that does not depend on them.
  bool has_fixed_event(std::int32_t lowest, std::int32_t highest) const;

  Repetition repetition;
  std::vector<std::int32_t> events;        ///< of micro-batch 0; those of the others follow
  std::vector<std::int32_t> fixed_events;  ///< that do not depend on the micro-batch; sorted
  std::vector<bool> host_decided;          ///< [rank] some start since `before`
  std::optional<SteadySnapshot> before;
  std::int32_t next_item = 0;  ///< of the first rank's compute stream: when to compare next
  std::int32_t kept = 1;       ///< periods for which `before` is kept
  bool done = false;
};

}  // namespace tracecast::engine
