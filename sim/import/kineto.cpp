// PyTorch profiler traces: Chrome Trace Event JSON, read event by event, so that memory goes by what a trace keeps.

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/hash.hpp"
#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/kernel_names.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::json;

/// Values as they were written (strings without their quotes); lists as text: "[4096, 4096]".
using Members = std::map<std::string, std::string, std::less<>>;

struct Event {
  Members fields;
  Members arguments;
  std::string_view field(std::string_view key) const { return find(fields, key); }
  std::string_view argument(std::string_view key) const { return find(arguments, key); }

 private:
  static std::string_view find(const Members& members, std::string_view key) {
    const auto found = members.find(key);
    return found == members.end() ? std::string_view{} : std::string_view(found->second);
  }
};

std::optional<std::int64_t> integer_of(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || (end != text.data() + text.size() && *end != '.')) return std::nullopt;
  return value;
}

/// Microseconds as decimal text in integer nanoseconds; digits behind the third are dropped. An epoch in microseconds with
/// three decimals has more digits than a double.
std::optional<std::int64_t> nanoseconds_of(std::string_view text) {
  constexpr std::int64_t kMax = std::int64_t{4'000'000'000'000'000};  // us: the year 2096
  if (text.find_first_of("eE") != std::string_view::npos) {
    const double value = std::strtod(std::string(text).c_str(), nullptr);
    if (!(value >= 0 && value < 4e15)) return std::nullopt;
    return static_cast<std::int64_t>(value * 1e3);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::optional<std::int64_t> whole = integer_of(text.substr(0, point));
  if (!whole || *whole > kMax || text.find('-') != std::string_view::npos) return std::nullopt;
  std::int64_t thousandths = 0;
  std::int64_t weight = 100;
  for (std::size_t i = point + 1; i < text.size() && weight > 0; ++i, weight /= 10) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    thousandths += weight * (text[i] - '0');
  }
  return *whole * 1000 + thousandths;
}

/// "[8, 1, 1]" is 8.
std::int64_t product_of(std::string_view list) {
  std::int64_t product = list.empty() ? 0 : 1;
  for (std::size_t at = list.find_first_of("0123456789"); at != std::string_view::npos;
       at = list.find_first_of("0123456789", list.find_first_not_of("0123456789", at))) {
    const auto value = integer_of(list.substr(at, list.find_first_not_of("0123456789", at) - at));
    product *= std::clamp<std::int64_t>(value.value_or(0), 0, 1 << 20);
    if (product > (std::int64_t{1} << 40)) return product;
    if (list.find_first_not_of("0123456789", at) == std::string_view::npos) break;
  }
  return product;
}

/// Turns events into records of a trace.
class Recorder {
 public:
  explicit Recorder(std::string file) : file_(std::move(file)) {
    result_.format = "PyTorch profiler (Kineto)";
    result_.trace.header.recorder = "kineto";
    result_.trace.header.clock = "kineto nanoseconds";
  }

  /// False: the event is damaged; error() says how.
  bool take(const Event& event) {
    ++events_;
    if (event.field("ph") != "X") return true;
    const std::string category = lower_case(event.field("cat"));
    const bool wanted = is_gpu(category) || is_call(category) || is_range(category);
    if (!wanted) {
      if (!category.empty() && category != "trace") ++skipped_[category];
      return true;
    }
    const auto start = nanoseconds_of(event.field("ts"));
    if (!start) return fail_event("ts", event.field("ts"), "must be a time in microseconds, from 0");
    const auto duration = nanoseconds_of(event.field("dur"));
    if (!duration) return fail_event("dur", event.field("dur"), "must be a duration in microseconds, from 0");
    const std::int64_t end = *start + *duration;
    if (category == "kernel")
      kernel(event, *start, end);
    else if (is_gpu(category))
      copy(event, *start, end);
    else if (is_call(category))
      result_.trace.calls.push_back(
          {number(event, "tid"), argument(event, "correlation"), *start, end, std::string(event.field("name"))});
    else
      range(event, category, *start, end);
    return true;
  }

  TraceHeader& header() { return result_.trace.header; }
  const std::optional<Error>& error() const { return error_; }

  Result<ImportedTrace> finish() {
    Trace& trace = result_.trace;
    if (trace.kernels.empty() && trace.copies.empty())
      return fail({file_, 0, "traceEvents", "",
                   fmt::format("has no kernel or copy among {} events: the GPU was not recorded (profile with "
                               "ProfilerActivity.CUDA)",
                               events_)});
    name_kernels_without_call();
    // Events of several streams may be written one stream after the other. Calls without numbers are known by their order.
    std::ranges::stable_sort(trace.collectives, {}, &TraceCollective::start_ns);
    for (TraceCollective& each : trace.collectives) each.rank = trace.header.rank;
    trace.records = static_cast<std::int64_t>(trace.kernels.size() + trace.copies.size() + trace.calls.size() +
                                              trace.ranges.size() + trace.collectives.size() + trace.externals.size() +
                                              trace.operators.size());
    trace.complete = true;
    result_.found = {{"kernels", static_cast<std::int64_t>(trace.kernels.size())},
                     {"copies and memsets", static_cast<std::int64_t>(trace.copies.size())},
                     {"calls", static_cast<std::int64_t>(trace.calls.size())},
                     {"ranges", static_cast<std::int64_t>(trace.ranges.size())},
                     {"collectives", static_cast<std::int64_t>(trace.collectives.size())}};
    for (const auto& [category, count] : skipped_)
      result_.notes.push_back(fmt::format("{} events of category {} were left out", count, shortened(category)));
    return std::move(result_);
  }

 private:
  static bool is_gpu(const std::string& c) { return c == "kernel" || is_copy(c); }
  static bool is_copy(const std::string& c) {
    return c == "gpu_memcpy" || c == "gpu_memset" || c == "memcpy" || c == "memset";
  }
  static bool is_call(const std::string& c) {
    return c == "cuda_runtime" || c == "cuda_driver" || c == "runtime" || c == "driver";
  }
  static bool is_range(const std::string& c) { return c == "cpu_op" || c == "operator" || c == "user_annotation"; }

  std::int64_t number(const Event& event, std::string_view key) const {
    return integer_of(event.field(key)).value_or(-1);
  }
  std::int64_t argument(const Event& event, std::string_view key, std::int64_t otherwise = -1) const {
    return integer_of(event.argument(key)).value_or(otherwise);
  }
  std::int64_t device(const Event& event) const { return argument(event, "device", number(event, "pid")); }
  std::int64_t stream(const Event& event) const { return argument(event, "stream", number(event, "tid")); }

  void kernel(const Event& event, std::int64_t start, std::int64_t end) {
    result_.trace.kernels.push_back({std::string(event.field("name")), device(event), stream(event),
                                     argument(event, "correlation"), start, end, product_of(event.argument("grid")),
                                     product_of(event.argument("block"))});
    if (const std::int64_t id = argument(event, "External id"); id > 0)
      operator_of_.emplace_back(result_.trace.kernels.back().correlation, id);
    if (!event.argument("Collective name").empty()) collective(event, start, end);
  }

  /// Kineto gives a kernel the id of the operator that launched it. Where the call is recorded, ranges say more.
  void name_kernels_without_call() {
    Trace& trace = result_.trace;
    std::unordered_set<std::int64_t> called;
    for (const TraceCall& call : trace.calls) called.insert(call.correlation);
    std::unordered_set<std::int64_t> named;
    for (const auto& [correlation, id] : operator_of_) {
      const auto range = range_of_.find(id);
      if (correlation <= 0 || called.contains(correlation) || range == range_of_.end()) continue;
      trace.externals.push_back({kRecorderIds, kFirstOperatorId + id, correlation});
      if (named.insert(id).second) trace.operators.push_back({kFirstOperatorId + id, trace.ranges[range->second].name});
    }
    if (!trace.externals.empty())
      result_.notes.push_back(fmt::format("{} kernels without a recorded call have the operator of their external id",
                                          trace.externals.size()));
  }

  void copy(const Event& event, std::int64_t start, std::int64_t end) {
    result_.trace.copies.push_back({copy_kind(event.field("name")), device(event), stream(event),
                                    argument(event, "correlation"),
                                    std::max<std::int64_t>(0, argument(event, "bytes", 0)), start, end});
  }

  static std::string copy_kind(std::string_view name) {
    if (name.starts_with("Memset")) return "memset";
    if (name.find("HtoD") != std::string_view::npos) return "host to device";
    if (name.find("DtoH") != std::string_view::npos) return "device to host";
    if (name.find("DtoD") != std::string_view::npos) return "device to device";
    if (name.find("PtoP") != std::string_view::npos) return "device to other device";
    return "other copy";
  }

  void collective(const Event& event, std::int64_t start, std::int64_t end) {
    TraceCollective c;
    const NcclKernel kernel = nccl_kernel(event.field("name"));
    c.name = std::string(event.argument("Collective name"));
    c.type = std::string(event.argument("dtype"));
    c.algorithm = kernel.algorithm;
    c.protocol = kernel.protocol;
    c.communicator = communicator(event);
    c.ranks = static_cast<int>(std::clamp<std::int64_t>(argument(event, "Group size", 1), 1, 1 << 24));
    c.peer = static_cast<int>(
        std::clamp<std::int64_t>(argument(event, "Dst Rank", argument(event, "Src Rank")), -1, 1 << 24));
    const std::int64_t in = argument(event, "In msg nelems", 0);
    const std::int64_t out = argument(event, "Out msg nelems", 0);
    c.count = std::clamp<std::int64_t>(std::max(in, out), 0, kMaxCollectiveBytes);
    c.sequence = std::clamp<std::int64_t>(argument(event, "Seq"), -1, kMaxSequence);
    if (c.name == "send" ||
        c.name == "recv") {  // named as NCCL does; their Seq counts the rank's own messages of the group
      c.name = c.name == "send" ? "Send" : "Recv";
      c.sequence = -1;
    }
    c.start_ns = start;
    c.end_ns = end;
    result_.trace.collectives.push_back(std::move(c));
  }

  /// Groups by name and members (the name alone is a number that several jobs use): the same in the files of all ranks.
  static std::uint64_t communicator(const Event& event) {
    return fnv_1a(event.argument("Process Group Ranks"), fnv_1a(event.argument("Process Group Name")));
  }

  void range(const Event& event, const std::string& category, std::int64_t start, std::int64_t end) {
    TraceRange range;
    range.name = std::string(event.field("name"));
    if (const auto sizes = event.argument("Input Dims"); !sizes.empty())
      range.name += fmt::format(", sizes = {}", sizes);
    range.domain = category == "user_annotation" ? "user_annotation" : "cpu_op";
    range.thread = number(event, "tid");
    range.id = static_cast<std::int64_t>(result_.trace.ranges.size());
    range.start_ns = start;
    range.end_ns = end;
    if (const std::int64_t id = argument(event, "External id"); id > 0 && id < kFirstOperatorId)
      range_of_.emplace(id, result_.trace.ranges.size());
    result_.trace.ranges.push_back(std::move(range));
  }

  bool fail_event(const char* key, std::string_view value, const char* message) {
    error_ = fail({file_, 0, fmt::format("traceEvents[{}].{}", events_ - 1, key), shortened(value), message}).value();
    return false;
  }

  std::string file_;
  ImportedTrace result_;
  std::int64_t events_ = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> operator_of_;  ///< correlation and external id of kernels
  std::unordered_map<std::int64_t, std::size_t> range_of_;          ///< [external id]
  std::map<std::string, std::int64_t> skipped_;
  std::optional<Error> error_;
};

/// Gives every event to the recorder as it ends, and keeps of the rest of the file what the header needs.
class Sax final : public nlohmann::json_sax<Json> {
 public:
  explicit Sax(Recorder& recorder) : recorder_(recorder) {}

  bool null() override { return value("null"); }
  bool boolean(bool v) override { return value(v ? "true" : "false"); }
  bool number_integer(number_integer_t v) override { return value(std::to_string(v)); }
  bool number_unsigned(number_unsigned_t v) override { return value(std::to_string(v)); }
  bool number_float(number_float_t, const string_t& text) override { return value(text); }
  bool string(string_t& text) override { return value(text); }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override {
    path_.push_back({key_, false});
    if (in_event() && path_.size() == kEventDepth) event_ = {};
    return path_.size() < 100;
  }
  bool end_object() override {
    const bool event = in_event() && path_.size() == kEventDepth;
    path_.pop_back();
    return !event || recorder_.take(event_);
  }
  bool start_array(std::size_t) override {
    if (path_.size() >= 100) return false;
    if (in_event() && path_.size() > kEventDepth) {
      if (lists_++ == 0) {
        list_.clear();
        list_key_ = key_;
      }
      if (!list_.empty() && !list_.ends_with('[')) list_ += ", ";
      list_ += '[';
    }
    path_.push_back({key_, true});
    if (path_.size() == 2 && key_ == "traceEvents") seen_events_ = true;
    return true;
  }
  bool end_array() override {
    path_.pop_back();
    if (lists_ == 0) return true;
    list_ += ']';
    if (--lists_ == 0 && path_.size() == kEventDepth + 1) event_.arguments[list_key_] = std::move(list_);
    if (lists_ == 0) list_.clear();
    return true;
  }
  bool key(string_t& text) override {
    key_ = std::move(text);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    damage_ = position;
    return false;
  }

  bool seen_events() const { return seen_events_; }
  std::optional<std::size_t> damage() const { return damage_; }

 private:
  struct Level {
    std::string key;
    bool list;
  };
  // The root is level 1, the list traceEvents level 2, an event level 3, its args level 4.
  static constexpr std::size_t kEventDepth = 3;

  bool in_event() const { return path_.size() >= kEventDepth && path_[1].list && path_[1].key == "traceEvents"; }

  bool value(std::string text) {
    if (lists_ > 0) {
      if (!list_.ends_with('[')) list_ += ", ";
      list_ += text;
    } else if (in_event()) {
      if (path_.size() == kEventDepth)
        event_.fields[key_] = std::move(text);
      else if (path_.size() == kEventDepth + 1 && path_.back().key == "args")
        event_.arguments[key_] = std::move(text);
    } else {
      head(text);
    }
    return true;
  }

  void head(const std::string& text) {
    TraceHeader& h = recorder_.header();
    const std::string_view parent = path_.empty() ? std::string_view{} : std::string_view(path_.back().key);
    const auto small = [&text] {
      return static_cast<int>(std::clamp<std::int64_t>(integer_of(text).value_or(-1), -1, 1 << 24));
    };
    if (parent == "distributedInfo" && key_ == "rank") h.rank = small();
    if (parent == "distributedInfo" && key_ == "world_size") h.ranks = small();
    if (parent == "distributedInfo" && key_ == "nccl_version") h.nccl = text;
    if (key_ == "name" && h.gpu.empty() && path_.size() > 1 && path_[1].key == "deviceProperties") h.gpu = text;
    if (path_.size() == 1 && key_ == "cuda_runtime_version") h.cuda = version(text);
    if (path_.size() == 1 && key_ == "cuda_driver_version") h.driver = version(text);
  }

  /// 12040 is 12.4.
  static std::string version(const std::string& text) {
    const std::int64_t number = integer_of(text).value_or(0);
    return number > 0 ? fmt::format("{}.{}", number / 1000, number % 1000 / 10) : "";
  }

  Recorder& recorder_;
  std::vector<Level> path_;
  std::string key_;
  Event event_;
  int lists_ = 0;  ///< depth of lists within an event's arguments
  std::string list_;
  std::string list_key_;
  bool seen_events_ = false;
  std::optional<std::size_t> damage_;
};

int line_of(std::string_view content, std::size_t position) {
  const std::string_view before = content.substr(0, std::min(position, content.size()));
  return static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
}

Result<ImportedTrace> read_kineto(std::string_view content, const std::string& file) {
  Recorder recorder(file);
  Sax sax(recorder);
  const bool whole = Json::sax_parse(content.begin(), content.end(), &sax);
  if (recorder.error()) return tl::unexpected(*recorder.error());
  if (!whole && sax.damage())
    return fail({file, line_of(content, *sax.damage()), "", "",
                 fmt::format("is not JSON from byte {} on: damaged, or cut while it was written", *sax.damage())});
  if (!whole) return fail({file, 0, "", "", "is nested deeper than 100 levels"});
  if (!sax.seen_events())
    return fail({file, 0, "traceEvents", "", "is missing: expected a trace of PyTorch's profiler"});
  return recorder.finish();
}

bool is_kineto(std::string_view content, std::string_view) {
  return is_json_object(content) && content.find("\"traceEvents\"") != std::string_view::npos;
}

}  // namespace

const Importer kKineto{"kineto", "trace of the PyTorch profiler (Kineto, JSON): one rank", "recordings.md", is_kineto,
                       read_kineto};

}  // namespace tracecast
