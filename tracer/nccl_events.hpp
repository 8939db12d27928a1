/// \file
/// Converts the events of NCCL's profiler interface to the collectives of a trace.
///
/// NCCL reports, on the thread that calls it: the launch of a kernel (version 5), then a group with the operations that the kernel runs.
/// The recorder numbers the launches: CUPTI attaches the number to the launch (an external id), and the operations of the group
/// carry it. So a collective is tied to its kernel, whose times are exact; its own time is that of the host. Operations
/// of a CUDA graph are reported at each replay by another thread and have no number; nor do those of version 4.
///
/// A collective of copy engines has no kernel: its copies are made between start and stop and carry its number (version 6).
///
/// Symmetric kernels, and copy engines before version 6, have no launch and no group: NCCL 2.28 frees their tasks when it schedules them
/// (ncclSymmetricTaskScheduler). Their collectives are the calls for which NCCL has reported nothing when the communicator is called
/// again; what the group launches or copies outside of other launches is theirs and carries the number of the group.
///
/// Sends and receives of one kernel that cover all ranks are one AllToAll. Counts are those of the larger buffer, as nccl-tests
/// counts them.
/// Source: NCCL 2.28.9, src/enqueue.cc (ncclLaunchKernel, hostStreamPlanTask) and src/plugin/profiler.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tracer/nccl_profiler_abi.hpp"
#include "tracer/trace_writer.hpp"

namespace tracecast::nccl {

/// What the recorder needs of CUPTI.
struct Clock {
  std::function<std::int64_t()> now;                    ///< nanoseconds on the trace's clock
  std::function<void(std::int64_t id)> begin_launch{};  ///< calls of this thread get the id from now on
  std::function<void()> end_launch{};
};

/// Thread-safe: NCCL calls it from the program's threads and from NCCL threads.
class Recorder {
 public:
  /// The writer must outlive the recorder.
  Recorder(TraceWriter& writer, Clock clock) : writer_(writer), clock_(std::move(clock)) {}

  /// Mask of the event types to report. Channels of kernels are not: they cost a proxy thread and nodes of CUDA graphs, and CUPTI
  /// times kernels exactly.
  static constexpr int kEvents =
      static_cast<int>(kGroup | kCollective | kPointToPoint | kGroupCall | kCollectiveCall | kKernelLaunch);
  static constexpr int kEventsV6 = kEvents | static_cast<int>(kCopyEngine);
  static constexpr int kEventsV4 = static_cast<int>(kGroup | kCollective | kPointToPoint);

  /// A communicator's context, for start() and end_communicator().
  void* begin_communicator(std::uint64_t communicator, int nodes, int ranks, int rank);
  /// Returns a handle if stop() is to be called, else nullptr.
  void* start(void* context, const Event& event);
  void* start(void* context, const EventV4& event);
  void stop(void* handle);
  void end_communicator(void* context);
  /// Writes the operations of all groups that have not ended, at the end of the program.
  void finish();
  /// Groups that have not ended, and calls of which NCCL has reported nothing yet: for tests.
  std::size_t open_groups() const;

  /// Added to sequence numbers, since NCCL counts other collectives of the same function by themselves.
  static constexpr std::int64_t kUnreported = std::int64_t{1} << 40;
  static constexpr std::int64_t kCopies = std::int64_t{1} << 41;

 private:
  struct Communicator {
    std::uint64_t id;
    int nodes;
    int ranks;
    int rank;
    std::map<std::pair<bool, int>, std::int64_t> messages;  ///< [receives, peer] so far
    std::int64_t all_to_alls = 0;
    std::vector<std::unique_ptr<TraceCollective>>
        calls{};  ///< of which NCCL has reported nothing yet; their addresses are handles
    std::map<std::string, std::int64_t> unreported{};  ///< [function] calls written as such
  };
  struct Group {
    Communicator* communicator = nullptr;
    std::vector<TraceCollective> operations;
    std::int64_t launch = 0;
  };

  TraceCollective record_of(const Communicator& communicator, TraceCollective operation) const;
  void* begin_launch(const Communicator& communicator);
  void* begin_group_call(const Event& event);
  void end_group_call();
  void* begin_call(Communicator& communicator, const Event& event);
  void write_calls(Communicator& communicator);
  void* begin_copies(const Communicator& communicator, const Event& event);
  void* begin_group(Communicator& communicator);
  void add(Communicator& communicator, TraceCollective operation, void* group);
  void write(Group& group);

  TraceWriter& writer_;
  Clock clock_;
  mutable std::mutex mutex_;
  std::int64_t launches_ = 0;
  std::int64_t unnumbered_ = 0;  ///< groups without a number: theirs are negative
  std::unordered_map<void*, std::unique_ptr<Communicator>> communicators_;
  std::unordered_map<void*, std::unique_ptr<Group>> groups_;
};

}  // namespace tracecast::nccl
