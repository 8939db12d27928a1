#include "tracer/named_record.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/forecast/compare.hpp"
#include "tracer/alignment.hpp"
#include "tracer/classes.hpp"
#include "tracer/replay.hpp"

namespace tracecast {
namespace {

/// What must be equal for two works to be the same.
std::string family(const StepWork& work) {
  if (!work.transfer) return work.kind;
  const bool message = work.name == "send" || work.name == "receive" || work.name == "send_recv";
  return "transfer " + (message ? std::string("message") : work.name);
}

bool is_large(const std::string& family) {
  return family == "gemm" || family == "grouped_gemm" || family == "attention" || family.starts_with("transfer");
}

/// Indices of the spans of a rank, either computation or transfers, by begin.
std::vector<std::size_t> spans_of(const StepRecord& record, std::int32_t rank, bool transfers) {
  std::vector<std::size_t> spans;
  for (std::size_t i = 0; i < record.spans.size(); ++i) {
    const StepSpan& span = record.spans[i];
    if (span.rank == rank && record.works[static_cast<std::size_t>(span.work)].transfer == transfers)
      spans.push_back(i);
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [&record](std::size_t a, std::size_t b) { return record.spans[a].start < record.spans[b].start; });
  return spans;
}

/// Renames the spans of one rank.
class Renaming {
 public:
  Renaming(StepRecord& recorded, const StepRecord& forecast) : recorded_(recorded), forecast_(forecast) {}

  void rename(std::int32_t rank, std::int32_t forecast_rank, bool transfers) {
    const std::vector<std::size_t> found = spans_of(recorded_, rank, transfers);
    const std::vector<std::size_t> expected = spans_of(forecast_, forecast_rank, transfers);
    Classes<std::string> families;
    std::vector<std::int32_t> found_classes;
    std::vector<std::int32_t> expected_classes;
    for (const std::size_t i : found) found_classes.push_back(families.number(family(work_of(recorded_, i))));
    for (const std::size_t i : expected) expected_classes.push_back(families.number(family(work_of(forecast_, i))));
    AlignmentTask task{found_classes, expected_classes, {}, {}};
    const std::size_t count = families.values().size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& name = families.values()[i];
      task.weights.emplace_back(count, 0);
      task.weights.back()[i] = is_large(name) ? 4 : 2;
      task.joins.push_back(!is_large(name) && name != "residual");
    }
    const auto indices = align(task);
    if (!indices) return;  // too many to align: they keep their names
    for (std::size_t i = 0; i < found.size(); ++i)
      if (const std::int32_t index = (*indices)[i]; index >= 0)
        take(recorded_.spans[found[i]], forecast_.spans[expected[static_cast<std::size_t>(index)]]);
  }

 private:
  static const StepWork& work_of(const StepRecord& record, std::size_t span) {
    return record.works[static_cast<std::size_t>(record.spans[span].work)];
  }

  void take(StepSpan& span, const StepSpan& of_forecast) {
    const auto [number, added] =
        numbers_.try_emplace(of_forecast.work, static_cast<std::int32_t>(recorded_.works.size()));
    if (added) {
      StepWork work = forecast_.works[static_cast<std::size_t>(of_forecast.work)];
      work.provenance = "measured";
      recorded_.works.push_back(std::move(work));
    }
    span.work = number->second;
    span.microbatch = of_forecast.microbatch;
  }

  StepRecord& recorded_;
  const StepRecord& forecast_;
  std::map<std::int32_t, std::int32_t> numbers_;  ///< [work of the forecast] the same in the recording
};

}  // namespace

StepRecord named_as(StepRecord recorded, const StepRecord& forecast) {
  recorded.scenario = forecast.scenario;
  std::erase_if(recorded.spans, [&recorded](const StepSpan& span) {
    return recorded.works[static_cast<std::size_t>(span.work)].name == kRecordedPause;
  });
  Renaming renaming(recorded, forecast);
  for (std::size_t r = 0; r < recorded.ranks.size(); ++r) {
    const StepRank& same = rank_for(forecast, recorded.ranks[r]);
    recorded.ranks[r].pp_rank = same.pp_rank;
    const auto forecast_rank = static_cast<std::int32_t>(&same - forecast.ranks.data());
    for (const bool transfers : {false, true}) renaming.rename(static_cast<std::int32_t>(r), forecast_rank, transfers);
  }
  return recorded;
}

}  // namespace tracecast
