/// \file
/// Writes a trace while it is recorded. Thread-safe: CUPTI hands buffers over on threads of its own.
///
/// Used inside programs that are recorded: it needs nothing but the C++ library, never throws, and after a write that
/// failed (a full disk) it goes on without writing.
#pragma once

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tracer/trace.hpp"

namespace tracecast {

class TraceWriter {
 public:
  /// The file appears with its header. `good()` says whether it could be made.
  TraceWriter(const std::string& path, const TraceHeader& header);
  ~TraceWriter();  ///< without finish(): a trace that is not complete
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
  void dropped(std::int64_t records);
  /// Brings what was written so far to disk.
  void flush();
  /// The last record: the trace is complete.
  void finish();
  bool good() const { return file_ != nullptr; }

 private:
  /// Number of a string, which is written when it is new. Requires the lock.
  std::int64_t string_number(std::string_view text);
  void line(const char* format, ...) __attribute__((format(printf, 2, 3)));

  std::mutex mutex_;
  std::FILE* file_ = nullptr;
  std::unordered_map<std::string, std::int64_t> strings_;
  std::int64_t records_ = 0;
};

/// The whole of a trace; read_trace gives it back. False: not written (a full disk, a folder that is not there).
bool write_trace(const std::string& path, const Trace& trace);

/// `text` as a JSON string, quotes included; bytes that are no ASCII characters are written as they are.
std::string json_string(std::string_view text);

}  // namespace tracecast
