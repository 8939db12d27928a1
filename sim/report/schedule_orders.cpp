#include "sim/report/schedule_orders.hpp"

#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%()*+,-";
constexpr int kMicrobatches = 64;
constexpr int kChunks = 16;
constexpr int kLargest = 1024;  ///< stages x micro-batches x chunks: larger ones are left to the command line

void append(std::string& text, int kind, int chunk, int microbatch) {
  const auto number = static_cast<std::size_t>((kind * kChunks + chunk) * kMicrobatches + microbatch);
  text += kLetters[number / kLetters.size()];
  text += kLetters[number % kLetters.size()];
}

Json order(const Schedule& schedule) {
  Json lists = Json::array();
  for (const std::vector<Action>& actions : schedule.actions) {
    std::string text;
    for (const Action& a : actions) {
      append(text, static_cast<int>(a.kind), a.chunk, a.microbatch);
      if (a.kind == ActionKind::forward_backward) append(text, 0, a.chunk2, a.microbatch2);
    }
    lists.push_back(std::move(text));
  }
  return {{"s", schedule.stage_of}, {"r", schedule.replicas}, {"a", std::move(lists)}};
}

std::vector<int> sorted(std::set<int> numbers) { return {numbers.begin(), numbers.end()}; }

}  // namespace

std::string schedule_orders(std::span<const ScheduleSize> sizes) {
  std::set<int> ranks{2, 3, 4, 5, 6, 8};
  std::set<int> microbatches{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32};
  std::set<int> more_chunks{1, 2, 3, 4};
  for (const ScheduleSize& size : sizes) {
    if (size.microbatches > kMicrobatches || size.chunks > kChunks) continue;
    ranks.insert(size.ranks);
    microbatches.insert(size.microbatches);
    more_chunks.insert(size.chunks);
  }
  Json schedules = Json::array();
  for (const ScheduleVariant& variant : schedule_variants()) {
    const std::set<int> chunks = variant.any_chunks ? more_chunks : std::set<int>{variant.default_chunks};
    Json orders = Json::object();
    bool flushes = true;
    for (const int p : ranks) {
      for (const int m : microbatches) {
        for (const int v : chunks) {
          if (p * m * v > kLargest) continue;
          const Result<Schedule> made =
              make_schedule(std::string(variant.name), {.ranks = p, .microbatches = m, .chunks = v});
          orders[fmt::format("{},{},{}", p, m, v)] =
              made ? order(*made) : Json(made.error().diagnostics.front().message);
          if (made) flushes = flushes && made->flush;
        }
      }
    }
    if (!flushes) continue;
    schedules.push_back({{"name", variant.name},
                         {"summary", variant.summary},
                         {"uses_times", variant.uses_times},
                         {"chunks", sorted(chunks)},
                         {"own", variant.default_chunks},
                         {"orders", std::move(orders)}});
  }
  return Json{{"stages", sorted(ranks)}, {"microbatches", sorted(microbatches)}, {"schedules", std::move(schedules)}}
      .dump();
}

}  // namespace tracecast
