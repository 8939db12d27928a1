/// The state of a simulation: where every stream stands, what has been recorded, who waits for what.
///
/// Everything that a rank needs lies in a few arrays of its own, reached through its RankState; the empty value of each
/// element is all bits zero, so that memory is taken from the system only where it is used.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/engine/compiled_graph.hpp"
#include "sim/engine/rank_clock.hpp"
#include "sim/engine/zeroed_memory.hpp"

namespace tracecast::engine {

/// Local events of one rank live in a ring of this many program items; streams that use them move in step.
inline constexpr std::int32_t kLocalRing = 8;
inline constexpr std::int32_t kNobody = -1;

/// An array whose elements begin as all bits zero; memory is taken from the system where it is first touched.
template <class T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  ZeroedArray() = default;
  explicit ZeroedArray(std::size_t size) : memory_(size * sizeof(T)), size_(size) {}
  T* data() { return static_cast<T*>(memory_.begin()); }
  const T* data() const { return static_cast<const T*>(memory_.begin()); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }

 private:
  ZeroedMemory memory_;
  std::size_t size_ = 0;
};

/// Those who wait for one thing, linked through `next`: the number of the first plus one; 0: nobody. Streams are numbered
/// from 0, the hosts of the ranks come after all streams.
struct Waiters {
  std::int32_t first;
};

/// An event of one rank: when its producer was ready, began and ended.
struct Event {
  std::int64_t arrival;
  std::int64_t start;
  std::int64_t end;
  std::int32_t mark;  ///< 16 (item + 1) + traffic + 1 of who recorded it; 0: nobody has
  Waiters waiters;

  bool recorded() const { return mark != 0; }
  std::int32_t item() const { return (mark >> 4) - 1; }
  Interval interval() const { return {arrival, start, end, static_cast<std::int8_t>((mark & 15) - 1)}; }
  void record(const Interval& interval, std::int32_t item) {
    arrival = interval.arrival;
    start = interval.start;
    end = interval.end;
    mark = ((item + 1) << 4) | (interval.traffic + 1);
  }
};

/// One stream of one rank: where it is in its program.
struct StreamState {
  std::int64_t clock;
  std::int64_t arrival;  ///< while it waits for others to join a transfer
  std::int32_t rank;
  std::int32_t lane;      ///< index into StepGraph::streams
  std::int32_t position;  ///< into CompiledProgram::streams[lane]
  std::int32_t step;      ///< into CompiledGraph::steps, plus one; 0: at the beginning of an item
  std::int32_t next;      ///< in the list of waiters that it stands in
};

/// A communicator between calls, or with some of its members waiting.
struct Meeting {
  std::int64_t latest;
  std::int32_t arrived;
  std::int32_t latest_stream;
  Waiters waiters;
};

/// One message of one channel, kept at the receiver.
struct Mail {
  std::int64_t start;
  std::int64_t end;
  std::int32_t first;   ///< stream of whoever came first and waits, plus one
  std::int32_t sender;  ///< eager: stream of the sender, plus one, when it is on its way or here
};

struct RankState {
  const CompiledProgram* program = nullptr;
  const std::int32_t* communicators = nullptr;  ///< [slot]
  const ChannelEnd* channels = nullptr;         ///< [channel]
  Event* events = nullptr;
  Event* local_events = nullptr;
  Mail* mails = nullptr;
  const Run* slowed = nullptr;       ///< table of slowed_runs; null at full speed
  std::int64_t* segments = nullptr;  ///< [segment] ps, when the host begins it
  std::int32_t known_segments = 0;
  Waiters host_waiters{};      ///< streams that came to an item which the host has not reached
  std::int32_t host_next = 0;  ///< of the host, in the list of waiters that it stands in
};

/// Where one step stands.
struct Place {
  std::int32_t stream;
  std::int32_t item;
  StreamState* state;
  RankState* rank;
  const CompiledItem* what;
  std::int64_t host_base;  ///< when the host begins the item
};

struct State {
  State(const StepGraph& graph, const CompiledGraph& compiled);

  const StepGraph& graph;
  const CompiledGraph& compiled;
  std::size_t stream_count;
  std::vector<StreamState> streams;  ///< [rank x stream_count + lane]
  std::vector<RankState> ranks;
  std::vector<RankClock> clocks;      ///< [rank]
  ZeroedArray<Event> events;          ///< [rank x rank_events + event]
  ZeroedArray<Event> local_events;    ///< [(rank x ring + item mod ring) x local_events + event]
  ZeroedArray<Mail> mails;            ///< [receiving channel of a rank x microbatches + microbatch]
  std::vector<std::int32_t> mailbox;  ///< [channel] its number among those that receive; -1: it only sends
  ZeroedArray<Meeting> meetings;      ///< [communicator]
  std::vector<std::int64_t> segments;
  std::vector<std::vector<Run>> slowed;  ///< one table for each slowness and program there is

  bool finished(const StreamState& s) const { return s.position == static_cast<std::int32_t>(items(s).size()); }
  const std::vector<std::int32_t>& items(const StreamState& s) const {
    return ranks[static_cast<std::size_t>(s.rank)].program->streams[static_cast<std::size_t>(s.lane)];
  }
  const Template& source(const Place& at) const {
    return graph.templates[static_cast<std::size_t>(at.what->template_index)];
  }

  Place place_of(std::int32_t stream) {
    StreamState& s = streams[static_cast<std::size_t>(stream)];
    RankState& r = ranks[static_cast<std::size_t>(s.rank)];
    const std::int32_t item = items(s)[static_cast<std::size_t>(s.position)];
    const CompiledItem& what = r.program->items[static_cast<std::size_t>(item)];
    const bool issued = what.segment < r.known_segments;
    return {stream, item, &s, &r, &what, issued ? r.segments[what.segment] + what.host_offset : -1};
  }

  Event& event(const Place& at, EventRef ref) const {
    if (!ref.local()) return at.rank->events[ref.base + ref.stride * at.what->microbatch];
    return at.rank->local_events[(at.item % kLocalRing) * graph.local_events + ref.base];
  }
  static bool recorded(const Place& at, EventRef ref, const Event& e) {
    if (!ref.local()) return e.recorded();
    TRACECAST_ASSERT(e.item() <= at.item, "local events connect streams that move in step");
    return e.item() == at.item;
  }
  Mail& mail(std::int32_t rank, std::int32_t channel, std::int32_t microbatch) const {
    return ranks[static_cast<std::size_t>(rank)]
        .mails[mailbox[static_cast<std::size_t>(channel)] * graph.microbatches + microbatch];
  }

 private:
  void place_arrays();
  void find_mailboxes();
  void slow_down();
};

}  // namespace tracecast::engine
