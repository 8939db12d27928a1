#include "tracer/recorded_work.hpp"

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "sim/import/kernel_names.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kOpen = INT64_MAX;

std::int64_t end_of(const TraceRange& range) { return range.end_ns < range.start_ns ? kOpen : range.end_ns; }

bool in_range(const Trace& trace) {
  constexpr std::int64_t kLatest = std::int64_t{1} << 62;
  const auto good = [](const auto& r) { return std::abs(r.start_ns) < kLatest && std::abs(r.end_ns) < kLatest; };
  return std::ranges::all_of(trace.kernels, good) && std::ranges::all_of(trace.copies, good) &&
         std::ranges::all_of(trace.calls, good) && std::ranges::all_of(trace.ranges, good);
}

Result<void> check_ends(const Trace& trace, const std::string& file) {
  const auto check = [&file](const auto& records, const char* kind, auto name) -> Result<void> {
    for (const auto& r : records)
      if (r.end_ns < r.start_ns)
        return fail({file, 0, fmt::format("{} {}", kind, short_kernel_name(name(r))), fmt::format("{} ns", r.end_ns),
                     fmt::format("ends before it begins (allowed: from {} ns on)", r.start_ns)});
    return {};
  };
  if (auto ok = check(trace.kernels, "kernel", [](const TraceKernel& k) { return k.name; }); !ok) return ok;
  if (auto ok = check(trace.copies, "copy", [](const TraceCopy& c) { return c.kind; }); !ok) return ok;
  return check(trace.calls, "call", [](const TraceCall& c) { return c.name; });
}

}  // namespace

Result<void> check_times(const Trace& trace, const std::string& file) {
  if (!in_range(trace)) return fail({file, 0, "", "", "has a time out of range (allowed: nanoseconds below 2^62)"});
  if (auto ok = check_ends(trace, file); !ok) return ok;
  std::int64_t left = kLongestNs;
  for (const TraceKernel& kernel : trace.kernels) {
    const std::int64_t length = kernel.end_ns - kernel.start_ns;
    if (length > left) return fail({file, 0, "", "", "has kernels that take longer than 100 days together"});
    left -= length;
  }
  return {};
}

std::int64_t launch_ns(const Trace& trace, const RecordedWork& work) {
  if (work.call < 0) return work.start_ns;
  return std::min(trace.calls[static_cast<std::size_t>(work.call)].start_ns, work.start_ns);
}

std::vector<RecordedWork> recorded_work(const Trace& trace) {
  std::unordered_map<std::int64_t, std::int32_t> call_of;
  for (std::size_t i = 0; i < trace.calls.size(); ++i)
    call_of.try_emplace(trace.calls[i].correlation, static_cast<std::int32_t>(i));
  std::vector<RecordedWork> works;
  works.reserve(trace.kernels.size() + trace.copies.size());
  const auto add = [&](const auto& record, std::int32_t kernel, std::int32_t copy) {
    const auto call = record.correlation > 0 ? call_of.find(record.correlation) : call_of.end();
    works.push_back({kernel, copy, call == call_of.end() ? -1 : call->second, record.device, record.stream,
                     record.start_ns, std::max(record.start_ns, record.end_ns)});
  };
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) add(trace.kernels[i], static_cast<std::int32_t>(i), -1);
  for (std::size_t i = 0; i < trace.copies.size(); ++i) add(trace.copies[i], -1, static_cast<std::int32_t>(i));
  std::stable_sort(works.begin(), works.end(), [&trace](const RecordedWork& a, const RecordedWork& b) {
    return std::tuple(launch_ns(trace, a), a.start_ns) < std::tuple(launch_ns(trace, b), b.start_ns);
  });
  return works;
}

CoveredTime::CoveredTime(const Trace& trace, const std::function<bool(const TraceRange&)>& wanted) {
  for (const TraceRange& range : trace.ranges)
    if (wanted(range)) spans_[range.thread].push_back({range.start_ns, end_of(range)});
  for (auto& [thread, spans] : spans_) {
    std::sort(spans.begin(), spans.end());
    std::vector<std::pair<std::int64_t, std::int64_t>> merged;
    for (const auto& span : spans) {
      if (!merged.empty() && span.first <= merged.back().second)
        merged.back().second = std::max(merged.back().second, span.second);
      else
        merged.push_back(span);
    }
    spans = std::move(merged);
  }
}

bool CoveredTime::covers(std::int64_t thread, std::int64_t time_ns) const {
  const auto found = spans_.find(thread);
  if (found == spans_.end()) return false;
  const auto after = std::upper_bound(found->second.begin(), found->second.end(), std::pair(time_ns, kOpen));
  return after != found->second.begin() && std::prev(after)->second >= time_ns;
}

BackwardThreads::BackwardThreads(const Trace& trace) {
  std::unordered_map<std::int64_t, std::int64_t> thread_of;  // [correlation]
  for (const TraceCall& call : trace.calls) thread_of.try_emplace(call.correlation, call.thread);
  std::set<std::int64_t> all;
  std::set<std::int64_t> updating;
  // [name] backward, optimizer: thousands of kernels have few names
  std::map<std::string_view, std::pair<bool, bool>> kinds;
  for (const TraceKernel& kernel : trace.kernels) {
    const auto thread = thread_of.find(kernel.correlation);
    if (thread == thread_of.end()) continue;
    all.insert(thread->second);
    const auto [kind, added] = kinds.try_emplace(kernel.name);
    if (added)
      kind->second = {is_backward_kernel(kernel.name).value_or(false),
                      kernel_kind(kernel.name) == OperatorKind::optimizer};
    if (kind->second.first) backward_.insert(thread->second);
    if (kind->second.second) updating.insert(thread->second);
  }
  const bool apart =
      std::none_of(backward_.begin(), backward_.end(), [&](std::int64_t t) { return updating.contains(t); });
  known_ = !backward_.empty() && backward_.size() < all.size() && apart;
}

std::optional<bool> BackwardThreads::launched(std::int64_t thread) const {
  return known_ ? std::optional(backward_.contains(thread)) : std::nullopt;
}

OpenRanges::OpenRanges(const Trace& trace) {
  for (std::size_t i = 0; i < trace.ranges.size(); ++i) {
    const TraceRange& range = trace.ranges[i];
    threads_[range.thread].push_back({range.start_ns, end_of(range), static_cast<std::int32_t>(i), -1});
  }
  for (auto& [thread, entries] : threads_) {
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) {  // if two begin together, the longer one first
                return std::tuple(a.start_ns, b.end_ns, a.range) < std::tuple(b.start_ns, a.end_ns, b.range);
              });
    std::vector<std::int32_t> open;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      while (!open.empty() && entries[static_cast<std::size_t>(open.back())].end_ns < entries[i].end_ns)
        open.pop_back();
      entries[i].parent = open.empty() ? -1 : open.back();
      open.push_back(static_cast<std::int32_t>(i));
    }
  }
}

std::vector<std::int32_t> OpenRanges::at(std::int64_t thread, std::int64_t time_ns, std::size_t most) const {
  std::vector<std::int32_t> result;
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return result;
  const std::vector<Entry>& entries = found->second;
  const auto after = std::upper_bound(entries.begin(), entries.end(), time_ns,
                                      [](std::int64_t time, const Entry& e) { return time < e.start_ns; });
  auto at = static_cast<std::int32_t>(after - entries.begin()) - 1;
  for (; at >= 0 && result.size() < most; at = entries[static_cast<std::size_t>(at)].parent)
    if (entries[static_cast<std::size_t>(at)].end_ns >= time_ns)
      result.push_back(entries[static_cast<std::size_t>(at)].range);
  return result;
}

}  // namespace tracecast
