#include "tracer/alignment.hpp"

#include <algorithm>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

constexpr std::int32_t kNever = INT32_MIN / 2;
constexpr std::int64_t kNarrowest = 256;  // pairs on either side of the diagonal

/// Traceback of a pair: one of the first three values, plus kJoined if the match continues the previous one.
enum Step : std::uint8_t { kSkipExpected = 0, kSkipFound = 1, kMatch = 2, kJoined = 4 };

/// The expected items compared with each found item: all of them, or a band around the diagonal.
class Band {
 public:
  Band(std::int64_t found, std::int64_t expected, std::int64_t most_pairs)
      : found_(found),
        expected_(expected),
        half_(std::clamp(most_pairs / (2 * (found + 1)) - 1, std::int64_t{0}, expected)) {}

  /// Adjacent rows must share more than one column.
  bool wide_enough() const {
    return half_ == expected_ || (half_ >= kNarrowest && expected_ / std::max<std::int64_t>(1, found_) < half_);
  }
  std::int64_t first(std::int64_t row) const { return std::max<std::int64_t>(0, centre(row) - half_); }
  std::int64_t last(std::int64_t row) const { return std::min(expected_, centre(row) + half_); }
  std::int64_t width() const { return 2 * half_ + 1; }

 private:
  std::int64_t centre(std::int64_t row) const { return row * expected_ / std::max<std::int64_t>(1, found_); }
  std::int64_t found_;
  std::int64_t expected_;
  std::int64_t half_;
};

/// Best sums of one found item, by expected item.
struct Row {
  std::int64_t first = 0;
  std::vector<std::int32_t> best;     ///< over the items so far, matched or not
  std::vector<std::int32_t> matched;  ///< if the found item matches this expected item
  std::int32_t best_at(std::int64_t e) const { return at(best, e); }
  std::int32_t matched_at(std::int64_t e) const { return at(matched, e); }

 private:
  std::int32_t at(const std::vector<std::int32_t>& sums, std::int64_t e) const {
    const std::int64_t i = e - first;
    return i < 0 || i >= static_cast<std::int64_t>(sums.size()) ? kNever : sums[static_cast<std::size_t>(i)];
  }
};

class Aligner {
 public:
  Aligner(const AlignmentTask& task, const Band& band)
      : task_(task), band_(band), steps_((task.found.size() + 1) * static_cast<std::size_t>(band.width()), 0) {}

  std::vector<std::int32_t> run() {
    Row above;
    above.best.assign(static_cast<std::size_t>(band_.last(0) + 1), 0);
    above.matched.assign(above.best.size(), kNever);
    for (std::int64_t f = 1; f <= count(task_.found); ++f) above = row(f, above);
    return trace_back();
  }

 private:
  static std::int64_t count(std::span<const std::int32_t> items) { return static_cast<std::int64_t>(items.size()); }

  std::uint8_t& step_at(std::int64_t f, std::int64_t e) {
    return steps_[static_cast<std::size_t>(f * band_.width() + e - band_.first(f))];
  }

  Row row(std::int64_t f, const Row& above) {
    Row now;
    now.first = band_.first(f);
    const auto kind = static_cast<std::size_t>(task_.found[static_cast<std::size_t>(f - 1)]);
    const std::vector<int>& weights = task_.weights[kind];
    const bool joins = task_.joins[kind];
    std::int32_t left = kNever;
    for (std::int64_t e = now.first; e <= band_.last(f); ++e) {
      std::uint8_t joined = 0;
      std::int32_t matched = kNever;
      if (const int weight = e > 0 ? weights[expected_class(e)] : 0; weight > 0) {
        matched = above.best_at(e - 1) + weight;
        if (joins && above.matched_at(e) + 1 > matched) {
          matched = above.matched_at(e) + 1;
          joined = kJoined;
        }
      }
      std::int32_t best = left;
      std::uint8_t step = kSkipExpected;
      if (above.best_at(e) > best) {
        best = above.best_at(e);
        step = kSkipFound;
      }
      if (matched > best) {
        best = matched;
        step = kMatch;
      }
      step_at(f, e) = static_cast<std::uint8_t>(step | joined);
      now.best.push_back(best);
      now.matched.push_back(matched);
      left = best;
    }
    return now;
  }

  std::size_t expected_class(std::int64_t e) const {
    return static_cast<std::size_t>(task_.expected[static_cast<std::size_t>(e - 1)]);
  }

  std::vector<std::int32_t> trace_back() {
    std::vector<std::int32_t> result(task_.found.size(), -1);
    bool part = false;  // of the same expected item as the next found item
    for (std::int64_t f = count(task_.found), e = count(task_.expected); f > 0 && (e > 0 || part);) {
      const std::uint8_t code = step_at(f, e);
      const int step = code & 3;
      if (!part && step == kSkipExpected) {
        --e;
      } else if (!part && step == kSkipFound) {
        --f;
      } else {
        result[static_cast<std::size_t>(f - 1)] = static_cast<std::int32_t>(e - 1);
        part = (code & kJoined) != 0;
        --f;
        if (!part) --e;
      }
    }
    return result;
  }

  const AlignmentTask& task_;
  const Band& band_;
  std::vector<std::uint8_t> steps_;
};

}  // namespace

std::optional<std::vector<std::int32_t>> align(const AlignmentTask& task, std::int64_t most_pairs) {
  TRACECAST_ASSERT(task.joins.size() == task.weights.size(),
                   "every class of found items has weights and may join or not");
  const Band band(static_cast<std::int64_t>(task.found.size()), static_cast<std::int64_t>(task.expected.size()),
                  most_pairs);
  if (!band.wide_enough()) return std::nullopt;
  return Aligner(task, band).run();
}

}  // namespace tracecast
