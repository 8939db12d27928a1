#include "sim/forecast/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

namespace tracecast {
namespace {

constexpr double kSmallestExplained = 0.005;  // share of the step

/// Mean seconds and operations of a rank by name, and the provenance of the forecast durations.
struct Sums {
  std::map<std::string, double> counts;  // [work or transfer]
  std::map<std::string, double> phases;
  std::map<std::string, double> works;
  std::map<std::string, double> transfers;
  std::map<std::string, std::map<std::string, double>> provenance;  // [work or transfer][provenance]
};

std::string work_name(const StepWork& work) {
  const bool has_pass = !work.pass.empty() && work.pass != "forward" && work.pass != work.kind;
  return has_pass ? work.kind + " " + work.pass : work.kind;
}

std::int64_t all_ranks(const StepRecord& record) {
  std::int64_t total = 0;
  for (const StepRank& rank : record.ranks) total += rank.multiplicity;
  return total;
}

/// Weight of each rank of a record in the mean.
std::vector<double> weights(const StepRecord& record) {
  const auto total = static_cast<double>(all_ranks(record));
  std::vector<double> result;
  for (const StepRank& rank : record.ranks) result.push_back(rank.multiplicity / total);
  return result;
}

Sums sum_up(const StepRecord& record) {
  Sums sums;
  const std::vector<double> weight = weights(record);
  for (const StepSpan& span : record.spans) {
    const StepWork& work = record.works[static_cast<std::size_t>(span.work)];
    const double share = weight[static_cast<std::size_t>(span.rank)];
    const double moving = share * seconds(span.end - span.start);
    const std::string name = work.transfer ? work.kind : work_name(work);
    (work.transfer ? sums.transfers : sums.works)[name] += moving;
    sums.counts[name] += share;
    sums.provenance[name][work.provenance] += moving;
    if (!work.transfer) sums.phases[work.phase] += moving;
  }
  for (std::size_t r = 0; r < record.ranks.size(); ++r) {
    const RankTime& time = record.ranks[r].time;
    for (const Duration& exposed : time.exposed) sums.phases["communication"] += weight[r] * seconds(exposed);
    sums.phases["bubble"] += weight[r] * seconds(time.bubble);
    sums.phases["host"] += weight[r] * seconds(time.host);
  }
  return sums;
}

std::vector<Difference> differences(Difference::Group group, const std::map<std::string, double>& forecast,
                                    const std::map<std::string, double>& actual, double step) {
  std::set<std::string> names;
  for (const auto& [name, value] : forecast) names.insert(name);
  for (const auto& [name, value] : actual) names.insert(name);
  const auto value = [](const std::map<std::string, double>& values, const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? 0.0 : found->second;
  };
  std::vector<Difference> list;
  for (const std::string& name : names) {
    const double f = value(forecast, name);
    const double a = value(actual, name);
    if (f > 0 || a > 0) list.push_back({group, name, f, a, (f - a) / step, ""});
  }
  std::stable_sort(list.begin(), list.end(), [](const Difference& a, const Difference& b) {
    return std::max(a.forecast_s, a.actual_s) > std::max(b.forecast_s, b.actual_s);
  });
  return list;
}

/// Share of the forecast time that was not measured on exactly this shape.
double not_measured(const std::map<std::string, double>& provenance) {
  double all = 0;
  double measured = 0;
  for (const auto& [name, value] : provenance) {
    all += value;
    if (name == "measured") measured += value;
  }
  return all > 0 ? 1 - measured / all : 0;
}

class Causes {
 public:
  Causes(const Sums& forecast, const Sums& actual) : forecast_(forecast), actual_(actual) {}

  void name(Difference& difference) const {
    if (std::abs(difference.share) < kSmallestExplained)
      difference.cause.clear();
    else if (difference.cause.empty())
      difference.cause = cause(difference);
  }

 private:
  std::string cause(const Difference& d) const {
    if (d.actual_s == 0) return "was forecast and did not happen: another step graph?";
    if (d.forecast_s == 0 && d.group != Difference::Group::rank)
      return "happened and was not forecast: another step graph?";
    if (const std::string other = other_count(d); !other.empty()) return other;
    switch (d.group) {
      case Difference::Group::work:
        return work(d);
      case Difference::Group::transfer:
        return transfer(d);
      case Difference::Group::rank:  // has its cause
      case Difference::Group::phase:
        break;
    }
    return "";
  }

  /// Another number of operations is another run: batch, micro-batch or layers. Then times say nothing about durations.
  std::string other_count(const Difference& d) const {
    constexpr double kSame = 0.005;  // means over ranks are rounded
    const auto f = forecast_.counts.find(d.name), a = actual_.counts.find(d.name);
    if (f == forecast_.counts.end() || a == actual_.counts.end()) return "";
    const double ratio = a->second / f->second;
    if (std::abs(ratio - 1) <= kSame) return "";
    return fmt::format("the actual step runs it {:.2g} times as often: another batch, micro-batch or model?", ratio);
  }

  std::string work(const Difference& d) const {
    const auto known = forecast_.provenance.find(d.name);
    const double guessed = known == forecast_.provenance.end() ? 0 : not_measured(known->second);
    if (guessed > 0.5)
      return fmt::format("{:.0f} % of it was not measured on these shapes but interpolated", 100 * guessed);
    return d.share < 0 ? "slower within the step than timed alone: caches, clocks, or other jobs on the machine"
                       : "faster within the step than timed alone: its operands were still in a cache";
  }

  std::string transfer(const Difference& d) const {
    const auto known = forecast_.provenance.find(d.name);
    const double guessed = known == forecast_.provenance.end() ? 0 : not_measured(known->second);
    if (guessed > 0.5) return "between measured sizes, or by a model of the network";
    return d.share < 0 ? "slower than measured alone: other traffic, or late members" : "faster than measured alone";
  }

  const Sums& forecast_;
  const Sums& actual_;
};

/// The ranks of `record` that may stand for `rank` of another record. A class has its first rank's number, and others above it.
std::vector<const StepRank*> candidates(const StepRecord& record, const StepRank& rank) {
  const auto all = [&record](auto fits) {
    std::vector<const StepRank*> found;
    for (const StepRank& each : record.ranks)
      if (fits(each)) found.push_back(&each);
    return found;
  };
  std::vector<const StepRank*> found = all([&](const StepRank& each) { return each.number == rank.number; });
  if (found.empty())
    found = all([&](const StepRank& each) {
      return each.pp_rank == rank.pp_rank && each.multiplicity > 1 && each.number < rank.number;
    });
  if (found.empty()) found = all([&](const StepRank& each) { return each.pp_rank == rank.pp_rank; });
  return found;
}

constexpr const char* kUnknownClass =
    "not known: a folded timeline does not say which class it is in (predict --unfold)";

/// By how much longer than forecast each rank computes, in shares of the step.
class Slowdowns {
 public:
  void add(const StepRank& forecast, const StepRank& actual, double step) {
    shares_.push_back((busy_s(actual) - busy_s(forecast)) / step);
    longer_ += is_longer(shares_.back()) ? 1 : 0;
    shorter_ += is_longer(-shares_.back()) ? 1 : 0;
  }

  /// Why rank `index` waits less, or more, than forecast.
  std::string cause(std::size_t index, bool waits_less) const {
    const bool longer = is_longer(shares_[index]);
    const bool shorter = is_longer(-shares_[index]);
    if (waits_less ? shorter_ > (shorter ? 1 : 0) : longer_ > (longer ? 1 : 0))
      return fmt::format("the ranks it waits for take {} time than forecast, see their operators",
                         waits_less ? "less" : "more");
    if (waits_less ? longer : shorter)
      return fmt::format("the rank itself computes {} than forecast, see its operators",
                         waits_less ? "longer" : "less");
    return "no rank's operators explain it: another order of actions, or other transfers";
  }

 private:
  static bool is_longer(double share) { return share > kSmallestExplained; }
  static double busy_s(const StepRank& rank) {
    return seconds(rank.time.compute + rank.time.optimizer + rank.time.host);
  }

  std::vector<double> shares_;
  int longer_ = 0;
  int shorter_ = 0;
};

/// Bubble, including waiting for other ranks, of each rank of the record with more ranks.
std::vector<Difference> rank_differences(const StepRecord& forecast, const StepRecord& actual, double step) {
  const StepRecord& finer = actual.ranks.size() >= forecast.ranks.size() ? actual : forecast;
  Slowdowns slowdowns;
  for (const StepRank& rank : finer.ranks) slowdowns.add(rank_for(forecast, rank), rank_for(actual, rank), step);
  std::vector<Difference> list;
  for (const StepRank& rank : finer.ranks) {
    const double f = seconds(rank_for(forecast, rank).time.bubble);
    const double a = seconds(rank_for(actual, rank).time.bubble);
    const bool known = candidates(forecast, rank).size() <= 1 && candidates(actual, rank).size() <= 1;
    list.push_back({Difference::Group::rank, fmt::format("rank {} bubble", rank.number), f, a, (f - a) / step,
                    known ? slowdowns.cause(list.size(), f > a) : kUnknownClass, rank.number});
  }
  return list;
}

/// [rank of the record] seconds that its transfers waited for their last member.
std::vector<double> waiting(const StepRecord& record) {
  std::vector<double> sums(record.ranks.size(), 0);
  for (const StepSpan& span : record.spans)
    if (record.works[static_cast<std::size_t>(span.work)].transfer)
      sums[static_cast<std::size_t>(span.rank)] += seconds(span.start - span.arrival);
  return sums;
}

std::vector<Difference> waiting_differences(const StepRecord& forecast, const StepRecord& actual, double step) {
  const StepRecord& finer = actual.ranks.size() >= forecast.ranks.size() ? actual : forecast;
  const std::vector<double> forecast_waits = waiting(forecast);
  const std::vector<double> actual_waits = waiting(actual);
  const auto of = [](const StepRecord& record, const std::vector<double>& waits, const StepRank& rank) {
    return waits[static_cast<std::size_t>(&rank_for(record, rank) - record.ranks.data())];
  };
  std::vector<Difference> list;
  for (const StepRank& rank : finer.ranks) {
    const double f = of(forecast, forecast_waits, rank);
    const double a = of(actual, actual_waits, rank);
    list.push_back({Difference::Group::rank, fmt::format("rank {} waiting", rank.number), f, a, (f - a) / step, ""});
  }
  return list;
}

int pipeline_ranks(const StepRecord& record) {
  int last = 0;
  for (const StepRank& rank : record.ranks) last = std::max(last, rank.pp_rank);
  return last + 1;
}

}  // namespace

const StepRank& rank_for(const StepRecord& record, const StepRank& rank) {
  const std::vector<const StepRank*> found = candidates(record, rank);
  return found.empty() ? record.ranks.front() : **std::ranges::max_element(found, {}, &StepRank::multiplicity);
}

StepRecord with_recorded_ranks(StepRecord forecast, const StepRecord& recorded) {
  if (all_ranks(recorded) >= all_ranks(forecast)) return forecast;
  std::vector<std::int32_t> stands_for(forecast.ranks.size(), 0);
  for (const StepRank& rank : recorded.ranks)
    stands_for[static_cast<std::size_t>(&rank_for(forecast, rank) - forecast.ranks.data())] += rank.multiplicity;
  std::vector<std::int32_t> moved(forecast.ranks.size(), -1);  // index among those that are kept
  std::vector<StepRank> kept;
  for (std::size_t r = 0; r < forecast.ranks.size(); ++r) {
    if (stands_for[r] == 0) continue;
    moved[r] = static_cast<std::int32_t>(kept.size());
    kept.push_back(std::move(forecast.ranks[r]));
    kept.back().multiplicity = stands_for[r];
  }
  forecast.ranks = std::move(kept);
  std::erase_if(forecast.spans,
                [&moved](const StepSpan& span) { return moved[static_cast<std::size_t>(span.rank)] < 0; });
  for (StepSpan& span : forecast.spans) span.rank = moved[static_cast<std::size_t>(span.rank)];
  return forecast;
}

Result<Comparison> compare(const StepRecord& forecast, const StepRecord& actual, double tolerance) {
  if (forecast.scenario != actual.scenario)
    return fail(fmt::format("these are records of different scenarios: {} and {}", forecast.scenario, actual.scenario));
  if (pipeline_ranks(forecast) != pipeline_ranks(actual))
    return fail(fmt::format("these are records of different layouts: {} and {} pipeline ranks",
                            pipeline_ranks(forecast), pipeline_ranks(actual)));
  Comparison result;
  result.scenario = actual.scenario;
  result.forecast_origin = forecast.origin;
  result.actual_origin = actual.origin;
  result.forecast_s = forecast.seconds_to_compare();
  result.actual_s = actual.seconds_to_compare();
  result.error = result.forecast_s / result.actual_s - 1;
  result.spread = actual.repeats ? actual.repeats->spread : 0;
  result.tolerance = tolerance;
  const Sums f = sum_up(forecast);
  const Sums a = sum_up(actual);
  result.phases = differences(Difference::Group::phase, f.phases, a.phases, result.actual_s);
  result.works = differences(Difference::Group::work, f.works, a.works, result.actual_s);
  result.transfers = differences(Difference::Group::transfer, f.transfers, a.transfers, result.actual_s);
  result.ranks = rank_differences(forecast, actual, result.actual_s);
  result.waits = waiting_differences(forecast, actual, result.actual_s);
  const Causes causes(f, a);
  for (std::vector<Difference>* list : {&result.works, &result.transfers, &result.ranks})
    for (Difference& difference : *list) {
      causes.name(difference);
      result.largest.push_back(difference);
    }
  std::stable_sort(result.largest.begin(), result.largest.end(),
                   [](const Difference& x, const Difference& y) { return std::abs(x.share) > std::abs(y.share); });
  return result;
}

}  // namespace tracecast
