#include "tracer/trace_writer.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

namespace tracecast {

namespace {

/// Length in bytes of the UTF-8 character at the start of `text`; 0: invalid.   Source: Unicode 15, table 3-7.
std::size_t character_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&byte](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) > 0x9F;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool too_large = first == 0xF4 && byte(1) > 0x8F;
    return follows(1) && follows(2) && follows(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (std::size_t length = 1; !text.empty(); text.remove_prefix(length)) {
    const std::size_t whole = character_length(text);
    length = whole == 0 ? 1 : whole;
    const char c = text.front();
    if (whole == 0) {
      result += "\xEF\xBF\xBD";  // U+FFFD: CUDA and NVTX names are arbitrary bytes, and JSON is UTF-8
    } else if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      result += escape;
    } else {
      result += text.substr(0, length);
    }
  }
  return result + '"';
}

bool write_trace(const std::string& path, const Trace& trace) {
  TraceWriter writer(path, trace.header);
  for (const TraceCall& c : trace.calls) writer.call(c.thread, c.correlation, c.start_ns, c.end_ns, c.name);
  for (const TraceRange& r : trace.ranges) {
    writer.range_begin(r.name, r.domain, r.thread, r.id, r.start_ns);
    if (r.end_ns >= r.start_ns) writer.range_end(r.id, r.end_ns);
  }
  for (const TraceKernel& k : trace.kernels)
    writer.kernel(k.name, k.device, k.stream, k.correlation, k.start_ns, k.end_ns, k.blocks, k.threads);
  for (const TraceCopy& c : trace.copies)
    writer.copy(c.kind, c.device, c.stream, c.correlation, c.bytes, c.start_ns, c.end_ns);
  for (const TraceCollective& c : trace.collectives) writer.collective(c);
  for (const TraceExternal& e : trace.externals) writer.external(e.kind, e.id, e.correlation);
  for (const TraceOperator& o : trace.operators) writer.operator_id(o.id, o.name);
  for (const TraceDevice& d : trace.devices) writer.device(d);
  if (trace.overhead_ns > 0) writer.overhead(trace.overhead_ns);
  if (trace.dropped > 0) writer.dropped(trace.dropped);
  return trace.complete ? writer.finish() : writer.flush();
}

TraceWriter::TraceWriter(const std::string& path, const TraceHeader& header)
    : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (file_ < 0) return;
  const std::string error = header.error.empty() ? "" : ",\"error\":" + json_string(header.error);
  line(
      "{\"format\":\"tracecast trace 1\",\"recorder\":%s,\"clock\":%s,\"date\":%s,\"gpu\":%s,\"driver\":%s,\"cuda\":%s,"
      "\"nccl\":%s,\"process\":%" PRId64 ",\"rank\":%d,\"ranks\":%d%s}",
      json_string(header.recorder).c_str(), json_string(header.clock).c_str(), json_string(header.date).c_str(),
      json_string(header.gpu).c_str(), json_string(header.driver).c_str(), json_string(header.cuda).c_str(),
      json_string(header.nccl).c_str(), header.process, header.rank, header.ranks, error.c_str());
  flush();
}

TraceWriter::~TraceWriter() {
  write_out();
  close_file();
}

bool TraceWriter::close_file() {
  const bool closed = file_ >= 0 && close(file_) == 0;
  file_ = -1;
  return closed;
}

void TraceWriter::write_out() {
  std::string_view rest = unwritten_;
  while (file_ >= 0 && !rest.empty()) {
    const ssize_t written = write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) close_file();
    rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(0, written)));
  }
  unwritten_.clear();
}

void TraceWriter::line(const char* format, ...) {
  if (file_ < 0) return;
  constexpr std::size_t kMostUnwritten = std::size_t{1} << 20;
  const std::size_t before = unwritten_.size();
  std::size_t room = 256;
  for (;;) {
    unwritten_.resize(before + room);
    std::va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(unwritten_.data() + before, room, format, arguments);
    va_end(arguments);
    const auto needed = static_cast<std::size_t>(std::max(0, length));
    if (needed >= room) {
      room = needed + 1;
      continue;
    }
    unwritten_.resize(before + needed);
    break;
  }
  unwritten_ += '\n';
  if (unwritten_.size() >= kMostUnwritten) write_out();
}

std::int64_t TraceWriter::string_number(std::string_view text) {
  const auto [found, added] = strings_.try_emplace(std::string(text), static_cast<std::int64_t>(strings_.size()));
  if (added) line("[\"string\",%" PRId64 ",%s]", found->second, json_string(text).c_str());
  return found->second;
}

void TraceWriter::kernel(std::string_view name, std::int64_t device, std::int64_t stream, std::int64_t correlation,
                         std::int64_t start_ns, std::int64_t end_ns, std::int64_t blocks, std::int64_t threads) {
  const std::lock_guard lock(mutex_);
  const std::int64_t number = string_number(name);
  line("[\"kernel\",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]",
       number, device, stream, correlation, start_ns, end_ns, blocks, threads);
  ++records_;
}

void TraceWriter::copy(std::string_view kind, std::int64_t device, std::int64_t stream, std::int64_t correlation,
                       std::int64_t bytes, std::int64_t start_ns, std::int64_t end_ns) {
  const std::lock_guard lock(mutex_);
  const std::int64_t number = string_number(kind);
  line("[\"copy\",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", number, device,
       stream, correlation, bytes, start_ns, end_ns);
  ++records_;
}

void TraceWriter::call(std::int64_t thread, std::int64_t correlation, std::int64_t start_ns, std::int64_t end_ns,
                       std::string_view name) {
  const std::lock_guard lock(mutex_);
  const std::int64_t number = string_number(name);
  line("[\"call\",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", thread, correlation, start_ns, end_ns,
       number);
  ++records_;
}

void TraceWriter::range_begin(std::string_view name, std::string_view domain, std::int64_t thread, std::int64_t id,
                              std::int64_t time_ns) {
  const std::lock_guard lock(mutex_);
  const std::int64_t name_number = string_number(name);
  const std::int64_t domain_number = string_number(domain);
  line("[\"range\",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", name_number, domain_number, thread,
       id, time_ns);
  ++records_;
}

void TraceWriter::range_end(std::int64_t id, std::int64_t time_ns) {
  const std::lock_guard lock(mutex_);
  line("[\"range end\",%" PRId64 ",%" PRId64 "]", id, time_ns);
  ++records_;
}

void TraceWriter::collective(const TraceCollective& c) {
  const std::lock_guard lock(mutex_);
  const std::int64_t name = string_number(c.name);
  const std::int64_t type = string_number(c.type);
  const std::int64_t algorithm = string_number(c.algorithm);
  const std::int64_t protocol = string_number(c.protocol);
  // The communicator is a 64-bit hash, written as text: many JSON readers are exact only up to 53 bits.
  line("[\"collective\",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",\"%016" PRIx64 "\",%d,%d,%d,%" PRId64
       ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%d,%" PRId64 "]",
       name, type, algorithm, protocol, c.communicator, c.rank, c.ranks, c.peer, c.count, c.sequence, c.start_ns,
       c.end_ns, c.nodes, c.launch);
  ++records_;
}

void TraceWriter::external(std::int64_t kind, std::int64_t id, std::int64_t correlation) {
  const std::lock_guard lock(mutex_);
  line("[\"external\",%" PRId64 ",%" PRId64 ",%" PRId64 "]", kind, id, correlation);
  ++records_;
}

void TraceWriter::operator_id(std::int64_t id, std::string_view name) {
  const std::lock_guard lock(mutex_);
  const std::int64_t number = string_number(name);
  line("[\"operator\",%" PRId64 ",%" PRId64 "]", id, number);
  ++records_;
}

void TraceWriter::dropped(std::int64_t records) {
  const std::lock_guard lock(mutex_);
  line("[\"dropped\",%" PRId64 "]", records);
}

void TraceWriter::device(const TraceDevice& d) {
  const std::lock_guard lock(mutex_);
  const std::int64_t name = string_number(d.name);
  const std::int64_t capability = string_number(d.capability);
  line("[\"device\",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%d]", d.id, name, capability,
       d.multiprocessors, d.memory, d.mig ? 1 : 0);
  ++records_;
}

void TraceWriter::library(std::string_view name, std::string_view version) {
  const std::lock_guard lock(mutex_);
  const std::int64_t name_number = string_number(name);
  const std::int64_t version_number = string_number(version);
  line("[\"library\",%" PRId64 ",%" PRId64 "]", name_number, version_number);
  ++records_;
}

void TraceWriter::overhead(std::int64_t ns) {
  const std::lock_guard lock(mutex_);
  line("[\"overhead\",%" PRId64 "]", ns);
  ++records_;
}

bool TraceWriter::flush() {
  const std::lock_guard lock(mutex_);
  write_out();
  return good();
}

bool TraceWriter::finish() {
  const std::lock_guard lock(mutex_);
  line("[\"end\",%" PRId64 "]", records_);
  write_out();
  return close_file();
}

}  // namespace tracecast
