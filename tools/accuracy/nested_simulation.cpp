#include "tools/accuracy/nested_simulation.hpp"

#include <set>
#include <utility>

#include "tools/accuracy/rows/row_scenario.hpp"

namespace tracecast::accuracy {
namespace {

/// How a set of rules changes a validation.
struct RuleChanges {
  explicit RuleChanges(RuleSet set) : used(std::move(set)) {}
  RuleSet used;
  void stack(Stack& stack) const {
    for (std::size_t rule = 0; rule < used.size(); ++rule)
      if (!used[rule] && rules()[rule].change_stack != nullptr) rules()[rule].change_stack(stack);
  }
  void row(RowScenario& row) const {
    for (std::size_t rule = 0; rule < used.size(); ++rule)
      if (!used[rule] && rules()[rule].change != nullptr) rules()[rule].change(row);
  }
  ForecastOptions forecast() const {
    ForecastOptions options;
    options.record_spans = true;
    for (std::size_t rule = 0; rule < used.size(); ++rule) {
      if (used[rule]) continue;
      const ForecastOptions& own = rules()[rule].forecast;
      if (!own.transfers_slow_compute) options.transfers_slow_compute = false;
      if (own.network != ForecastOptions{}.network) options.network = own.network;
    }
    return options;
  }
};

bool same_step(const RowScenario& a, const RowScenario& b) {
  const Scenario &x = a.scenario, &y = b.scenario;
  return x.model == y.model && x.parallel == y.parallel && x.training == y.training && x.profile == y.profile &&
         x.cluster.tuning == y.cluster.tuning && a.steps_overlap == b.steps_overlap &&
         a.guess_recompute == b.guess_recompute;
}

void set_fold_band(RowForecast& row, const Fold& fold) {
  row.band = band_around(row.predicted_s, fold.band.half_width(fold.known.novelty_of(row), row.deviation()));
}

}  // namespace

Result<std::vector<RowForecast>> without_rule(const CsvTable& table, const RowLibrary& library,
                                              const ValidateOptions& options, const std::vector<RowForecast>& plain,
                                              std::size_t rule) {
  RuleSet used(rules().size(), true);
  used[rule] = false;
  const RuleChanges changes(used);
  const RowLibrary changed = library.with_stacks([&](Stack& stack) { changes.stack(stack); });
  ValidateOptions without = options;
  without.forecast = changes.forecast();
  without.bands = false;
  without.change = [&](RowScenario& row) { changes.row(row); };
  const bool every = without.forecast.network != ForecastOptions{}.network || !without.forecast.transfers_slow_compute;
  without.wanted = [&, every](std::size_t row) {
    if (!plain[row].scored()) return false;
    if (every) return true;
    const Result<RowScenario> before = scenario_of_row(table, row, library);
    Result<RowScenario> after = scenario_of_row(table, row, changed);
    if (!before || !after) return false;
    changes.row(*after);
    return !same_step(*before, *after);
  };
  Result<std::vector<RowForecast>> rows = validate(table, changed, without);
  if (!rows) return rows;
  for (RowForecast& row : *rows)
    if (row.forecast_made() && row.sensitivities.path_s == plain[row.row].sensitivities.path_s)
      row.skipped = "the rule does not change it";
  return rows;
}

Result<void> simulate_way(const CsvTable& table, const RowLibrary& library, const ValidateOptions& options,
                          const std::vector<RowForecast>& plain, Way& way) {
  std::vector<const Fold*> fold_of(table.rows(), nullptr);
  std::set<RuleSet> sets;
  for (const Fold& fold : way.folds) {
    sets.insert(fold.used);
    for (const std::size_t row : fold.tested) fold_of[row] = &fold;
  }
  way.held_out.assign(table.rows(), {});
  for (RowForecast& row : way.held_out) row.skipped = "not left out";
  for (const RuleSet& used : sets) {
    const RuleChanges changes(used);
    ValidateOptions how = options;
    how.forecast = changes.forecast();
    how.bands = false;
    how.change = [&](RowScenario& row) { changes.row(row); };
    how.wanted = [&](std::size_t row) { return fold_of[row] != nullptr && fold_of[row]->used == used; };
    how.factors = [&](const RowScenario& row) {
      return of_architecture(fold_of[row.row]->fit.factors, row.scenario.profile.architecture);
    };
    const RowLibrary changed = library.with_stacks([&](Stack& stack) { changes.stack(stack); });
    Result<std::vector<RowForecast>> rows = validate(table, changed, how);
    if (!rows) return tl::unexpected(rows.error());
    for (std::size_t row = 0; row < rows->size(); ++row) {
      if (!how.wanted(row)) continue;
      (*rows)[row].kernel_spread = plain[row].kernel_spread;
      set_fold_band((*rows)[row], *fold_of[row]);
      way.held_out[row] = std::move((*rows)[row]);
    }
  }
  return {};
}

}  // namespace tracecast::accuracy
