#include "sim/io/trace_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include <cxxabi.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/integers.hpp"
#include "sim/io/compressed.hpp"
#include "sim/io/trace_summary.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "tracecast trace 1";

/// Of times in nanoseconds, before and after 0: 73 years, so that the difference of two fits.
constexpr std::int64_t kLatest = std::int64_t{1} << 61;

/// A C++ name in the compiler's form, as CUPTI gives it, in readable form; other names unchanged.
std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && text ? std::string(text.get()) : name;
}

/// One parsed line. `good` becomes false if a field is missing, has the wrong type, or names an unknown string.
class Fields {
 public:
  Fields(const Json& line, const std::vector<std::string>& strings) : line_(line), strings_(strings) {}

  std::int64_t integer() {
    const Json* field = next();
    if (field == nullptr || !field->is_number_integer()) return bad(), 0;
    return field->get<std::int64_t>();
  }
  /// Nanoseconds.
  std::int64_t time() {
    const std::int64_t value = integer();
    if (value < -kLatest || value > kLatest) return bad(), 0;
    return value;
  }
  int small() {
    const std::int64_t value = integer();
    if (value < INT32_MIN || value > INT32_MAX) return bad(), 0;
    return static_cast<int>(value);
  }
  std::string string() {
    const std::int64_t number = integer();
    if (number < 0 || number >= static_cast<std::int64_t>(strings_.size())) return bad(), "";
    return strings_[static_cast<std::size_t>(number)];
  }
  std::string text() {
    const Json* field = next();
    if (field == nullptr || !field->is_string()) return bad(), "";
    return field->get<std::string>();
  }
  std::uint64_t hexadecimal() {
    const std::string digits = text();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || end != digits.data() + digits.size()) bad();
    return value;
  }
  /// Fields are left.
  bool more() const { return at_ < line_.size(); }
  /// All fields were good and none is left.
  bool done() const { return good_ && at_ == line_.size(); }

 private:
  const Json* next() { return at_ < line_.size() ? &line_[at_++] : nullptr; }
  void bad() { good_ = false; }

  const Json& line_;
  const std::vector<std::string>& strings_;
  std::size_t at_ = 1;
  bool good_ = true;
};

class TraceReader {
 public:
  static bool is_trace(const Json& line) { return line.is_object() && line.value("format", Json()) == kFormat; }

  /// False: a field has the wrong type or is out of range. Requires is_trace.
  bool header(const Json& line) {
    bool good = true;
    const auto text = [&](const char* key) {
      const auto found = line.find(key);
      if (found == line.end()) return std::string();
      good = good && found->is_string();
      return found->is_string() ? found->get<std::string>() : "";
    };
    const auto integer = [&](const char* key, std::int64_t absent, std::int64_t largest) {
      const auto found = line.find(key);
      if (found == line.end()) return absent;
      const std::int64_t value = found->is_number_integer() ? found->get<std::int64_t>() : INT64_MIN;
      good = good && value >= -largest && value <= largest;
      return good ? value : absent;
    };
    const auto small = [&](const char* key) { return static_cast<int>(integer(key, -1, INT32_MAX)); };
    trace_.header = {text("recorder"), text("clock"),  text("date"), text("gpu"),
                     text("driver"),   text("cuda"),   text("nccl"), integer("process", 0, INT64_MAX),
                     small("rank"),    small("ranks"), text("error")};
    return good;
  }

  /// False: not a record of this format.
  bool record(const Json& line) {
    if (!line.is_array() || line.empty() || !line[0].is_string()) return false;
    const auto& known = kinds();
    const auto kind = known.find(line[0].get<std::string>());
    if (kind == known.end()) return false;
    Fields fields(line, strings_);
    return (this->*kind->second)(fields) && fields.done();
  }

  /// Bytes that the records take.
  std::size_t memory() const { return memory_; }

  /// A line behind those that are read.
  void leave_out(std::string_view line) {
    if (line.starts_with("[\"end\"")) {
      trace_.complete = true;
    } else if (!line.starts_with("[\"string\"")) {
      ++trace_.left_out;
    }
  }

  /// Leaves out what began before half of the kernels did. False: that frees too little memory to be worth doing again.
  bool forget_older_half() {
    std::vector<std::int64_t> starts;
    for (const TraceKernel& kernel : trace_.kernels) starts.push_back(kernel.start_ns);
    if (starts.empty()) return false;
    const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
    std::nth_element(starts.begin(), middle, starts.end());
    const auto older = [since = *middle](const auto& record) { return record.start_ns < since; };
    trace_.left_out +=
        static_cast<std::int64_t>(std::erase_if(trace_.kernels, older) + std::erase_if(trace_.copies, older) +
                                  std::erase_if(trace_.calls, older) + std::erase_if(trace_.ranges, older) +
                                  std::erase_if(trace_.collectives, older) + forget_older_ids());
    open_.clear();
    for (std::size_t i = 0; i < trace_.ranges.size(); ++i)
      if (trace_.ranges[i].end_ns < 0) open_[trace_.ranges[i].id] = i;
    const std::size_t before = std::exchange(memory_, memory_of(trace_));
    return memory_ < before - before / 4;
  }

  Trace take() {
    if (trace_.header.gpu.empty() && !trace_.devices.empty()) trace_.header.gpu = name_of_used_device();
    return std::move(trace_);
  }

 private:
  /// Numbers of calls and of operators grow with time, and an id may come before its call.
  std::size_t forget_older_ids() {
    std::int64_t first_call = INT64_MAX;
    std::int64_t first_operator = INT64_MAX;
    for (const TraceCall& call : trace_.calls) first_call = std::min(first_call, call.correlation);
    const std::size_t forgotten =
        std::erase_if(trace_.externals, [&](const TraceExternal& id) { return id.correlation < first_call; });
    for (const TraceExternal& external : trace_.externals)
      if (external.kind == kRecorderIds && external.id >= kFirstOperatorId)
        first_operator = std::min(first_operator, external.id);
    return forgotten +
           std::erase_if(trace_.operators, [&](const TraceOperator& each) { return each.id < first_operator; });
  }

  static std::size_t memory_of(const Trace& trace) {
    std::size_t bytes =
        trace.collectives.size() * sizeof(TraceCollective) + trace.externals.size() * sizeof(TraceExternal);
    for (const TraceKernel& each : trace.kernels) bytes += sizeof each + each.name.size();
    for (const TraceCopy& each : trace.copies) bytes += sizeof each + each.kind.size();
    for (const TraceCall& each : trace.calls) bytes += sizeof each + each.name.size();
    for (const TraceRange& each : trace.ranges) bytes += sizeof each + each.name.size();
    for (const TraceOperator& each : trace.operators) bytes += sizeof each + each.name.size();
    return bytes;
  }

  std::string name_of_used_device() const {
    const std::int64_t used = trace_.kernels.empty() ? trace_.devices.front().id : trace_.kernels.front().device;
    for (const TraceDevice& each : trace_.devices)
      if (each.id == used) return each.name;
    return trace_.devices.front().name;
  }

  using Method = bool (TraceReader::*)(Fields&);
  static const std::map<std::string, Method>& kinds() {
    static const std::map<std::string, Method> kKinds{{"string", &TraceReader::string},
                                                      {"kernel", &TraceReader::kernel},
                                                      {"copy", &TraceReader::copy},
                                                      {"call", &TraceReader::call},
                                                      {"range", &TraceReader::range},
                                                      {"range end", &TraceReader::range_end},
                                                      {"collective", &TraceReader::collective},
                                                      {"external", &TraceReader::external},
                                                      {"operator", &TraceReader::named_id},
                                                      {"device", &TraceReader::device},
                                                      {"library", &TraceReader::library},
                                                      {"overhead", &TraceReader::overhead},
                                                      {"dropped", &TraceReader::dropped},
                                                      {"end", &TraceReader::end}};
    return kKinds;
  }

  bool string(Fields& f) {
    const bool next = f.integer() == static_cast<std::int64_t>(strings_.size());
    strings_.push_back(demangled(f.text()));
    return next;
  }
  // A braced list evaluates its fields from left to right.
  bool kernel(Fields& f) {
    trace_.kernels.push_back(
        TraceKernel{f.string(), f.integer(), f.integer(), f.integer(), f.time(), f.time(), f.integer(), f.integer()});
    return counted(sizeof(TraceKernel) + trace_.kernels.back().name.size());
  }
  bool copy(Fields& f) {
    trace_.copies.push_back(
        TraceCopy{f.string(), f.integer(), f.integer(), f.integer(), f.integer(), f.time(), f.time()});
    return counted(sizeof(TraceCopy) + trace_.copies.back().kind.size());
  }
  bool call(Fields& f) {
    trace_.calls.push_back(TraceCall{f.integer(), f.integer(), f.time(), f.time(), f.string()});
    return counted(sizeof(TraceCall) + trace_.calls.back().name.size());
  }
  bool range(Fields& f) {
    trace_.ranges.push_back(TraceRange{f.string(), f.string(), f.integer(), f.integer(), f.time(), -1});
    open_[trace_.ranges.back().id] = trace_.ranges.size() - 1;
    return counted(sizeof(TraceRange) + trace_.ranges.back().name.size());
  }
  /// CUPTI delivers records in per-thread buffers: an end may name a range that another buffer brings later, or one that
  /// began before the recording. Such ends are ignored.
  bool range_end(Fields& f) {
    const std::int64_t id = f.integer();
    const std::int64_t time = f.time();
    const auto found = open_.find(id);
    if (found != open_.end()) {
      trace_.ranges[found->second].end_ns = time;
      open_.erase(found);
    }
    return counted();
  }
  bool collective(Fields& f) {
    trace_.collectives.push_back(TraceCollective{f.string(), f.string(), f.string(), f.string(), f.hexadecimal(),
                                                 f.small(), f.small(), f.small(), f.integer(), f.integer(), f.time(),
                                                 f.time(), f.more() ? f.small() : 0, f.more() ? f.integer() : 0});
    return counted(sizeof(TraceCollective));
  }
  bool external(Fields& f) {
    trace_.externals.push_back(TraceExternal{f.integer(), f.integer(), f.integer()});
    return counted(sizeof(TraceExternal));
  }
  bool named_id(Fields& f) {
    trace_.operators.push_back(TraceOperator{f.integer(), f.string()});
    return counted(sizeof(TraceOperator) + trace_.operators.back().name.size());
  }
  bool device(Fields& f) {
    trace_.devices.push_back(
        TraceDevice{f.integer(), f.string(), f.string(), f.integer(), f.integer(), f.integer() != 0});
    return counted();
  }
  /// A library that the program has loaded after the recording began.
  bool library(Fields& f) {
    const std::string name = f.string();
    const std::string version = f.string();
    if (name == "nccl") trace_.header.nccl = version;
    return counted();
  }
  bool overhead(Fields& f) { return add_count(trace_.overhead_ns, f.integer()) && counted(); }
  bool dropped(Fields& f) { return add_count(trace_.dropped, f.integer()); }
  bool end(Fields& f) {
    trace_.complete = f.integer() == trace_.records;
    return trace_.complete;
  }
  bool counted(std::size_t bytes = 0) {
    ++trace_.records;
    memory_ += bytes;
    return true;
  }

  Trace trace_;
  std::size_t memory_ = 0;
  std::vector<std::string> strings_;
  std::unordered_map<std::int64_t, std::size_t> open_;  // [id of a range that has not ended]
};

}  // namespace

bool is_trace_file(const std::filesystem::path& path) {
  std::string first;
  PackedLines lines(path);
  return lines.good() && lines.next(first) && is_trace(first);
}

bool is_trace(std::string_view content) { return content.starts_with("{\"format\":\"tracecast trace"); }

Result<Trace> read_trace(const std::filesystem::path& path, std::size_t most_memory, TracePart part) {
  PackedLines file(path);
  if (!file.good()) return fail({path.string(), 0, "", "", "cannot be read"});
  TraceReader reader;
  std::string text;
  int number = 0;
  while (file.next(text)) {
    ++number;
    if (reader.memory() > most_memory && part == TracePart::last && !reader.forget_older_half())
      part = TracePart::first;
    if (reader.memory() > most_memory) {
      reader.leave_out(text);
      continue;
    }
    const Json line = Json::parse(text, nullptr, false);
    if (number == 1) {
      if (!TraceReader::is_trace(line))
        return fail(
            {path.string(), 1, "", "", fmt::format("not a trace: the first line has no \"format\": \"{}\"", kFormat)});
      if (!reader.header(line)) return fail({path.string(), 1, "", "", "not a trace header"});
      continue;
    }
    if (line.is_discarded() && file.cut()) break;
    if (!reader.record(line)) return fail({path.string(), number, "", "", "not a trace record"});
  }
  if (number == 0) return fail({path.string(), 0, "", "", "is empty"});
  return reader.take();
}

Result<TraceSummary> trace_summary(const std::filesystem::path& path) {
  PackedLines file(path);
  std::string text;
  if (!file.good() || !file.next(text)) return fail({path.string(), 0, "", "", "cannot be read"});
  TraceReader reader;
  const Json first = Json::parse(text, nullptr, false);
  if (!TraceReader::is_trace(first) || !reader.header(first)) return fail({path.string(), 1, "", "", "not a trace"});
  TraceSummary summary;
  summary.header = reader.take().header;
  std::int64_t begin = kLatest;
  std::int64_t end = 0;
  while (file.next(text)) {
    const auto is = [&text](std::string_view kind) { return text.starts_with(kind); };
    if (is("[\"kernel\"")) {
      ++summary.kernels;
      const Json line = Json::parse(text, nullptr, false);
      if (!line.is_array() || line.size() < 7 || !line[5].is_number_integer() || !line[6].is_number_integer()) continue;
      begin = std::min(begin, std::max(-kLatest, line[5].get<std::int64_t>()));
      end = std::max(end, std::min(kLatest, line[6].get<std::int64_t>()));
    }
    if (is("[\"copy\"")) ++summary.copies;
    if (is("[\"range\"")) ++summary.ranges;
    if (is("[\"collective\"")) ++summary.collectives;
    if (is("[\"end\"")) summary.complete = true;
    if (is("[\"dropped\"") || is("[\"overhead\"")) {
      const Json line = Json::parse(text, nullptr, false);
      if (!line.is_array() || line.size() < 2 || !line[1].is_number_integer()) continue;
      add_count(is("[\"dropped\"") ? summary.dropped : summary.overhead_ns, line[1].get<std::int64_t>());
    }
  }
  summary.span_ns = std::max<std::int64_t>(0, end - begin);
  return summary;
}

}  // namespace tracecast
