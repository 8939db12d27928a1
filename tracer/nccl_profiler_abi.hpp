/// \file
/// The part of NCCL's profiler plug-in interface, version 5 (NCCL 2.28 and later), that a recorder reads. NCCL does not
/// install a header for it; this file declares the ABI between plug-in and library.
/// Source: NCCL 2.28 sources, src/include/plugin/profiler/profiler_v5.h and nccl_profiler.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracecast::nccl {

enum EventType : std::uint64_t {
  kCollective = 1 << 1,
  kPointToPoint = 1 << 2,
  kKernelChannel = 1 << 6,  ///< one channel of an operation runs on the GPU
};

inline constexpr int kKernelChannelStop = 22;  ///< state of recordEventState

struct Event {
  std::uint64_t type;
  void* parent;  ///< of a channel: the handle that startEvent returned for its operation
  int rank;
  union {
    struct {
      std::uint64_t sequence;
      const char* function;  ///< "AllReduce"
      const void* send_buffer;
      void* receive_buffer;
      std::size_t count;
      int root;
      const char* type;  ///< "ncclBfloat16"
      std::uint8_t channels;
      std::uint8_t warps;
      const char* algorithm;  ///< "RING"
      const char* protocol;   ///< "SIMPLE"
      void* group;
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
      std::uint8_t channel;
      std::uint64_t gpu_time;
    } kernel_channel;
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

}  // namespace tracecast::nccl
