#include "tracer/step_windows.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "sim/import/kernel_names.hpp"
#include "tracer/classes.hpp"

namespace tracecast {
namespace {

constexpr std::string_view kStepRange = "ProfilerStep#";

std::optional<std::int64_t> step_number(const TraceRange& range) {
  if (!range.name.starts_with(kStepRange)) return std::nullopt;
  std::int64_t number = 0;
  const char* const digits = range.name.data() + kStepRange.size();
  const auto [end, error] = std::from_chars(digits, range.name.data() + range.name.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::map<std::int64_t, StepWindow> windows_of_ranges(const Trace& trace) {
  std::map<std::int64_t, StepWindow> windows;
  for (const TraceRange& range : trace.ranges)
    if (const auto number = step_number(range);
        number && range.end_ns >= range.start_ns && range.domain != "gpu_user_annotation")
      windows.try_emplace(*number, StepWindow{range.start_ns, range.end_ns});
  return windows;
}

/// Where the first work behind an optimizer begins. A wait for a message of another pipeline stage is part of the step that it
/// begins, but parameters that are gathered there are part of the step before.
std::vector<std::size_t> behind_optimizers(const Trace& trace, std::span<const RecordedWork> kernels) {
  constexpr std::size_t kNone = SIZE_MAX;
  std::vector<std::size_t> begins;
  bool optimized = false;       // since the last multiplication
  std::size_t first = kNone;    // kernel behind the optimizer, or the first embedding there
  bool embeds = false;          // it is an embedding
  std::size_t message = kNone;  // first message behind the optimizer
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const std::string& name = trace.kernels[static_cast<std::size_t>(kernels[i].kernel)].name;
    if (const NcclKernel transfer = transfer_kernel(name); !transfer.name.empty()) {
      if (transfer.collective() == Collective::send_recv) message = std::min(message, i);
      continue;
    }
    const OperatorKind kind = kernel_kind(name);
    if (kind == OperatorKind::optimizer) {
      optimized = true;
      first = message = kNone;
      embeds = false;
      continue;
    }
    if (!optimized) continue;
    const bool is_embedding = kind == OperatorKind::embedding;
    if (first == kNone || (is_embedding && !embeds)) first = i;
    embeds = embeds || is_embedding;
    if (!is_multiplication(kind)) continue;
    begins.push_back(std::min(first, message));
    optimized = false;
  }
  return begins;
}

constexpr std::size_t kMarks = 24;      // kernels tried as the first of a step, the rarest first
constexpr std::size_t kRepeats = 8;     // times that the first kernel of a step may occur in it
constexpr double kUneven = 0.02;        // lengths of steps differ by less, relative to the median
constexpr double kMissing = 0.02;       // share of the kernels that may occur in some steps only
constexpr double kPieceIsWhole = 0.98;  // of the usual number of kernels

/// The kernels [begins[i], begins[i + 1]) are one step each.
struct Division {
  std::vector<std::size_t> begins;
  std::size_t missing = 0;  ///< kernels that occur in several steps, but not in all
  std::size_t length = 0;   ///< of a step; the median
};

/// Counts in how many steps each kernel occurs. nullopt: the steps are not equally long or have other kernels, there are fewer than
/// two, or much of the work is outside of them.
std::optional<Division> divide(std::span<const std::int32_t> ids, std::size_t classes,
                               std::vector<std::size_t> begins) {
  std::vector<std::size_t> lengths;
  for (std::size_t i = 1; i < begins.size(); ++i) lengths.push_back(begins[i] - begins[i - 1]);
  if (lengths.empty()) return std::nullopt;
  std::vector<std::size_t> sorted = lengths;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t median = sorted[sorted.size() / 2];
  const auto even = [median](std::size_t length) {
    return std::abs(static_cast<double>(length) - static_cast<double>(median)) <= kUneven * static_cast<double>(median);
  };
  if (!std::all_of(lengths.begin(), lengths.end(), even)) return std::nullopt;
  const std::size_t rest = ids.size() - begins.back();
  if (rest >= median) begins.push_back(begins.back() + median);
  const std::size_t steps = begins.size() - 1;
  if (steps < 2 || 3 * (begins.back() - begins.front()) < 2 * ids.size()) return std::nullopt;
  std::vector<std::size_t> in_steps(classes, 0);
  std::vector<std::size_t> last(classes, 0);  // step in which it occurred last, from 1
  for (std::size_t s = 0; s < steps; ++s)
    for (std::size_t i = begins[s]; i < begins[s + 1]; ++i) {
      const auto id = static_cast<std::size_t>(ids[i]);
      if (last[id] == s + 1) continue;
      last[id] = s + 1;
      ++in_steps[id];
    }
  const auto missing =
      std::count_if(in_steps.begin(), in_steps.end(), [steps](std::size_t in) { return in > 1 && in < steps; });
  if (static_cast<double>(missing) > kMissing * static_cast<double>(classes)) return std::nullopt;
  return Division{std::move(begins), static_cast<std::size_t>(missing), median};
}

/// Kernels that could be the first of a step: positions of those that occur from the first half to the second, the rarest first.
std::vector<std::vector<std::size_t>> marks_of(std::span<const std::int32_t> ids, std::size_t classes) {
  std::vector<std::vector<std::size_t>> positions(classes);
  for (std::size_t i = 0; i < ids.size(); ++i) positions[static_cast<std::size_t>(ids[i])].push_back(i);
  std::erase_if(positions, [&ids](const std::vector<std::size_t>& at) {
    return at.size() < 2 || 3 * (at.back() - at.front()) < ids.size();
  });
  std::stable_sort(positions.begin(), positions.end(),
                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
  positions.resize(std::min(positions.size(), kMarks));
  return positions;
}

/// The number of kernels of a whole step: of the usual one between two begins or, if there is one begin only, of both pieces.
double usual_length(const std::vector<std::size_t>& begins, std::size_t kernels) {
  std::vector<std::size_t> lengths;
  for (std::size_t i = 1; i < begins.size(); ++i) lengths.push_back(begins[i] - begins[i - 1]);
  if (lengths.empty()) lengths = {std::max(begins.front(), kernels - begins.front())};
  std::sort(lengths.begin(), lengths.end());
  return static_cast<double>(lengths[lengths.size() / 2]);
}

std::map<std::int64_t, StepWindow> windows_of_work(const Trace& trace) {
  const std::vector<RecordedWork> all = recorded_work(trace);
  std::map<std::int64_t, std::vector<RecordedWork>> devices;
  for (const RecordedWork& work : all)
    if (work.kernel >= 0) devices[work.device].push_back(work);
  const auto most = std::max_element(devices.begin(), devices.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::map<std::int64_t, StepWindow> windows;
  if (most == devices.end()) return windows;
  const std::vector<RecordedWork>& kernels = most->second;
  std::vector<std::size_t> edges = step_begins(trace, kernels);
  if (edges.empty()) return windows;
  // A recording may begin and end within a step.
  const double whole = kPieceIsWhole * usual_length(edges, kernels.size());
  const std::size_t rest = kernels.size() - edges.back();
  if (edges.front() > 0 && static_cast<double>(edges.front()) >= whole) edges.insert(edges.begin(), 0);
  if (static_cast<double>(rest) >= whole) edges.push_back(kernels.size());
  for (std::size_t i = 1; i < edges.size(); ++i) {
    const RecordedWork& behind = edges[i] < kernels.size() ? kernels[edges[i]] : all.back();
    const std::int64_t end = launch_ns(trace, behind) + (edges[i] < kernels.size() ? 0 : 1);
    windows[static_cast<std::int64_t>(i)] = {launch_ns(trace, kernels[edges[i - 1]]), end};
  }
  return windows;
}

/// From the first begin to the last end, at least 1 ns.
std::int64_t span_of(const std::vector<RecordedWork>& works) {
  std::int64_t first = INT64_MAX;
  std::int64_t last = INT64_MIN;
  for (const RecordedWork& work : works) {
    first = std::min(first, work.start_ns);
    last = std::max(last, work.end_ns);
  }
  return works.empty() ? 1 : std::max<std::int64_t>(1, last - first);
}

}  // namespace

std::vector<std::size_t> period_begins(std::span<const std::int32_t> ids) {
  const std::size_t classes = ids.empty() ? 0 : static_cast<std::size_t>(*std::max_element(ids.begin(), ids.end())) + 1;
  std::optional<Division> best;
  for (const std::vector<std::size_t>& positions : marks_of(ids, classes))
    for (std::size_t every = 1; every <= kRepeats && every < positions.size(); ++every) {
      std::vector<std::size_t> begins;
      for (std::size_t i = 0; i < positions.size(); i += every) begins.push_back(positions[i]);
      auto division = divide(ids, classes, std::move(begins));
      if (!division) continue;
      const auto order = [](const Division& d) { return std::tuple(d.missing, d.length, d.begins.front()); };
      if (!best || order(*division) < order(*best)) best = std::move(division);
    }
  if (!best) return {};
  if (best->begins.back() >= ids.size()) best->begins.pop_back();
  return best->begins;
}

std::vector<std::size_t> step_begins(const Trace& trace, std::span<const RecordedWork> kernels) {
  const auto optimizes = [&trace](const RecordedWork& work) {
    return kernel_kind(trace.kernels[static_cast<std::size_t>(work.kernel)].name) == OperatorKind::optimizer;
  };
  if (std::any_of(kernels.begin(), kernels.end(), optimizes)) return behind_optimizers(trace, kernels);
  Classes<std::tuple<std::string_view, std::int64_t, std::int64_t>> classes;
  std::vector<std::int32_t> ids;
  for (const RecordedWork& work : kernels) {
    const TraceKernel& kernel = trace.kernels[static_cast<std::size_t>(work.kernel)];
    ids.push_back(classes.number({kernel.name, kernel.blocks, kernel.threads}));
  }
  return period_begins(ids);
}

std::map<std::int64_t, StepWindow> step_windows(const Trace& trace) {
  auto windows = windows_of_ranges(trace);
  return windows.empty() ? windows_of_work(trace) : windows;
}

bool keep_last_steps(Trace& trace, std::int64_t count) {
  const auto windows = step_windows(trace);
  if (count < 1 || static_cast<std::int64_t>(windows.size()) < count) return false;
  const std::int64_t begin = std::prev(windows.end(), count)->second.begin;
  const std::int64_t end = windows.rbegin()->second.end;
  const auto within = [begin, end](std::int64_t time) { return time >= begin && time < end; };
  std::unordered_set<std::int64_t> calls;
  for (const TraceCall& call : trace.calls)
    if (within(call.start_ns)) calls.insert(call.correlation);
  std::vector<TraceKernel> kernels;
  std::vector<TraceCopy> copies;
  const std::vector<RecordedWork> works = recorded_work(trace);
  const std::int64_t whole = span_of(works);
  std::int64_t first = INT64_MAX;
  std::int64_t last = INT64_MIN;
  for (const RecordedWork& work : works) {
    if (!within(launch_ns(trace, work))) continue;
    first = std::min(first, work.start_ns);
    last = std::max(last, work.end_ns);
    if (work.kernel >= 0) kernels.push_back(std::move(trace.kernels[static_cast<std::size_t>(work.kernel)]));
    if (work.copy >= 0) copies.push_back(std::move(trace.copies[static_cast<std::size_t>(work.copy)]));
  }
  trace.kernels = std::move(kernels);
  trace.copies = std::move(copies);
  std::erase_if(trace.calls, [&within](const TraceCall& c) { return !within(c.start_ns); });
  std::erase_if(trace.externals, [&calls](const TraceExternal& e) { return !calls.contains(e.correlation); });
  std::unordered_set<std::int64_t> ids;
  for (const TraceExternal& e : trace.externals) ids.insert(e.id);
  std::erase_if(trace.operators, [&ids](const TraceOperator& o) { return !ids.contains(o.id); });
  std::erase_if(trace.ranges, [begin, end](const TraceRange& r) {
    return r.start_ns >= end || (r.end_ns >= r.start_ns && r.end_ns <= begin);
  });
  // Those of the recorder have the time of their call, those of other profilers that of their kernel.
  std::erase_if(trace.collectives, [&](const TraceCollective& c) {
    return c.launch != 0 ? !within(c.start_ns) : c.start_ns < first || c.start_ns > last;
  });
  trace.overhead_ns = static_cast<std::int64_t>(static_cast<double>(trace.overhead_ns) *
                                                static_cast<double>(last - first) / static_cast<double>(whole));
  return true;
}

}  // namespace tracecast
