/// \file
/// The part of NCCL's profiler plug-in interface that a recorder reads: version 6 (NCCL 2.29 and later; 2.30 looks for 7 first and then
/// accepts 6), version 5 (NCCL 2.28) and version 4 (NCCL 2.26 and 2.27). Version 6 is 5 with collectives of copy engines. NCCL does not
/// install a header for it; this file declares the ABI between plug-in and library.
/// Source: NCCL sources, src/include/plugin/profiler/profiler_v4.h to profiler_v6.h and nccl_profiler.h
/// (docs/references.md#nccl-profiler).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracecast::nccl {

enum EventType : std::uint64_t {
  kGroup = 1 << 0,  ///< the operations of one kernel, after its launch
  kCollective = 1 << 1,
  kPointToPoint = 1 << 2,
  kGroupCall = 1 << 8,       ///< from the first call of a group to the end of its launches; version 5
  kCollectiveCall = 1 << 9,  ///< a call of a collective, in a group; version 5
  kKernelLaunch = 1 << 11,   ///< around the launch of a kernel; version 5
  kCopyEngine = 1 << 12,     ///< around the copies of a collective that copy engines do; version 6
};

/// Of versions 5 and 6.
struct Event {
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    struct {
      std::uint64_t sequence;  ///< counts the calls of this function on this communicator
      const char* function;    ///< "AllReduce"
      const void* send_buffer;
      void* receive_buffer;
      std::size_t count;  ///< elements; of AllGather and ReduceScatter those of one rank
      int root;
      const char* type;  ///< "ncclBfloat16"; AllGather and Broadcast are "ncclInt8" always
      std::uint8_t channels;
      std::uint8_t warps;
      const char* algorithm;  ///< "RING"
      const char* protocol;   ///< "SIMPLE"
      void* group;            ///< the handle that startEvent returned for the group
    } collective;
    struct {
      const char* function;  ///< "Send"
      void* buffer;
      const char* type;
      std::size_t count;
      int peer;
      std::uint8_t channels;
      void* group;
    } point_to_point;
    struct {
      bool captured;  ///< by a CUDA graph
      int depth;
    } group_call;
    struct {
      const char* function;
      std::size_t count;
      const char* type;
      int root;
      void* stream;
      bool captured;
    } collective_call;
    struct {
      void* stream;
    } kernel_launch;
    struct {
      std::uint64_t sequence;  ///< counts the communicator's collectives of copy engines
      const char* function;    ///< "AllGather"
      const void* send_buffer;
      void* receive_buffer;
      std::size_t count;
      int root;
      const char* type;
      const char* synchronisation;
      bool in_batch;
      std::uint32_t batch_size;
      std::uint32_t batches;
      std::uint32_t copy_sequence;
      void* stream;
    } copy_engine;  ///< version 6
    struct {
      int pid;
      std::uint8_t channel;
      int peer;
      int steps;
      int segment_bytes;
      int sends;
    } proxy_operation;  ///< not read
  };
};

/// Of version 4: the type is one byte, and the parent is the group.
struct EventV4 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      std::uint64_t sequence;
      const char* function;
      const void* send_buffer;
      void* receive_buffer;
      std::size_t count;
      int root;
      const char* type;
      std::uint8_t channels;
      std::uint8_t warps;
      const char* algorithm;
      const char* protocol;
    } collective;
    struct {
      const char* function;
      void* buffer;
      const char* type;
      std::size_t count;
      int peer;
      std::uint8_t channels;
    } point_to_point;
  };
};

/// Return values are ncclResult_t: 0 means success.
struct Profiler {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator, int* events, const char* communicator_name, int nodes,
              int ranks, int rank, void* log);
  int (*start_event)(void* context, void** handle, Event* event);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};

struct ProfilerV4 {
  const char* name;
  int (*init)(void** context, int* events, const char* communicator_name, std::uint64_t communicator, int nodes,
              int ranks, int rank, void* log);
  int (*start_event)(void* context, void** handle, EventV4* event);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};

/// Offsets of 64-bit machines, worked out from NCCL's headers.
static_assert(offsetof(Event, parent) == 8 && offsetof(Event, rank) == 16);
static_assert(offsetof(Event, collective.sequence) == 24 && offsetof(Event, collective.function) == 32);
static_assert(offsetof(Event, collective.count) == 56 && offsetof(Event, collective.type) == 72);
static_assert(offsetof(Event, collective.channels) == 80 && offsetof(Event, collective.algorithm) == 88);
static_assert(offsetof(Event, collective.protocol) == 96 && offsetof(Event, collective.group) == 104);
static_assert(offsetof(Event, point_to_point.type) == 40 && offsetof(Event, point_to_point.count) == 48);
static_assert(offsetof(Event, point_to_point.peer) == 56 && offsetof(Event, point_to_point.group) == 64);
static_assert(offsetof(Event, group_call.captured) == 24 && offsetof(Event, collective_call.function) == 24);
static_assert(offsetof(Event, collective_call.count) == 32 && offsetof(Event, collective_call.type) == 40);
static_assert(offsetof(Event, collective_call.stream) == 56 && offsetof(Event, collective_call.captured) == 64);
static_assert(offsetof(Event, copy_engine.count) == 56 && offsetof(Event, copy_engine.type) == 72);
static_assert(offsetof(Event, copy_engine.batch_size) == 92 && offsetof(Event, copy_engine.stream) == 104);
static_assert(sizeof(Event) == 112 && sizeof(Profiler) == 48);
static_assert(offsetof(EventV4, type) == 0 && offsetof(EventV4, parent) == 8 && offsetof(EventV4, rank) == 16);
static_assert(offsetof(EventV4, collective.sequence) == 24 && offsetof(EventV4, collective.protocol) == 96);
static_assert(offsetof(EventV4, point_to_point.count) == 48 && offsetof(EventV4, point_to_point.channels) == 60);
static_assert(sizeof(EventV4) == 104 && sizeof(ProfilerV4) == 48);

}  // namespace tracecast::nccl
