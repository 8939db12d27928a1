/// \file
/// A trace: the recorded GPU activity of a program. The file format is docs/formats/trace.md.
///
/// Times are nanoseconds of one clock, named in the header. Records refer to strings by number. A string is written before
/// its first use, so that a file can be read while it is written, and a truncated file up to the cut.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tracecast {

/// The machine and software of the recording. Contains no host or user names.
struct TraceHeader {
  std::string recorder;  ///< "cupti 13.0"
  std::string clock;     ///< "cupti nanoseconds"
  std::string date;      ///< UTC, ISO 8601
  std::string gpu;
  std::string driver;
  std::string cuda;
  std::string nccl;
  std::int64_t process = 0;
  int rank = -1;      ///< in the job, from the launcher's variables; -1: unknown
  int ranks = -1;     ///< of the job
  std::string error;  ///< why nothing was recorded; empty: recording began
  bool operator==(const TraceHeader&) const = default;
};

struct TraceKernel {
  std::string name;
  std::int64_t device = 0;
  std::int64_t stream = 0;
  std::int64_t correlation = 0;  ///< of the launching call
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t blocks = 0;
  std::int64_t threads = 0;  ///< per block
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
  std::string name;  ///< of calls that wait for the GPU ("cudaStreamSynchronize"); may be empty for others
  bool operator==(const TraceCall&) const = default;
};

/// An NVTX range. `end_ns` -1: still open when the recording ended.
struct TraceRange {
  std::string name;
  std::string domain;
  std::int64_t thread = 0;
  std::int64_t id = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = -1;
  bool operator==(const TraceRange&) const = default;
};

/// A collective or message as requested from NCCL.
struct TraceCollective {
  std::string name;       ///< "AllReduce", "Send"
  std::string type;       ///< "ncclBfloat16"
  std::string algorithm;  ///< "RING"; "" if unknown
  std::string protocol;   ///< "SIMPLE"
  std::uint64_t communicator = 0;
  int rank = 0;
  int ranks = 1;
  int peer = -1;           ///< of a message
  std::int64_t count = 0;  ///< elements of the larger buffer, as nccl-tests counts them
  /// Among the communicator's calls of this function, of messages with this peer. -1: not recorded; calls are in their order.
  std::int64_t sequence = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;  ///< equal to start_ns: not timed on the GPU
  int nodes = 0;            ///< hosts of the communicator; 0: unknown
  std::int64_t launch =
      0;  ///< TraceExternal::id of the launch of its kernel; below 0: a number of its kernel; 0: unknown
  bool operator==(const TraceCollective&) const = default;
};

/// Largest TraceCollective::sequence of another profiler.
inline constexpr std::int64_t kMaxSequence = (std::int64_t{1} << 48) - 1;

/// An id that was current on the thread when it made the call with this correlation.
struct TraceExternal {
  std::int64_t kind = 0;
  std::int64_t id = 0;
  std::int64_t correlation = 0;
  bool operator==(const TraceExternal&) const = default;
};

/// What an external id of the kind kRecorderIds stands for: an operator's name, or a text as a range has ("aten::mm, sizes = …").
struct TraceOperator {
  std::int64_t id = 0;
  std::string name;
  bool operator==(const TraceOperator&) const = default;
};

/// A GPU that the process sees.
struct TraceDevice {
  std::int64_t id = 0;
  std::string name;
  std::string capability;  ///< "9.0"
  std::int64_t multiprocessors = 0;
  std::int64_t memory = 0;  ///< bytes
  bool mig = false;         ///< a slice of a GPU
  bool operator==(const TraceDevice&) const = default;
};

/// TraceExternal::kind of the recorder's own ids, of launches by NCCL and of operators: CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2.
/// PyTorch's profiler uses the two other kinds that CUPTI leaves to its clients.
inline constexpr std::int64_t kRecorderIds = 5;
/// Ids of operators count from here, those of launches from 1.
inline constexpr std::int64_t kFirstOperatorId = std::int64_t{1} << 40;

struct Trace {
  TraceHeader header;
  std::vector<TraceKernel> kernels;
  std::vector<TraceCopy> copies;
  std::vector<TraceCall> calls;
  std::vector<TraceRange> ranges;
  std::vector<TraceCollective> collectives;
  std::vector<TraceExternal> externals;
  std::vector<TraceOperator> operators;
  std::vector<TraceDevice> devices;
  std::int64_t overhead_ns = 0;  ///< time that recording took from the program's threads
  std::int64_t dropped = 0;      ///< records that could not be buffered or had no times
  bool complete = false;         ///< the end record was read; false: the program was killed, or the file is truncated
  std::int64_t records = 0;      ///< number read
  std::int64_t left_out = 0;     ///< lines behind those, not read because memory is limited
  bool operator==(const Trace&) const = default;
};

}  // namespace tracecast
