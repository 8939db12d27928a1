#include "sim/forecast/packed_steps.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "sim/base/integers.hpp"
#include "sim/base/quantile.hpp"

namespace tracecast {
namespace {

/// Means of durations, rounded down to picoseconds.
class MeanTimes {
 public:
  void add(const Timeline& timeline) {
    step_ += timeline.step_time.picoseconds;
    ranks_.resize(timeline.ranks.size());
    ends_.resize(timeline.ends.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const RankTime& time = timeline.ranks[r];
      ranks_[r].compute += time.compute;
      ranks_[r].host += time.host;
      ranks_[r].optimizer += time.optimizer;
      for (std::size_t k = 0; k < time.exposed.size(); ++k) ranks_[r].exposed[k] += time.exposed[k];
    }
    for (std::size_t r = 0; r < ends_.size(); ++r) ends_[r] += timeline.ends[r];
    events_ += timeline.events;
    ++count_;
  }

  /// The bubble takes the rest of a rank's time, so that its parts still sum to the step.
  Timeline mean() const {
    Timeline result;
    result.step_time = {step_ / count_};
    result.events = events_;
    for (RankTime time : ranks_) {
      for (Duration* const part : {&time.compute, &time.host, &time.optimizer}) part->picoseconds /= count_;
      for (Duration& exposed : time.exposed) exposed.picoseconds /= count_;
      time.bubble = {};
      time.bubble = result.step_time - time.total();
      result.ranks.push_back(time);
    }
    for (const Duration end : ends_) result.ends.push_back({end.picoseconds / count_});
    return result;
  }

 private:
  std::int64_t step_ = 0;
  std::vector<RankTime> ranks_;
  std::vector<Duration> ends_;
  std::int64_t events_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace

Result<PackedTimes> simulate_packed_steps(ForecastRun& run, const std::function<void(int)>& select_step,
                                          const std::function<Result<Timeline>(const StepGraph&)>& simulate,
                                          Duration longest) {
  PackedTimes times;
  MeanTimes sum;
  Duration left = (longest + Duration{1}) * run.plan.packed->steps;  // the mean is rounded down
  for (int step = 0; step < run.plan.packed->steps; ++step) {
    select_step(step);
    const Result<Timeline> timeline = simulate(run.graph);
    if (!timeline) return tl::unexpected(timeline.error());
    left = left - timeline->step_time;
    if (longest > Duration{} && left <= Duration{}) {
      run.timeline.given_up = true;
      return times;
    }
    sum.add(*timeline);
    times.steps_s.push_back(seconds(timeline->step_time));
  }
  run.timeline = sum.mean();
  const double mean_s = seconds(run.timeline.step_time);
  const auto nearest = std::ranges::min_element(times.steps_s, {}, [&](double s) { return std::abs(s - mean_s); });
  select_step(static_cast<int>(nearest - times.steps_s.begin()));
  return times;
}

double counted_share(const Forecast& forecast, const Training& training) {
  return forecast.packed && training.dataset_samples == 0 ? forecast.packed->useful_share : 1;
}

Plan balanced(const Plan& plan) {
  Plan even = plan;
  PackedSteps packed = *plan.packed;
  packed.varies = false;
  even.packed = std::make_shared<const PackedSteps>(std::move(packed));
  return even;
}

void add_packed(const Plan& plan, const PackedTimes& times, Forecast& forecast) {
  const PackedSteps& packed = *plan.packed;
  const bool varies = !times.steps_s.empty();
  PackedForecast& out = forecast.packed.emplace();
  out.steps = packed.steps;
  out.p5_s = varies ? quantile(times.steps_s, 0.05) : forecast.step_time_s;
  out.p95_s = varies ? quantile(times.steps_s, 0.95) : forecast.step_time_s;
  out.balanced_s = varies ? times.balanced_s : forecast.step_time_s;
  const auto tokens = static_cast<double>(packed.tokens());
  const auto useful = static_cast<double>(packed.useful);
  out.useful_share = useful / tokens;
  out.useful_tokens_per_s = forecast.tokens_per_s * out.useful_share;
  out.dropped_share = static_cast<double>(packed.dropped) / (useful + static_cast<double>(packed.dropped));
  out.mean_length = useful / static_cast<double>(packed.documents());
  double pairs = 0;
  for (const auto& [length, count] : packed.lengths)
    pairs += static_cast<double>(count) * static_cast<double>(length) * static_cast<double>(length);
  if (plan.training.documents->mask) out.attended = pairs / (tokens * static_cast<double>(packed.sequence));
}

}  // namespace tracecast
