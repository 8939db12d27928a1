/// \file
/// Writes a trace during recording. Thread-safe: CUPTI delivers buffers on its own threads.
///
/// Runs inside the recorded program: it needs only the C++ library and never throws. After a failed write (a full disk) it
/// stops writing. What is not written yet is in memory of its own, not in a C stream, so that a forked child's exit writes nothing.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "sim/io/trace.hpp"

namespace tracecast {

class TraceWriter {
 public:
  /// Creates the file with its header. `good()` says whether this succeeded.
  TraceWriter(const std::string& path, const TraceHeader& header);
  ~TraceWriter();  ///< without finish() the trace is incomplete
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void kernel(std::string_view name, std::int64_t device, std::int64_t stream, std::int64_t correlation,
              std::int64_t start_ns, std::int64_t end_ns, std::int64_t blocks, std::int64_t threads);
  void copy(std::string_view kind, std::int64_t device, std::int64_t stream, std::int64_t correlation,
            std::int64_t bytes, std::int64_t start_ns, std::int64_t end_ns);
  void call(std::int64_t thread, std::int64_t correlation, std::int64_t start_ns, std::int64_t end_ns,
            std::string_view name);
  void range_begin(std::string_view name, std::string_view domain, std::int64_t thread, std::int64_t id,
                   std::int64_t time_ns);
  void range_end(std::int64_t id, std::int64_t time_ns);
  void collective(const TraceCollective& collective);
  void external(std::int64_t kind, std::int64_t id, std::int64_t correlation);
  void operator_id(std::int64_t id, std::string_view name);
  void device(const TraceDevice& device);
  void library(std::string_view name, std::string_view version);
  void overhead(std::int64_t ns);
  void dropped(std::int64_t records);
  /// Writes what is in memory. False: this or an earlier write failed.
  bool flush();
  /// Writes the last record, which marks the trace as complete, and flushes. False: as flush().
  bool finish();
  /// False: the file could not be created, or a write has failed. What is in memory may still fail.
  bool good() const { return file_ >= 0; }

 private:
  /// Number of a string; a new string is written first. Requires the lock.
  std::int64_t string_number(std::string_view text);
  void line(const char* format, ...) __attribute__((format(printf, 2, 3)));

  std::mutex mutex_;
  /// Writes what is in memory. Requires the lock.
  void write_out();
  bool close_file();  ///< false: a write failed before, or closing did

  int file_ = -1;
  std::string unwritten_;
  std::unordered_map<std::string, std::int64_t> strings_;
  std::int64_t records_ = 0;
};

/// Writes a whole trace; read_trace reads it back. False: writing failed (a full disk, a missing folder).
bool write_trace(const std::string& path, const Trace& trace);

/// `text` as a JSON string with quotes; non-ASCII characters are not escaped.
std::string json_string(std::string_view text);

}  // namespace tracecast
