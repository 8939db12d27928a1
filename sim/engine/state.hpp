/// \file
/// The state of a simulation: the position of every stream, the events recorded so far, and the lists of waiters.
///
/// The data of a rank lies in a few arrays, reached through its RankState. The empty value of each element is all bits
/// zero, so that memory is taken from the system only where it is used.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/engine/compiled_graph.hpp"
#include "sim/engine/time_breakdown.hpp"
#include "sim/engine/zeroed_memory.hpp"

namespace tracecast::engine {

/// Local events of one rank live in a ring of this many program items; the streams that use them advance in lockstep.
inline constexpr std::int32_t kLocalRing = 8;
inline constexpr std::int32_t kNoStream = -1;

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

/// Intrusive singly linked list of waiters. Stores 1 + the index of the head; 0 means empty. Waiters 0, 1, … are the
/// streams; after them come the hosts of the ranks.
struct WaitList {
  std::int32_t first;
};

/// An event of one rank: when its producer was ready, began and ended (Interval).
struct Event {
  std::int64_t arrival;
  std::int64_t start;
  std::int64_t end;
  std::int32_t mark;  ///< 16 (item + 1) + traffic + 1 of its producer; 0: not recorded
  WaitList waiters;

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

/// One stream of one rank: its position in its program.
struct StreamState {
  std::int64_t clock;
  std::int64_t arrival;      ///< when it became ready for the transfer that it waits in
  std::int64_t waited_from;  ///< of its last transfer: when that waited for other ranks (Interval)
  std::int64_t waited_to;
  const std::int32_t* items;  ///< in CompiledProgram::streams: the item that it is at, and the later ones
  std::int32_t rank;
  StreamId lane;           ///< index into StepGraph::streams
  bool waits_for_compute;  ///< in the list of an event that only compute of its rank records; or finished
  bool waits_in_lockstep;  ///< for the other members of its group, or for compute of its own rank (worker_lockstep.hpp)
  bool leaves_lockstep;    ///< executes its operations of the current lockstep run by itself
  std::int32_t next_op;    ///< 1 + index into CompiledGraph::stream_ops; 0: at the beginning of an item
  std::int32_t next;       ///< in the wait list that it is in
};

/// A collective call of one communicator: the members that have arrived.
struct Rendezvous {
  std::int64_t latest;  ///< arrival of the latest member
  std::int32_t arrived;
  std::int32_t latest_stream;
  WaitList waiters;
};

/// The slot of one message of one channel, kept at the receiver.
struct PendingMessage {
  std::int64_t start;
  std::int64_t end;
  std::int32_t first;   ///< 1 + stream of the side that came first and waits; 0: none
  std::int32_t sender;  ///< eager: 1 + stream of the sender once the message has left; 0: not yet
};

struct RankState {
  const CompiledProgram* program = nullptr;
  const CompiledItem* items = nullptr;          ///< of the program
  const std::int32_t* communicators = nullptr;  ///< [slot]
  const ChannelEnd* channels = nullptr;         ///< [channel]
  Event* events = nullptr;
  Event* local_events = nullptr;
  PendingMessage* messages = nullptr;
  const std::int32_t* first_runs = nullptr;    ///< [item] index into State::runs; null: times of the templates
  std::int64_t* issue_block_starts = nullptr;  ///< [issue block] ps, when the host begins it
  std::int32_t known_issue_blocks = 0;
  WaitList host_waiters{};                        ///< streams at an item that the host has not reached
  std::int32_t host_next = 0;                     ///< of the host, in the wait list that it is in
  std::uint64_t lanes_that_wait_for_compute = 0;  ///< a bit for each of the first 64 (StreamState::waits_for_compute)
};

/// Streams go through most arrays of a rank from one micro-batch to the next: fetches the element that they need soon. It may
/// lie beyond the end of the array. Inlined, since GCC 12 drops calls of functions that only fetch.
template <class T>
[[gnu::always_inline]] inline void fetch_after(const T& element) {
  constexpr std::uintptr_t kCacheLine = 64;
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(&element) + kCacheLine));
}

/// The StreamOp that a stream is at, with everything that is needed to execute it.
struct OpContext {
  std::int32_t stream;
  std::int32_t item_index;
  StreamState* state;
  RankState* rank;
  const CompiledItem* item;
  std::int64_t host_base;  ///< ps, when the host begins the item
};

struct State {
  /// Memory of the arrays of a state, in bytes.
  static double bytes(const StepGraph& graph, const CompiledGraph& compiled);

  State(const StepGraph& graph, const CompiledGraph& compiled);

  const StepGraph& graph;
  const CompiledGraph& compiled;
  std::size_t stream_count;
  std::vector<StreamState> streams;  ///< [rank x stream_count + lane]
  std::vector<RankState> ranks;
  std::vector<TimeBreakdown> breakdowns;         ///< [rank]
  ZeroedArray<Event> events;                     ///< [rank x rank_events + event]
  ZeroedArray<Event> local_events;               ///< [(rank x ring + item mod ring) x local_events + event]
  ZeroedArray<PendingMessage> messages;          ///< [(rank x receiving channels + slot) x microbatches + microbatch]
  std::vector<std::int32_t> message_slots;       ///< [channel] its slot; -1: nothing is received on it
  ZeroedArray<Rendezvous> rendezvous;            ///< [communicator]
  ZeroedArray<std::int32_t> ready_for_lockstep;  ///< [communicator] members that wait for the others in a lockstep run
  std::vector<std::int64_t> issue_block_starts;  ///< [rank x blocks + block] ps
  std::vector<RunDuration> runs;                 ///< of ranks with times of their own, by template
  std::vector<std::vector<std::int32_t>>
      first_runs;  ///< RankState::first_runs of each program, slowdown and first batch

  static bool finished(const StreamState& s) { return *s.items < 0; }
  const Template& source(const OpContext& at) const {
    return graph.templates[static_cast<std::size_t>(at.item->template_index)];
  }

  OpContext context_of(std::int32_t stream) {
    StreamState& s = streams[static_cast<std::size_t>(stream)];
    RankState& r = ranks[static_cast<std::size_t>(s.rank)];
    const std::int32_t index = *s.items;
    const CompiledItem& item = r.items[index];
    const bool issued = item.issue_block < r.known_issue_blocks;
    return {stream, index, &s, &r, &item, issued ? r.issue_block_starts[item.issue_block] + item.host_offset : -1};
  }

  Event& event(const OpContext& at, EventRef ref) const {
    if (!ref.local()) return at.rank->events[ref.base + ref.stride * at.item->microbatch];
    return at.rank->local_events[(at.item_index % kLocalRing) * graph.local_events + ref.base];
  }
  static bool recorded(const OpContext& at, EventRef ref, const Event& e) {
    if (!ref.local()) return e.recorded();
    TRACECAST_ASSERT(e.item() <= at.item_index, "streams that share local events advance in lockstep");
    return e.item() == at.item_index;
  }
  PendingMessage& message(std::int32_t rank, std::int32_t channel, std::int32_t microbatch) const {
    return ranks[static_cast<std::size_t>(rank)]
        .messages[message_slots[static_cast<std::size_t>(channel)] * graph.microbatches + microbatch];
  }

 private:
  /// A rank of its own times. The operations of one that fuses are timed one by one (contended_runs.hpp).
  bool has_own_runs(std::size_t rank) const {
    const Rank& source = graph.ranks[rank];
    return !compiled.fuses[rank] && (source.slowdown != kNoSlowdown || source.first_batch >= 0);
  }
  void assign_message_slots();
  void assign_arrays();
  void compute_runs();
};

}  // namespace tracecast::engine
