#include "sim/search/recipe.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tracecast {
namespace {

/// Position of a layout in its space, one index for each list.
struct Place {
  std::size_t tp = 0;
  std::size_t pp = 0;
  std::size_t vpp = 0;
  std::size_t micro_batch = 0;
  std::size_t recompute = 0;
};

class Recipe {
 public:
  Recipe(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options)
      : scenario_(scenario), space_(space), options_(options), bounds_(scenario) {}

  RecipeTrace run() {
    Place here;
    if (!find_start(here)) return std::move(trace_);
    trace_.found = true;
    while (improve(here)) {
    }
    return std::move(trace_);
  }

 private:
  Layout layout(const Place& place) const {
    Layout wanted = layout_of(scenario_);
    wanted.tp = space_.tp[place.tp];
    wanted.pp = space_.pp[place.pp];
    wanted.vpp = space_.vpp[place.vpp];
    wanted.micro_batch_size = space_.micro_batch_size[place.micro_batch];
    wanted.recompute = space_.recompute[place.recompute];
    return space_.at(space_.id_of(wanted));
  }

  Evaluation look_at(const Place& place) {
    const Layout candidate = layout(place);
    const auto bound = bounds_.bound(candidate);
    if (bound) return evaluate(scenario_, candidate, *bound, options_.memory_headroom);
    Evaluation impossible;
    impossible.layout = candidate;
    impossible.valid = false;
    return impossible;
  }

  bool find_start(Place& start) {
    std::vector<Place> order;
    for (std::size_t tp = 0; tp < space_.tp.size(); ++tp)
      for (std::size_t pp = 0; pp < space_.pp.size(); ++pp) order.push_back({.tp = tp, .pp = pp});
    std::stable_sort(order.begin(), order.end(), [&](const Place& a, const Place& b) {
      return std::pair(space_.tp[a.tp] * space_.pp[a.pp], space_.pp[a.pp]) <
             std::pair(space_.tp[b.tp] * space_.pp[b.pp], space_.pp[b.pp]);
    });
    for (Place place : order)
      for (place.recompute = 0; place.recompute < space_.recompute.size(); ++place.recompute) {
        const Evaluation evaluation = look_at(place);
        if (!evaluation.valid) continue;
        const bool fits = evaluation.fits;
        const Layout& l = evaluation.layout;
        add(fmt::format("tp {} x pp {}, recomputation {}", l.tp, l.pp, text(l.recompute)), evaluation, nullptr, fits);
        if (!fits) continue;
        start = place;
        return true;
      }
    return false;
  }

  /// Tries every adjacent layout; takes the fastest if it is faster than the current one.
  bool improve(Place& here) {
    const Evaluation before = trace_.last;
    const std::size_t first = trace_.steps.size();
    std::vector<Place> places;
    const auto neighbours = [&](std::size_t Place::*choice, const auto& values, const char* name) {
      for (const int step : {+1, -1}) {
        if (step < 0 ? here.*choice == 0 : here.*choice + 1 == values.size()) continue;
        Place place = here;
        place.*choice = here.*choice + static_cast<std::size_t>(step);
        Evaluation evaluation = look_at(place);
        if (!evaluation.valid) continue;
        add(fmt::format("{} {} -> {}", name, text(values[here.*choice]), text(values[place.*choice])), evaluation,
            &before, false);
        places.push_back(place);
      }
    };
    neighbours(&Place::pp, space_.pp, "pp");
    neighbours(&Place::tp, space_.tp, "tp");
    neighbours(&Place::vpp, space_.vpp, "vpp");
    neighbours(&Place::micro_batch, space_.micro_batch_size, "micro-batch");
    neighbours(&Place::recompute, space_.recompute, "recomputation");
    std::size_t best = places.size();
    for (std::size_t i = 0; i < places.size(); ++i) {
      const RecipeStep& step = trace_.steps[first + i];
      if (!step.evaluation.fits || step.faster_by <= 0) continue;
      if (best == places.size() || step.faster_by > trace_.steps[first + best].faster_by) best = i;
    }
    if (best == places.size()) return false;
    trace_.steps[first + best].taken = true;
    trace_.last = trace_.steps[first + best].evaluation;
    here = places[best];
    return true;
  }

  static std::string text(std::int64_t value) { return std::to_string(value); }
  static std::string text(Recompute value) { return to_string(value); }

  void add(std::string move, const Evaluation& evaluation, const Evaluation* before, bool taken) {
    RecipeStep step{std::move(move), evaluation, taken, 0, {}};
    if (before != nullptr) {
      if (evaluation.fits) step.faster_by = 1 - evaluation.step_time_s / before->step_time_s;
      step.memory_change = evaluation.memory - before->memory;
    }
    if (taken) trace_.last = evaluation;
    trace_.steps.push_back(std::move(step));
  }

  const Scenario& scenario_;
  const SearchSpace& space_;
  const SearchOptions& options_;
  BoundTable bounds_;
  RecipeTrace trace_;
};

}  // namespace

RecipeTrace follow_recipe(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options) {
  RecipeTrace trace = Recipe(scenario, space, options).run();
  trace.guideline = guideline(scenario);
  return trace;
}

}  // namespace tracecast
