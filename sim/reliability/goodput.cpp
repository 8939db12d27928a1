#include "sim/reliability/goodput.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include <boost/math/distributions/students_t.hpp>

#include "sim/base/parallel_for.hpp"

namespace tracecast {

Estimate estimate(const std::vector<double>& values, double confidence) {
  TRACECAST_ASSERT(!values.empty(), "a mean needs values");
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (const double v : values) sum += v;
  const double mean = sum / n;
  if (values.size() < 2) return {mean, mean, mean, std::numeric_limits<double>::infinity()};
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  const double error = std::sqrt(squares / (n - 1) / n);
  const double t = quantile(boost::math::students_t(n - 1), 0.5 + confidence / 2);
  return {mean, mean - t * error, mean + t * error, error};
}

std::vector<double> ratio_values(const std::vector<double>& shares, const std::vector<double>& walls_s) {
  TRACECAST_ASSERT(!shares.empty() && shares.size() == walls_s.size(), "each share is one of a wall time");
  double part = 0, wall = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    part += shares[i] * walls_s[i];
    wall += walls_s[i];
  }
  const double ratio = part / wall;
  const double mean_wall = wall / static_cast<double>(walls_s.size());
  std::vector<double> values;
  values.reserve(shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i)
    values.push_back(walls_s[i] == mean_wall ? shares[i] : ratio + walls_s[i] / mean_wall * (shares[i] - ratio));
  return values;
}

namespace {

/// The part of a history that the summary uses.
struct Outcome {
  Waterfall waterfall{};
  JobTime wall;
  std::int64_t tokens = 0;
  int interruptions = 0;
  std::int64_t checkpoints = 0;
  std::vector<int> events;
  double goodput = 0;
};

using Outcomes = std::vector<Outcome>;

/// Simulates histories outcomes.size() to `until` - 1.
Result<void> run_batch(const JobSpec& spec, const StepTimes& steps, const GoodputOptions& options, std::size_t until,
                       Outcomes& outcomes) {
  const std::size_t begin = outcomes.size();
  outcomes.resize(until);
  std::vector<std::optional<Error>> errors(until - begin);
  parallel_for(until - begin, options.threads, [&](std::size_t n) {
    const std::size_t i = begin + n;
    Result<History> history = simulate_history(spec, steps, options.seed, static_cast<std::uint32_t>(i));
    if (!history) {
      errors[n] = history.error();
      return;
    }
    outcomes[i] = {history->waterfall,   history->wall,   history->tokens,   history->interruptions,
                   history->checkpoints, history->events, history->goodput()};
  });
  for (const std::optional<Error>& error : errors)
    if (error) return tl::unexpected(*error);
  return {};
}

template <class F>
std::vector<double> column(const Outcomes& outcomes, F value) {
  std::vector<double> values;
  values.reserve(outcomes.size());
  for (const Outcome& outcome : outcomes) values.push_back(static_cast<double>(value(outcome)));
  return values;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

Estimate goodput_of(const Outcomes& outcomes, const GoodputOptions& options) {
  return estimate(ratio_values(column(outcomes, [](const Outcome& o) { return o.goodput; }),
                               column(outcomes, [](const Outcome& o) { return seconds(o.wall); })),
                  options.confidence);
}

Goodput summary(const Outcomes& outcomes, std::int64_t target_tokens, const GoodputOptions& options) {
  Goodput g;
  g.histories = static_cast<int>(outcomes.size());
  if (target_tokens > 0)
    g.at_target =
        static_cast<int>(std::ranges::count_if(outcomes, [&](const Outcome& o) { return o.tokens >= target_tokens; }));
  g.goodputs = column(outcomes, [](const Outcome& o) { return o.goodput; });
  g.walls_s = column(outcomes, [](const Outcome& o) { return seconds(o.wall); });
  g.goodput = goodput_of(outcomes, options);
  g.wall_s = estimate(g.walls_s, options.confidence);
  g.interruptions = estimate(column(outcomes, [](const Outcome& o) { return o.interruptions; }), options.confidence);
  g.tokens = estimate(column(outcomes, [](const Outcome& o) { return o.tokens; }), options.confidence);
  g.checkpoints = mean(column(outcomes, [](const Outcome& o) { return o.checkpoints; }));
  for (std::size_t part = 0; part < g.share.size(); ++part)
    g.share[part] =
        mean(column(outcomes, [&](const Outcome& o) { return seconds(o.waterfall[part]); })) / g.wall_s.mean;
  for (std::size_t kind = 0; kind < outcomes.front().events.size(); ++kind)
    g.events.push_back(mean(column(outcomes, [&](const Outcome& o) { return o.events[kind]; })));
  return g;
}

}  // namespace

Result<Goodput> simulate_goodput(const JobSpec& spec, const StepTimes& steps, const GoodputOptions& options) {
  TRACECAST_ASSERT(options.min_histories >= 1 && options.max_histories >= 1, "at least one history");
  if (Result<void> fine = check(spec); !fine) return tl::unexpected(fine.error());
  Outcomes outcomes;
  bool narrow = false;
  int until = std::min(options.min_histories, options.max_histories);
  for (;;) {
    if (Result<void> ran = run_batch(spec, steps, options, static_cast<std::size_t>(until), outcomes); !ran)
      return tl::unexpected(ran.error());
    if (options.progress) options.progress(until, options.max_histories);
    const Estimate now = goodput_of(outcomes, options);
    narrow = until > 1 && (now.high - now.low) / 2 <= options.half_width;
    if (narrow || until >= options.max_histories) break;
    until = std::min(2 * until, options.max_histories);
  }
  Goodput goodput = summary(outcomes, spec.course.target_tokens, options);
  goodput.narrow_enough = narrow;
  return goodput;
}

namespace {

/// Goodput of the same histories with this interval, as values whose mean it is.
Result<std::vector<double>> with_interval(JobSpec& spec, const StepTimes& steps, std::int64_t interval,
                                          const GoodputOptions& options) {
  spec.checkpoint.interval_steps = interval;
  const Result<Goodput> goodput = simulate_goodput(spec, steps, options);
  if (!goodput) return tl::unexpected(goodput.error());
  return ratio_values(goodput->goodputs, goodput->walls_s);
}

}  // namespace

Result<BestInterval> best_interval(JobSpec spec, const StepTimes& steps, std::int64_t around,
                                   const GoodputOptions& options) {
  GoodputOptions fixed = options;
  fixed.max_histories = options.min_histories;
  std::map<std::int64_t, std::vector<double>> tried;
  const auto attempt = [&](double interval) -> Result<void> {
    const std::int64_t steps_between = std::max<std::int64_t>(1, std::llround(interval));
    if (tried.contains(steps_between)) return {};
    Result<std::vector<double>> goodputs = with_interval(spec, steps, steps_between, fixed);
    if (!goodputs) return tl::unexpected(goodputs.error());
    tried.emplace(steps_between, std::move(*goodputs));
    return {};
  };
  const auto best = [&] {
    return std::max_element(tried.begin(), tried.end(),
                            [](const auto& a, const auto& b) { return mean(a.second) < mean(b.second); });
  };
  for (int power = -4; power <= 4; ++power)
    if (Result<void> done = attempt(static_cast<double>(around) * std::pow(2.0, power / 2.0)); !done)
      return tl::unexpected(done.error());
  const double coarse = static_cast<double>(best()->first);
  for (const double factor : {std::pow(2.0, -0.25), std::pow(2.0, 0.25)})
    if (Result<void> done = attempt(coarse * factor); !done) return tl::unexpected(done.error());

  BestInterval result;
  const std::vector<double>& top = best()->second;
  result.interval_steps = result.at_least = result.at_most = best()->first;
  for (const auto& [interval, goodputs] : tried) {
    result.trials.push_back({interval, estimate(goodputs, options.confidence)});
    std::vector<double> behind(top.size());
    for (std::size_t i = 0; i < top.size(); ++i) behind[i] = top[i] - goodputs[i];
    if (estimate(behind, options.confidence).low > 0) continue;
    result.at_least = std::min(result.at_least, interval);
    result.at_most = std::max(result.at_most, interval);
  }
  return result;
}

}  // namespace tracecast
