/// \file
/// A trace: what a program did on its GPUs, as it was recorded. The file format is docs/formats/trace.md.
///
/// Times are nanoseconds of one clock (the header names it). Everything refers to strings by number; a string is written
/// before it is first used, so that a file can be read while it is written, and up to the place where it is cut.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tracecast {

/// Where and with what it was recorded. No names of hosts or users.
struct TraceHeader {
  std::string recorder;  ///< "cupti 13.0"
  std::string clock;     ///< "cupti nanoseconds"
  std::string date;      ///< UTC, ISO 8601
  std::string gpu;
  std::string driver;
  std::string cuda;
  std::string nccl;
  std::int64_t process = 0;
  int rank = -1;   ///< of the job, where the environment says (RANK); -1: not known
  int ranks = -1;  ///< WORLD_SIZE
  bool operator==(const TraceHeader&) const = default;
};

struct TraceKernel {
  std::string name;
  std::int64_t device = 0;
  std::int64_t stream = 0;
  std::int64_t correlation = 0;  ///< of the call that launched it
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t blocks = 0;
  std::int64_t threads = 0;  ///< of a block
  bool operator==(const TraceKernel&) const = default;
};

/// A copy (`kind` "host to device", …) or a memset.
struct TraceCopy {
  std::string kind;
  std::int64_t device = 0;
  std::int64_t stream = 0;
  std::int64_t correlation = 0;
  std::int64_t bytes = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool operator==(const TraceCopy&) const = default;
};

/// A call of the CUDA runtime or driver on the host.
struct TraceCall {
  std::int64_t thread = 0;
  std::int64_t correlation = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::string name;  ///< "cudaStreamSynchronize": of calls that wait for the GPU; may be empty for others
  bool operator==(const TraceCall&) const = default;
};

/// An NVTX range. `end_ns` -1: it was still open when recording ended.
struct TraceRange {
  std::string name;
  std::string domain;
  std::int64_t thread = 0;
  std::int64_t id = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = -1;
  bool operator==(const TraceRange&) const = default;
};

/// A collective or message as NCCL was asked for it.
struct TraceCollective {
  std::string name;       ///< "AllReduce", "Send"
  std::string type;       ///< "ncclBfloat16"
  std::string algorithm;  ///< "RING"; "" where not known
  std::string protocol;   ///< "SIMPLE"
  std::uint64_t communicator = 0;
  int rank = 0;
  int ranks = 1;
  int peer = -1;              ///< of a message
  std::int64_t count = 0;     ///< elements of the larger buffer, as nccl-tests counts them
  std::int64_t sequence = 0;  ///< of the communicator
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool operator==(const TraceCollective&) const = default;
};

/// An id of another tool (a framework's operator) that was current when the call with this correlation was made.
struct TraceExternal {
  std::int64_t kind = 0;
  std::int64_t id = 0;
  std::int64_t correlation = 0;
  bool operator==(const TraceExternal&) const = default;
};

struct Trace {
  TraceHeader header;
  std::vector<TraceKernel> kernels;
  std::vector<TraceCopy> copies;
  std::vector<TraceCall> calls;
  std::vector<TraceRange> ranges;
  std::vector<TraceCollective> collectives;
  std::vector<TraceExternal> externals;
  std::int64_t dropped = 0;  ///< records that the recorder had no room for
  bool complete = false;     ///< the end was written; false: the program was killed, or the file is cut
  std::int64_t records = 0;  ///< that were read
  bool operator==(const Trace&) const = default;
};

}  // namespace tracecast
