/// Segments: what a rank does on its own account, between two points where it needs others, summed into one step.
///
/// Compute waits for its tensor-parallel collectives, and they for compute. Where all members of the group are one class,
/// the representative meets nobody there: such a collective lasts what the graph says from the moment when it is ready. So
/// the compute stream can run the collectives of that stream in passing ("own streams"), and everything from one wait for
/// something else to the next becomes one segment of parts.
///
/// Times are integers, and only maxima and sums are taken of them. If, when a segment begins at `ready`,
///
///   - the host is ahead of every part:           ready >= host base + host_slack
///   - no own stream is busy for longer than the
///     compute before its first collective takes: clock <= ready + first,  for each StreamUse
///
/// then neither term decides any maximum inside, and every time inside is `ready` plus what it was in a run of the segment
/// alone, done once when templates are compiled. Otherwise the parts are run one by one: by the same function. Either way
/// the result is that of every operation as a step of its own stream, to the picosecond (tests/engine/segments_test.cpp).
///
/// Not done when spans are recorded, since these want every operation, and when a rank is slowed, whose operations are
/// rounded one by one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/rank_clock.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast::engine {

/// A run of compute operations, or one collective of an own stream.
struct Part {
  StreamId stream = kComputeStream;
  Traffic traffic = Traffic::tensor_parallel;  ///< of a collective
  std::int32_t first_wait = 0;                 ///< into Segments::waits
  std::int32_t wait_count = 0;
  EventRef records;        ///< what somebody outside of the segment waits for
  std::int64_t total = 0;  ///< ps
  std::int64_t issued =
      0;  ///< ps after the template's beginning on the host: the earliest end of compute, or the earliest
          ///< arrival of a collective
  bool computes() const { return stream == kComputeStream; }
};

/// An event that a segment records; ps after its `ready`.
struct SegmentRecord {
  EventRef event;
  Interval times;
};

/// ps after `ready`: when the first collective of an own stream arrives, and when the last one ends.
struct StreamUse {
  StreamId stream = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// How long compute waits for collectives of one kind inside the segment.
struct Exposure {
  Traffic traffic = Traffic::tensor_parallel;
  std::int64_t time = 0;  ///< ps
};

/// A range of one of the arrays of Segments.
struct Range {
  std::int32_t first = 0;
  std::int32_t count = 0;
  template <class T>
  std::span<const T> of(const std::vector<T>& all) const {
    return {all.data() + first, static_cast<std::size_t>(count)};
  }
};

struct Segment {
  Range parts;
  Range records;
  Range streams;
  Range exposures;
  std::int64_t host_slack = 0;  ///< ps
  std::int64_t length = 0;      ///< ps from `ready` to the end of compute
  std::int64_t busy = 0;        ///< ps of compute
  Interval last;                ///< the transfer that ends last; ps after `ready`
};

/// All segments of a compiled graph.
struct Segments {
  std::vector<Segment> all;
  std::vector<Part> parts;
  std::vector<std::int32_t> waits;  ///< number of a part within its segment
  std::vector<SegmentRecord> records;
  std::vector<StreamUse> streams;
  std::vector<Exposure> exposures;
  std::int32_t most_parts = 0;  ///< of one segment
};

/// Runs the parts of a segment in order. `clock_of(stream)` is where the stream stands, for the compute stream `ready`, and
/// is moved on. `computed(part, clock, times, cause)` and `transferred(part, times)` hear of each; `cause` is the transfer
/// that compute waited for from `clock` on, or null. `done` has room for the times of all parts.
template <class ClockOf, class Computed, class Transferred>
void run_parts(const Segments& segments, const Segment& segment, std::int64_t host_base, std::span<Interval> done,
               ClockOf clock_of, Computed computed, Transferred transferred) {
  const std::span<const Part> parts = segment.parts.of(segments.parts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    std::int64_t& clock = clock_of(part.stream);
    std::int64_t ready = clock;
    const Interval* cause = nullptr;
    for (const std::int32_t wait : Range{part.first_wait, part.wait_count}.of(segments.waits)) {
      const Interval& other = done[static_cast<std::size_t>(wait)];
      if (other.end <= ready) continue;
      ready = other.end;
      cause = &other;
    }
    const std::int64_t issued = host_base + part.issued;
    if (part.computes()) {
      done[i] = {ready, ready, std::max(ready + part.total, issued), -1};
      computed(part, clock, done[i], cause);
    } else {
      const std::int64_t arrival = std::max(ready, issued);
      done[i] = {arrival, arrival, arrival + part.total, static_cast<std::int8_t>(part.traffic)};
      transferred(part, done[i]);
    }
    clock = done[i].end;
  }
}

/// Writes segments part by part, and runs each once on its own.
class SegmentWriter {
 public:
  explicit SegmentWriter(Segments& out) : out_(out) {}

  void begin() { first_part_ = static_cast<std::int32_t>(out_.parts.size()); }
  /// Parts of the segment that is being written.
  std::int32_t count() const { return static_cast<std::int32_t>(out_.parts.size()) - first_part_; }
  /// `part` without its waits; `waits`: numbers of parts.
  void add(Part part, std::span<const std::int32_t> waits);
  Part& last() { return out_.parts.back(); }
  /// The number of the finished segment.   Requires a compute part in front
  std::int32_t finish();
  /// Takes the only part out again: no segment.
  Part take();

 private:
  void measure(Segment& segment);

  Segments& out_;
  std::int32_t first_part_ = 0;
};

}  // namespace tracecast::engine
