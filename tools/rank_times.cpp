#include "tools/rank_times.hpp"

#include <algorithm>

#include "sim/base/quantity_text.hpp"

namespace tracecast::cli {

std::string rank_times(const StepRecord& record, const std::string& title, const TextStyle& style) {
  const TextTable table({-8, 12, 16, 12, 12, 12}, 2, 0);
  const bool known =
      std::ranges::any_of(record.ranks, [](const StepRank& rank) { return rank.time.optimizer > Duration{}; });
  std::string text = heading(title, style);
  text += table.row("rank", "compute", "communication", "bubble", "host", known ? "optimizer" : "");
  for (const StepRank& rank : record.ranks) {
    Duration exposed;
    for (const Duration& each : rank.time.exposed) exposed += each;
    text += table.row(rank.number, to_text(rank.time.compute), to_text(exposed), to_text(rank.time.bubble),
                      to_text(rank.time.host), known ? to_text(rank.time.optimizer) : "");
  }
  return text;
}

}  // namespace tracecast::cli
