#include "sim/search/planner.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/base/parallel_for.hpp"
#include "sim/forecast/layout_forecasts.hpp"
#include "sim/plan/memory.hpp"

namespace tracecast {
namespace {

bool faster(const Evaluation& a, const Evaluation& b) {
  return std::pair(a.step_time_s, a.layout.id) < std::pair(b.step_time_s, b.layout.id);
}

/// Keeps the `count` fastest runs, of equal ones the layout with the lower number.
void keep_best(std::vector<Evaluation>& best, const Evaluation& each, int count) {
  const auto same = std::ranges::find_if(best, [&](const Evaluation& other) { return is_same_run(each, other); });
  if (same != best.end()) {
    if (each.layout.id < same->layout.id) *same = each;
    return;
  }
  best.insert(std::upper_bound(best.begin(), best.end(), each, faster), each);
  if (static_cast<int>(best.size()) > count) best.pop_back();
}

void copy_times(Evaluation& result, const Forecast& forecast) {
  result.step_time_s = forecast.step_time_s;
  result.mfu = forecast.mfu;
  result.bubble_fraction = forecast.bubble_fraction;
  result.host_s = forecast.host_s;
  result.optimizer_s = forecast.optimizer_s;
  for (const auto& [kind, each] : forecast.compute_s) result.compute_s += each;
  result.exposed_s = forecast.exposed_s;
}

Evaluation evaluate(const Scenario& scenario, const Layout& layout, const LayoutBound& bound, double memory_headroom,
                    Duration longest, LayoutForecasts& forecasts) {
  Evaluation result;
  result.layout = layout;
  result.bound = bound;
  const Result<LayoutForecast> forecast = forecasts.forecast(with_layout(scenario, layout), memory_headroom, longest);
  result.valid = forecast.has_value();
  if (!result.valid) return result;
  result.memory = forecast->peak;
  result.memory_capacity = forecast->capacity;
  result.host_used = forecast->host_used;
  result.fits_gpus = forecast->fits_gpus;
  result.fits = forecast->fits;
  result.given_up = forecast->given_up;
  if (result.fits) copy_times(result, forecast->step);
  return result;
}

}  // namespace

Evaluation evaluate(const Scenario& scenario, const Layout& layout, const LayoutBound& bound, double memory_headroom) {
  LayoutForecasts forecasts;
  return evaluate(scenario, layout, bound, memory_headroom, {}, forecasts);
}

bool is_same_run(const Evaluation& a, const Evaluation& b) {
  const auto facts = [](const Evaluation& e) {
    return std::tie(e.step_time_s, e.memory, e.compute_s, e.bubble_fraction, e.host_s, e.optimizer_s, e.exposed_s,
                    e.layout.tp, e.layout.cp, e.layout.ep, e.layout.pp, e.layout.micro_batch_size);
  };
  return facts(a) == facts(b);
}

std::string why_impossible(const Scenario& scenario, const SearchSpace& space) {
  constexpr std::int64_t kMost = 2000;
  // Of the layouts with the fewest faults, since those of others are their own; a product of degrees that does not divide the GPUs
  // hides further faults.
  std::map<std::pair<bool, std::size_t>, std::map<std::string, int>> reasons;
  const std::int64_t stride = std::max<std::int64_t>(1, space.size() / kMost);
  for (std::int64_t id = 0; id < space.size(); id += stride) {
    const Scenario candidate = with_layout(scenario, space.at(id));
    const Result<Plan> plan =
        make_plan(candidate.model, candidate.parallel, candidate.training, candidate.cluster.world_size);
    if (plan) return "";
    const std::vector<Diagnostic>& faults = plan.error().diagnostics;
    const Diagnostic& first = faults.front();
    const std::pair distance(first.key == "parallel", faults.size());
    ++reasons[distance][fmt::format("{}{}{}", first.key, first.key.empty() ? "" : ": ", first.message)];
  }
  if (reasons.empty()) return "";
  const auto& nearest = reasons.begin()->second;
  return std::ranges::max_element(nearest, {}, [](const auto& each) { return each.second; })->first;
}

Evaluation evaluate_as_it_is(const Scenario& scenario) {
  Evaluation result;
  result.layout = layout_of(scenario);
  const Result<ForecastRun> run = forecast(scenario);
  result.valid = run.has_value();
  if (!run) return result;
  const Forecast& f = run->forecast;
  result.memory = f.memory[static_cast<std::size_t>(f.tightest_pp_rank)].total();
  result.memory_capacity = f.memory_capacity;
  result.host_used = f.host_used;
  result.fits_gpus = f.fits_gpus;
  result.fits = f.fits;
  copy_times(result, f);
  return result;
}

std::vector<BoundedLayout> bound_all(const Scenario& scenario, const SearchSpace& space, int threads,
                                     SearchCounts& counts) {
  // One piece for every set of layouts with the same layer costs.
  const std::int64_t piece = space.layouts_per_layer_cost();
  const auto pieces = static_cast<std::size_t>(space.size() / piece);
  const auto workers = std::min(static_cast<std::size_t>(thread_count(threads)), pieces);
  const SpaceShapes shapes = space_shapes(scenario, space, static_cast<int>(workers));
  std::vector<std::vector<BoundedLayout>> found(pieces);
  std::atomic<std::size_t> next{0};
  parallel_for(workers, static_cast<int>(workers), [&](std::size_t) {
    BoundTable table(scenario);
    for (std::size_t p = next++; p < pieces; p = next++)
      table.append_bounds(space, static_cast<std::int64_t>(p) * piece, shapes, found[p]);
  });
  std::vector<BoundedLayout> all;
  for (const auto& part : found) all.insert(all.end(), part.begin(), part.end());
  counts.layouts += space.size();
  counts.impossible += space.size() - static_cast<std::int64_t>(all.size());
  return all;
}

EvaluateRound evaluate_on_threads(const Scenario& scenario, const SearchOptions& options) {
  return [&scenario, threads = thread_count(options.threads), headroom = options.memory_headroom,
          evaluated = options.evaluated,
          forecasts = std::make_shared<LayoutForecasts>()](SearchRound round, Duration longest) {
    std::vector<Evaluation> evaluations(round.size());
    parallel_for(round.size(), threads, [&](std::size_t i) {
      evaluations[i] = evaluate(scenario, round[i].first, round[i].second, headroom, longest, *forecasts);
      if (evaluated) evaluated();
    });
    return evaluations;
  };
}

namespace {

/// One search. Layouts are looked at in an order that is fixed before the first round.
class Search {
 public:
  Search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options)
      : scenario_(scenario), space_(space), options_(options) {
    layouts_ = bound_all(scenario, space, options.threads, result_.counts);
    drop_what_cannot_fit();
    sort_layouts();
  }

  SearchResult run(const EvaluateRound& evaluate_round) {
    while (at_ < layouts_.size() && !enough()) {
      if (options_.stop && options_.stop()) {
        result_.complete = false;
        break;
      }
      report();
      const Duration longest = full() ? from_seconds(result_.best.back().step_time_s) : Duration{};
      for (Evaluation& each : evaluate_round(next_round(), longest)) add(std::move(each), longest);
    }
    result_.counts.pruned = static_cast<std::int64_t>(layouts_.size() - at_);
    std::sort(result_.simulated.begin(), result_.simulated.end(),
              [](const Evaluation& a, const Evaluation& b) { return a.layout.id < b.layout.id; });
    return std::move(result_);
  }

 private:
  void drop_what_cannot_fit() {
    const Bytes memory = usable_memory(scenario_.profile.memory, options_.memory_headroom);
    if (!layouts_.empty())
      result_.least_memory =
          std::ranges::min(layouts_, {}, [](const BoundedLayout& each) { return each.bound.memory; }).bound.memory;
    result_.counts.out_of_memory +=
        std::erase_if(layouts_, [&](const BoundedLayout& each) { return each.bound.memory > memory; });
  }

  /// By bound. Those of some ZeRO stages may be far too low for all their layouts, so the likely ones come first, or the first of each
  /// stage: the best of them are a limit for the others.
  void sort_layouts() {
    std::sort(layouts_.begin(), layouts_.end(), [](const BoundedLayout& a, const BoundedLayout& b) {
      return std::pair(a.bound.step_time, a.id) < std::pair(b.bound.step_time, b.id);
    });
    const auto likely = std::stable_partition(layouts_.begin(), layouts_.end(), [&](const BoundedLayout& each) {
      return std::ranges::find(options_.likely, each.id) != options_.likely.end();
    });
    std::map<int, int> of_stage;
    const auto rest = likely != layouts_.begin()
                          ? likely
                          : std::stable_partition(layouts_.begin(), layouts_.end(), [&](const BoundedLayout& each) {
                              return of_stage[space_.at(each.id).zero_stage]++ < kFirstOfStage;
                            });
    first_ = static_cast<std::size_t>(rest - layouts_.begin());
  }

  /// As many layouts as are wanted are known.
  bool full() const { return !options_.exhaustive && static_cast<int>(result_.best.size()) >= options_.best; }
  bool may_win(const BoundedLayout& each) const {
    return !full() || seconds(each.bound.step_time) <= result_.best.back().step_time_s;
  }
  bool enough() const { return at_ >= first_ && !may_win(layouts_[at_]); }

  void report() const {
    if (!options_.progress) return;
    const auto rest = layouts_.begin() + static_cast<std::ptrdiff_t>(std::max(first_, at_));
    const auto end = std::partition_point(rest, layouts_.end(), [&](const auto& each) { return may_win(each); });
    options_.progress(static_cast<std::int64_t>(at_), end - layouts_.begin(),
                      result_.best.empty() ? 0 : result_.best.front().step_time_s);
  }

  std::vector<std::pair<Layout, LayoutBound>> next_round() {
    std::vector<std::pair<Layout, LayoutBound>> round;
    const std::size_t end = at_ < first_ ? first_ : layouts_.size();
    for (; at_ < end && round.size() < kRound; ++at_) {
      round.emplace_back(space_.at(layouts_[at_].id), layouts_[at_].bound);
      if (!options_.allowed || options_.allowed(with_layout(scenario_, round.back().first))) continue;
      ++result_.counts.refused;
      round.pop_back();
    }
    return round;
  }

  /// Whether its simulation ended early, or a store knows all of it, a layout that takes longer counts as given up.
  void add(Evaluation each, Duration longest) {
    SearchCounts& counts = result_.counts;
    if (!each.valid) {
      ++counts.impossible;
    } else if (each.given_up || (each.fits && longest > Duration{} && from_seconds(each.step_time_s) > longest)) {
      ++counts.given_up;
    } else if (!each.fits) {
      ++counts.out_of_memory;
      Bytes& least = result_.least_host;
      if (each.fits_gpus) least = least == Bytes{} ? each.host_used : std::min(least, each.host_used);
    } else {
      ++counts.simulated;
      keep_best(result_.best, each, options_.best);
      result_.simulated.push_back(std::move(each));
    }
  }

  const Scenario& scenario_;
  const SearchSpace& space_;
  const SearchOptions& options_;
  std::vector<BoundedLayout> layouts_;  ///< that may fit, in the order in which they are looked at
  std::size_t first_ = 0;               ///< how many of them come first whatever their bounds; the rest is by bound
  std::size_t at_ = 0;                  ///< the next one
  SearchResult result_;
};

}  // namespace

SearchResult search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options,
                    const EvaluateRound& evaluate_round) {
  return Search(scenario, space, options).run(evaluate_round);
}

SearchResult search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options) {
  return search(scenario, space, options, evaluate_on_threads(scenario, options));
}

}  // namespace tracecast
