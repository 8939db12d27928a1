/// \file
/// Converts the events of NCCL's profiler interface to the collectives of a trace.
///
/// NCCL reports an operation when the host enqueues it, and each of its channels when it begins and ends on the GPU. In the trace
/// an operation lasts from the begin of its first channel to the end of its last one. These are host times taken by a
/// thread of NCCL, a few microseconds late. If no channel is reported, the time of the host call is used.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tracer/nccl_profiler_abi.hpp"
#include "tracer/trace_writer.hpp"

namespace tracecast::nccl {

/// Thread-safe: NCCL calls it from the program's threads and from NCCL threads.
class Recorder {
 public:
  /// `now`: nanoseconds on the trace's clock. The writer must outlive the recorder.
  Recorder(TraceWriter& writer, std::function<std::int64_t()> now) : writer_(writer), now_(std::move(now)) {}

  /// Mask of the event types to report.
  static constexpr int kEvents = static_cast<int>(kCollective | kPointToPoint | kKernelChannel);

  /// A communicator's context, for start() and end_communicator().
  void* begin_communicator(std::uint64_t communicator, int ranks, int rank);
  /// Returns a handle, or nullptr for ignored events.
  void* start(void* context, const Event& event);
  void stop(void* handle);
  void record_state(void* handle, int state);
  /// Writes the operations whose channels never ended.
  void end_communicator(void* context);
  /// The same for all communicators, at the end of the program.
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
    bool ended = false;           ///< set once for a channel
    Communicator* communicator = nullptr;
    TraceCollective collective;
    std::int64_t first_channel_ns = -1;
    std::int64_t last_channel_ns = -1;
    int channels = 0;  ///< of this operation
    int finished = 0;
    bool stopped = false;  ///< the host's call has returned
  };

  Handle* keep(std::unique_ptr<Handle> handle);
  Handle* start_operation(Communicator& communicator, const Event& event);
  Handle* start_channel(const Event& event);
  void end_channel(Handle& channel);
  /// Writes a complete operation and drops it and its channels.
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
