/// \file
/// Text, JSON and picture of a comparison of two steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/forecast/compare.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// Rows of both timelines that belong together, as indices into the ranks of each record.
struct RankPair {
  std::size_t forecast = 0;
  std::size_t actual = 0;
};
/// The ranks of the record with fewer ranks that ranks_to_draw selects, each with its counterpart in the other record.
std::vector<RankPair> rank_pairs(const StepRecord& forecast, const StepRecord& actual,
                                 std::size_t most_ranks = SIZE_MAX);
/// The same, and every rank that a page names as one of the largest disagreements, by number.
std::vector<RankPair> rank_pairs(const Comparison& comparison, const StepRecord& forecast, const StepRecord& actual,
                                 std::size_t most_ranks = SIZE_MAX);
/// The rank that a pair is about. A class of ranks has its first one's number.
int number_of(const RankPair& pair, const StepRecord& forecast, const StepRecord& actual);

/// What a rank does in each of `count` equal parts of an axis of `axis_s`: the letter with the most time in it, blank after
/// the end of the step. Of computation and a transfer at the same time, only the computation counts.
///   F forward, B backward, W weight gradient, O optimizer, ~ a transfer alone, . idle
std::string activity_letters(const StepRecord& record, std::size_t rank, double axis_s, int count);

/// A page for a terminal, with both timelines as rows of letters on one time axis.
std::string comparison_page(const Comparison& comparison, const StepRecord& forecast, const StepRecord& actual,
                            const TextStyle& style);
std::string comparison_json(const Comparison& comparison);
/// Both timelines on one time axis: two rows per rank, forecast and actual.
std::string comparison_svg(const Comparison& comparison, const StepRecord& forecast, const StepRecord& actual);

}  // namespace tracecast
