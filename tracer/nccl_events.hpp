/// \file
/// From the events of NCCL's profiler interface to the collectives of a trace.
///
/// NCCL tells of an operation when the host enqueues it, and of each of its channels when that begins and ends on the GPU.
/// An operation's time in the trace is from its first channel's begin to its last channel's end, by the host's clock, as
/// NCCL's own thread sees them (some microseconds late); where no channel is told of, that of the host's call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tracer/nccl_profiler_abi.hpp"
#include "tracer/trace_writer.hpp"

namespace tracecast::nccl {

/// Thread-safe: NCCL calls from the program's threads and from its own.
class Recorder {
 public:
  /// `now`: nanoseconds of the trace's clock. The writer outlives the recorder.
  Recorder(TraceWriter& writer, std::function<std::int64_t()> now) : writer_(writer), now_(std::move(now)) {}

  /// What it wants to be told of.
  static constexpr int kEvents = static_cast<int>(kCollective | kPointToPoint | kKernelChannel);

  /// A communicator's context, for start() and end_communicator().
  void* begin_communicator(std::uint64_t communicator, int ranks, int rank);
  /// A handle, or nullptr for what is passed over.
  void* start(void* context, const Event& event);
  void stop(void* handle);
  void record_state(void* handle, int state);
  /// Writes operations whose channels never ended.
  void end_communicator(void* context);
  /// The same for all communicators: the program is at its end.
  void finish();

 private:
  struct Communicator {
    std::uint64_t id;
    int ranks;
    int rank;
  };
  struct Handle {
    bool is_channel = false;
    Handle* operation = nullptr;  ///< of a channel
    bool ended = false;           ///< a channel, once
    Communicator* communicator = nullptr;
    TraceCollective collective;
    std::int64_t first_channel_ns = -1;
    std::int64_t last_channel_ns = -1;
    int channels = 0;  ///< that take part
    int finished = 0;
    bool stopped = false;  ///< the host's call has returned
  };

  Handle* keep(std::unique_ptr<Handle> handle);
  Handle* start_operation(Communicator& communicator, const Event& event);
  Handle* start_channel(const Event& event);
  void end_channel(Handle& channel);
  /// Writes an operation that is complete and forgets it with its channels.
  void write_if_complete(Handle* operation);
  void write(Handle& operation);
  void write_open(const Communicator* of);

  TraceWriter& writer_;
  std::function<std::int64_t()> now_;
  std::mutex mutex_;
  std::unordered_map<void*, std::unique_ptr<Communicator>> communicators_;
  std::unordered_map<void*, std::unique_ptr<Handle>> handles_;
};

}  // namespace tracecast::nccl
