#include "sim/report/report_page.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/units.hpp"
#include "sim/report/page_parts.hpp"
#include "sim/report/page_sources.hpp"

namespace tracecast {
namespace {

/// LEB128: seven bits per byte, lowest first.
void append(std::string& bytes, std::uint64_t value) {
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(0x80 | (value & 127));
  bytes += static_cast<char>(value);
}

/// Zigzag encoding: 0, -1, 1, -2 … become 0, 1, 2, 3 …
void append_signed(std::string& bytes, std::int64_t value) {
  append(bytes, value < 0 ? 2 * static_cast<std::uint64_t>(-(value + 1)) + 1 : 2 * static_cast<std::uint64_t>(value));
}

std::int64_t nanoseconds(Duration t) { return t.picoseconds / 1000; }

/// Spans of one rank, each relative to the previous one on its stream. Decoded by tools/page/timeline.js.
struct RankSpans {
  std::string bytes;
  std::size_t count = 0;
  std::vector<std::int64_t> last_end;  ///< [stream]
  std::int32_t microbatch = 0;

  void add(const StepSpan& span) {
    const auto stream = static_cast<std::size_t>(span.stream);
    if (last_end.size() <= stream) last_end.resize(stream + 1);
    std::int64_t& last = last_end[stream];
    const std::int64_t start = nanoseconds(span.start);
    append(bytes, stream);
    append(bytes, static_cast<std::uint64_t>(span.work));
    append_signed(bytes, span.microbatch - microbatch);
    append_signed(bytes, start - last);
    append(bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(0, start - nanoseconds(span.arrival))));
    append(bytes, static_cast<std::uint64_t>(nanoseconds(span.end) - start));
    microbatch = span.microbatch;
    last = nanoseconds(span.end);
    ++count;
  }
};

/// Works that differ only in their layer are written once: "works" has them without layers, "uses" a pair of numbers
/// for each work of the record, the index into "works" and the layer.
std::string works_json(const StepRecord& record) {
  std::vector<StepWork> distinct;
  std::vector<std::string> works;
  std::vector<std::string> uses;
  for (StepWork work : record.works) {
    const int layer = std::exchange(work.layer, -1);
    const auto known = std::ranges::find(distinct, work);
    uses.push_back(fmt::format("{},{}", known - distinct.begin(), layer));
    if (known != distinct.end()) continue;
    works.push_back(fmt::format(
        R"({{"name":{},"kind":{},"pass":{},"phase":{},"part":{},"provenance":{},"transfer":{},"details":{},"flop":{:.0f},"bytes":{},"chunk":{}}})",
        json_text(work.name), json_text(work.kind), json_text(work.pass), json_text(work.phase), json_text(work.part),
        json_text(work.provenance), work.transfer, json_text(work.details), work.flop, work.bytes, work.chunk));
    distinct.push_back(std::move(work));
  }
  return fmt::format(R"("works":{},"uses":{})", json_list(works), json_list(uses));
}

std::vector<std::string> plain_names(const StepRecord& record) {
  std::vector<std::string> names;
  for (const StepRank& rank : record.ranks) names.push_back(fmt::format("rank {}", rank.number));
  return names;
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t here = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) three = three << 8 | (k < here ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += k <= here ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string json_list(const std::vector<std::string>& values) { return fmt::format("[{}]", fmt::join(values, ",")); }

std::string json_texts(const std::vector<std::string>& texts) {
  return nlohmann::json(texts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::size_t> ranks_to_draw(const StepRecord& record, std::size_t most_ranks) {
  std::vector<std::size_t> count(record.ranks.size());
  for (const StepSpan& span : record.spans) ++count[static_cast<std::size_t>(span.rank)];
  std::vector<std::size_t> order;
  std::vector<std::size_t> others;
  std::vector<std::int32_t> seen;
  for (std::size_t r = 0; r < record.ranks.size(); ++r) {
    const bool first = std::ranges::find(seen, record.ranks[r].pp_rank) == seen.end();
    (first ? order : others).push_back(r);
    if (first) seen.push_back(record.ranks[r].pp_rank);
  }
  order.insert(order.end(), others.begin(), others.end());
  std::size_t sum = 0;
  std::size_t taken = 0;
  while (taken < std::min(order.size(), most_ranks) && (taken == 0 || sum + count[order[taken]] <= kMaxSpans))
    sum += count[order[taken++]];
  order.resize(taken);
  std::ranges::sort(order);
  return order;
}

std::string timeline_json(const StepRecord& record, std::string_view label, const std::vector<std::string>& names,
                          std::span<const std::size_t> chosen) {
  std::vector<RankSpans> spans(record.ranks.size());
  std::vector<bool> drawn(record.ranks.size());
  for (const std::size_t r : chosen) drawn[r] = true;
  for (const StepSpan& span : record.spans)
    if (drawn[static_cast<std::size_t>(span.rank)]) spans[static_cast<std::size_t>(span.rank)].add(span);
  std::vector<std::string> ranks;
  for (const std::size_t r : chosen)
    ranks.push_back(fmt::format(R"({{"name":{},"pp":{},"first_layers":[{}],"count":{},"spans":"{}"}})",
                                json_text(names[r]), record.ranks[r].pp_rank,
                                fmt::join(record.ranks[r].first_layers, ","), spans[r].count, base64(spans[r].bytes)));
  return fmt::format(R"({{"label":{},"step_s":{},"all_ranks":{},"streams":{},{},"ranks":{}}})", json_text(label),
                     seconds(record.step_time), record.ranks.size(), json_texts(record.streams), works_json(record),
                     json_list(ranks));
}

std::string page_with_data(std::string_view page, std::string json) {
  // "</script>" inside the data would end the script, "<!--" with "<script" would swallow its end.
  constexpr std::string_view kLess = "\\u003c";
  for (std::size_t at = 0; (at = json.find('<', at)) != std::string::npos; at += kLess.size())
    json.replace(at, 1, kLess);
  constexpr std::string_view kPlace = "/*DATA*/null";
  const std::size_t at = page.find(kPlace);
  TRACECAST_ASSERT(at != std::string_view::npos, "the page has a place for its data");
  return std::string(page).replace(at, kPlace.size(), json);
}

std::string report_page(std::string_view kind, std::string_view title, const PageMetadata& metadata,
                        const std::string& members) {
  return page_with_data(
      kReportPage, fmt::format(R"({{"kind":{},"title":{},"command":{},"version":{},{}}})", json_text(kind),
                               json_text(title), json_text(metadata.command), json_text(metadata.version), members));
}

std::string plan_html(const PlanReport& report, const std::string& scenario_json, const PageMetadata& metadata) {
  return report_page("plan", fmt::format("{}: best layouts by {}", report.scenario, to_string(report.plan.objective)),
                     metadata,
                     fmt::format(R"("result":{},"scenario":{})", plan_json(report), json_text(scenario_json)));
}

std::string goodput_html(const GoodputForecast& report, const std::string& scenario_json,
                         const PageMetadata& metadata) {
  std::vector<std::string> days;
  for (const JobSpan& span : report.sample.spans)
    days.push_back(
        fmt::format(R"([{:.0f},{:.0f},"{}"])", seconds(span.begin), seconds(span.end), to_string(span.category)));
  std::vector<double> goodputs = report.goodput.goodputs;
  std::ranges::sort(goodputs);
  return report_page(
      "goodput",
      fmt::format("{}: goodput over {} days", report.scenario, number(report.goodput.wall_s.mean / kSecondsPerDay, 3)),
      metadata,
      fmt::format(R"("result":{},"scenario":{},"history":{},"goodputs":[{:.5f}])", goodput_json(report),
                  json_text(scenario_json), json_list(days), fmt::join(goodputs, ",")));
}

std::string compare_html(const Comparison& comparison, const StepRecord& forecast, const StepRecord& actual,
                         const PageMetadata& metadata) {
  const std::vector<RankPair> pairs = rank_pairs(comparison, forecast, actual);
  std::vector<std::size_t> of_forecast;
  std::vector<std::size_t> of_actual;
  for (const RankPair& pair : pairs) {
    of_forecast.push_back(pair.forecast);
    of_actual.push_back(pair.actual);
  }
  return report_page("compare", fmt::format("{}: forecast and actual step", comparison.scenario), metadata,
                     fmt::format(R"("result":{},"timelines":[{},{}])", comparison_json(comparison),
                                 timeline_json(forecast, "forecast", plain_names(forecast), of_forecast),
                                 timeline_json(actual, "actual", plain_names(actual), of_actual)));
}

}  // namespace tracecast
