#include "sim/engine/segments.hpp"

#include <utility>

#include "sim/base/result.hpp"

namespace tracecast::engine {
namespace {

/// So early that it decides no maximum, and can be added to.
constexpr std::int64_t kLongAgo = INT64_MIN / 4;

}  // namespace

void SegmentWriter::add(Part part, std::span<const std::int32_t> waits) {
  part.first_wait = static_cast<std::int32_t>(out_.waits.size());
  part.wait_count = static_cast<std::int32_t>(waits.size());
  out_.waits.insert(out_.waits.end(), waits.begin(), waits.end());
  out_.parts.push_back(part);
}

Part SegmentWriter::take() {
  TRACECAST_ASSERT(count() == 1, "several parts make a segment");
  const Part part = out_.parts.back();
  out_.parts.pop_back();
  return part;
}

std::int32_t SegmentWriter::finish() {
  Segment segment;
  segment.parts = {first_part_, count()};
  out_.most_parts = std::max(out_.most_parts, count());
  measure(segment);
  out_.all.push_back(segment);
  return static_cast<std::int32_t>(out_.all.size()) - 1;
}

/// Runs the segment from 0 on, with a host that has issued everything and own streams that are free.
void SegmentWriter::measure(Segment& segment) {
  const auto size = [](const auto& all) { return static_cast<std::int32_t>(all.size()); };
  segment.records.first = size(out_.records);
  segment.streams.first = size(out_.streams);
  segment.exposures.first = size(out_.exposures);
  segment.host_slack = kLongAgo;
  segment.last.end = kLongAgo;
  std::vector<std::pair<StreamId, std::int64_t>> clocks{{kComputeStream, 0}};
  const auto clock_of = [&](StreamId stream) -> std::int64_t& {
    for (auto& [known, clock] : clocks)
      if (known == stream) return clock;
    return clocks.emplace_back(stream, kLongAgo).second;
  };
  const auto note = [&](const Part& part, const Interval& times) {
    if (!part.records.none()) out_.records.push_back({part.records, times});
  };
  const auto computed = [&](const Part& part, std::int64_t clock, const Interval& times, const Interval* cause) {
    segment.busy += part.total;
    segment.host_slack = std::max(segment.host_slack, part.issued - times.end);
    segment.length = times.end;
    note(part, times);
    if (cause == nullptr) return;
    TRACECAST_ASSERT(cause->traffic >= 0, "compute is in order: it waits for transfers only");
    out_.exposures.push_back({static_cast<Traffic>(cause->traffic), times.start - clock});
  };
  const auto transferred = [&](const Part& part, const Interval& times) {
    segment.host_slack = std::max(segment.host_slack, part.issued - times.arrival);
    const auto used = std::find_if(out_.streams.begin() + segment.streams.first, out_.streams.end(),
                                   [&](const StreamUse& use) { return use.stream == part.stream; });
    if (used != out_.streams.end())
      used->last = times.end;
    else
      out_.streams.push_back({part.stream, times.arrival, times.end});
    if (later(times, segment.last)) segment.last = times;
    note(part, times);
  };
  std::vector<Interval> done(static_cast<std::size_t>(segment.parts.count));
  run_parts(out_, segment, kLongAgo, done, clock_of, computed, transferred);
  segment.records.count = size(out_.records) - segment.records.first;
  segment.streams.count = size(out_.streams) - segment.streams.first;
  segment.exposures.count = size(out_.exposures) - segment.exposures.first;
}

}  // namespace tracecast::engine
