#include "tools/exact_times.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/words.hpp"

namespace tracecast::cli {
namespace {

constexpr std::size_t kDigits = 9;

/// A decimal number: its digits, and how many of them follow the point.
struct Decimal {
  std::int64_t digits = 0;
  std::size_t decimals = 0;
};

std::optional<Decimal> parse_decimal(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  const std::string_view rest = point == text.size() ? std::string_view{} : text.substr(point + 1);
  if (whole.size() > kDigits || rest.size() > kDigits || whole.size() + rest.size() == 0) return std::nullopt;
  std::string digits(whole);
  digits += rest;
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  Decimal decimal{0, rest.size()};
  std::from_chars(digits.data(), digits.data() + digits.size(), decimal.digits);
  return decimal;
}

std::int64_t power_of_ten(std::size_t exponent) {
  std::int64_t power = 1;
  for (std::size_t i = 0; i < exponent; ++i) power *= 10;
  return power;
}

Result<std::vector<Decimal>> parse_list(const char* option, std::string_view text, int ranks) {
  std::vector<Decimal> list;
  for (const std::string_view part : split(text)) {
    const std::optional<Decimal> decimal = parse_decimal(part);
    if (!decimal) {
      return fail_key(option, std::string(text),
                      "is not a time (allowed: numbers from 0 to 10^9, at most 9 decimals, without unit)");
    }
    list.push_back(*decimal);
  }
  if (list.size() == 1 || list.size() == static_cast<std::size_t>(ranks)) return list;
  return fail_key(option, std::string(text),
                  fmt::format("has {} numbers (allowed: 1{})", list.size(),
                              ranks > 1 ? fmt::format(", or one per rank: {}", ranks) : ""));
}

std::int64_t mean(const std::vector<std::int64_t>& list) {
  std::int64_t sum = 0;
  for (std::int64_t time : list) sum += time;
  const auto count = static_cast<std::int64_t>(list.size());
  return ceil_div(sum, count);
}

/// A forward, or both gradients of a backward.
std::int64_t longest_part(const ExactTimes& times) {
  const auto at = [](const std::vector<std::int64_t>& list, std::size_t rank) { return list[rank % list.size()]; };
  std::int64_t longest = *std::max_element(times.forward.begin(), times.forward.end());
  for (std::size_t rank = 0; rank < std::max(times.backward_input.size(), times.backward_weight.size()); ++rank)
    longest = std::max(longest, at(times.backward_input, rank) + at(times.backward_weight, rank));
  return longest;
}

}  // namespace

Result<ExactTimes> parse_times(const TimeTexts& texts, int ranks) {
  std::vector<std::vector<Decimal>> lists;
  const std::pair<const char*, const std::string*> options[] = {{"--tf", &texts.forward},
                                                                {"--tb", &texts.backward_input},
                                                                {"--tw", &texts.backward_weight},
                                                                {"--tc", &texts.latency},
                                                                {"--tfb", &texts.overlapped}};
  std::size_t decimals = 0;
  for (const auto& [option, text] : options) {
    const bool absent = text->empty() && text == &texts.overlapped;
    const bool per_rank = text != &texts.latency && text != &texts.overlapped;
    Result<std::vector<Decimal>> list =
        absent ? std::vector<Decimal>{} : parse_list(option, *text, per_rank ? ranks : 1);
    if (!list) return tl::unexpected(list.error());
    for (const Decimal& decimal : *list) decimals = std::max(decimals, decimal.decimals);
    lists.push_back(*list);
  }
  const auto exact = [&](const std::vector<Decimal>& list) {
    std::vector<std::int64_t> times;
    for (const Decimal& d : list) times.push_back(d.digits * power_of_ten(decimals - d.decimals));
    return times;
  };
  ExactTimes times{exact(lists[0]),       exact(lists[1]), exact(lists[2]), exact(lists[3]).front(), {},
                   power_of_ten(decimals)};
  if (!lists[4].empty()) times.overlapped = exact(lists[4]).front();
  if (const std::int64_t part = longest_part(times); times.overlapped && *times.overlapped < part)
    return fail_key("--tfb", texts.overlapped,
                    fmt::format("is shorter than one of its parts alone (allowed: at least {})",
                                static_cast<double>(part) / static_cast<double>(times.scale)));
  const ScheduleTimes means = mean_times(times);
  if (means.forward + means.backward_input + means.backward_weight == 0) {
    return fail("--tf, --tb and --tw are all 0: at least one must be positive");
  }
  return times;
}

ScheduleTimes mean_times(const ExactTimes& times) {
  return {mean(times.forward), mean(times.backward_input), mean(times.backward_weight), times.latency};
}

std::vector<StageTime> times_of_ranks(const ExactTimes& times, int ranks) {
  std::vector<StageTime> all;
  if (times.forward.size() + times.backward_input.size() + times.backward_weight.size() <= 3) return all;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    const auto of_rank = [&](const std::vector<std::int64_t>& list) { return list[list.size() == 1 ? 0 : rank]; };
    all.push_back({of_rank(times.forward), of_rank(times.backward_input), of_rank(times.backward_weight)});
  }
  return all;
}

Result<PipelineTimes> pipeline_times(const Schedule& schedule, const ExactTimes& times) {
  const auto longest = [](const std::vector<std::int64_t>& list) {
    return *std::max_element(list.begin(), list.end());
  };
  const std::int64_t most = longest(times.forward) + longest(times.backward_input) + longest(times.backward_weight) +
                            2 * times.latency + times.overlapped.value_or(0);
  const std::int64_t actions = std::int64_t{schedule.ranks} * schedule.chunks * schedule.microbatches;
  if (most > (std::int64_t{1} << 60) / actions) {
    return fail(fmt::format("--tf, --tb, --tw, --tc: too many digits to be exact over {} chunk passes", actions));
  }
  PipelineTimes result = uniform_times(schedule, mean_times(times), times.overlapped);
  result.scale *= times.scale;
  const std::vector<StageTime> ranks = times_of_ranks(times, schedule.ranks);
  if (ranks.empty()) return result;
  if (schedule.replicas > 1) {
    return fail_key("schedule", schedule.name,
                    "has each stage on two ranks; times per rank need one copy of the model");
  }
  for (std::size_t rank = 0; rank < schedule.stage_of.size(); ++rank)
    for (int stage : schedule.stage_of[rank]) result.stages[static_cast<std::size_t>(stage)] = ranks[rank];
  return result;
}

}  // namespace tracecast::cli
