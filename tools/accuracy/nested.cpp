#include "tools/accuracy/nested.hpp"

#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include "sim/base/parallel_for.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/nested_simulation.hpp"
#include "tools/accuracy/rows/framework_names.hpp"

namespace tracecast::accuracy {
namespace {

using Rows = std::vector<const RowForecast*>;
using Indices = std::vector<std::size_t>;

bool chosen_by_errors(const LeftOut& rule) { return *rule.evidence == '\0'; }

/// The rows as the first-order model sees them: what each rule changes on the critical path.
class Table {
 public:
  std::vector<RowForecast> plain{};             ///< [row]
  std::vector<std::vector<RowForecast>> off{};  ///< [rule][row]; without a forecast: the rule does not change the row
  FitChoice choice{};

  bool changes(std::size_t rule, std::size_t row) const { return off[rule][row].forecast_made(); }
  bool tested(std::size_t rule, const Indices& rows) const {
    return std::any_of(rows.begin(), rows.end(), [&](std::size_t row) { return changes(rule, row); });
  }
  /// A row with some of the rules.
  RowForecast with(std::size_t row, const RuleSet& used) const {
    RowForecast out = plain[row];
    for (std::size_t rule = 0; rule < used.size(); ++rule) {
      if (used[rule] || !changes(rule, row)) continue;
      for (std::size_t k = 0; k < kCostParameters; ++k)
        out.sensitivities.path_s[k] += off[rule][row].sensitivities.path_s[k] - plain[row].sensitivities.path_s[k];
    }
    for (double& seconds : out.sensitivities.path_s) seconds = std::max(0.0, seconds);
    return out;
  }
  std::vector<RowForecast> with(const Indices& rows, const RuleSet& used) const {
    std::vector<RowForecast> out;
    out.reserve(rows.size());
    for (const std::size_t row : rows) out.push_back(with(row, used));
    return out;
  }
};

Rows pointers(const std::vector<RowForecast>& rows) {
  Rows out;
  for (const RowForecast& row : rows) out.push_back(&row);
  return out;
}

/// The step time of the first order: the critical path with a fit's factors.
void predict(RowForecast& row, const CalibrationFit& fit) {
  const CostScales factors = of_architecture(fit.factors, row.architecture);
  row.predicted_s = 0;
  for (std::size_t k = 0; k < kCostParameters; ++k) row.predicted_s += row.sensitivities.path_s[k] * factors[k];
}

/// What of a row decides which inner part it is in.
using PartKey = std::string RowForecast::*;

/// The rows of a training part, each forecast by a fit to the parts with other values of `key`. Appends what they say about
/// the widths of bands to `samples`, if any.
std::vector<RowForecast> inner_errors(const Table& table, const Indices& train, const RuleSet& used,
                                      PartKey key = &RowForecast::source, std::vector<BandSample>* samples = nullptr) {
  std::vector<RowForecast> rows = table.with(train, used);
  std::map<std::string, int> part_of;
  for (const RowForecast& row : rows) part_of.emplace(row.*key, 0);
  int next = 0;
  for (auto& [name, part] : part_of) part = next++ % kInnerParts;
  for (int part = 0; part < std::min(next, kInnerParts); ++part) {
    Rows others;
    for (const RowForecast& row : rows)
      if (part_of.at(row.*key) != part) others.push_back(&row);
    if (others.empty()) others = pointers(rows);
    const CalibrationFit fit = fit_factors(others, table.choice);
    KnownRuns known;
    for (const RowForecast* row : others) known.add(*row);
    for (RowForecast& row : rows) {
      if (part_of.at(row.*key) != part) continue;
      predict(row, fit);
      if (samples != nullptr) samples->push_back(band_sample(row, known));
    }
  }
  return rows;
}

/// The dense rows of a training part with the times of isolated kernels.
std::vector<RowForecast> without_factors(const Table& table, const Indices& train, const RuleSet& used) {
  CalibrationFit none;
  none.factors = table.choice.shipped;
  for (auto& [architecture, factors] : none.factors)
    for (double& factor : factors) factor = 1 / factor;
  std::vector<RowForecast> rows = table.with(train, used);
  std::erase_if(rows, [](const RowForecast& row) { return row.moe; });
  for (RowForecast& row : rows) predict(row, none);
  return rows;
}

RunBand inner_band(const Table& table, const Indices& train, const RuleSet& used) {
  std::vector<BandSample> samples;
  for (const PartKey key : {&RowForecast::source, &RowForecast::stack, &RowForecast::architecture})
    inner_errors(table, train, used, key, &samples);
  const std::vector<RowForecast> uncalibrated = without_factors(table, train, used);
  const std::vector<BandSample> architectures = stand_ins_for_architectures(samples, uncalibrated);
  for (const BandSample& sample : stand_ins_for_experts(samples, uncalibrated)) samples.push_back(sample);
  return fit_run_band(samples, architectures);
}

/// Measures of dense runs and of those with experts.
std::array<double, 2> measures(const std::vector<RowForecast>& rows) {
  Rows dense, experts;
  for (const RowForecast& row : rows) (row.moe ? experts : dense).push_back(&row);
  return {measure(dense).mean_of_medians, measure(experts).mean_of_medians};
}

std::array<double, 2> inner_measures(const Table& table, const Indices& train, const RuleSet& used) {
  return measures(inner_errors(table, train, used));
}

/// True if the measures without the rule are larger: of dense runs, of those with experts, or the sum of both, as it changes
/// them. Elsewhere it acts only through the fit, and the difference is noise.
bool lowers_error(const Table& table, const Indices& train, std::size_t rule, const std::array<double, 2>& with,
                  const std::array<double, 2>& without) {
  std::array<bool, 2> changed{};
  for (const std::size_t row : train)
    if (table.changes(rule, row)) changed[table.plain[row].moe ? 1 : 0] = true;
  double gain = 0;
  for (std::size_t kind = 0; kind < 2; ++kind)
    if (changed[kind]) gain += without[kind] - with[kind];
  return gain > 0;
}

/// Chooses rules and fits factors and bands.
void fit_fold(const Table& table, Fold& fold) {
  const std::vector<LeftOut>& all = rules();
  const RuleSet everything(all.size(), true);
  fold.used = everything;
  const std::array<double, 2> with = inner_measures(table, fold.train, everything);
  for (std::size_t rule = 0; rule < all.size(); ++rule) {
    if (!chosen_by_errors(all[rule])) continue;
    RuleSet without = everything;
    without[rule] = false;
    fold.used[rule] = table.tested(rule, fold.train) &&
                      lowers_error(table, fold.train, rule, with, inner_measures(table, fold.train, without));
  }
  const std::vector<RowForecast> rows = table.with(fold.train, fold.used);
  fold.fit = fit_factors(pointers(rows), table.choice);
  fold.band = inner_band(table, fold.train, fold.used);
  for (const RowForecast& row : rows) fold.known.add(row);
}

/// One fold for each value of `key`.
template <class Key>
Way leave_out_groups(std::string name, const std::vector<RowForecast>& rows, Key key) {
  Way way{.name = std::move(name)};
  std::map<std::string, Fold> folds;
  for (const RowForecast* row : scored(rows)) folds[key(*row)].tested.push_back(row->row);
  for (auto& [left_out, fold] : folds) {
    fold.left_out = left_out.empty() ? "none" : left_out;
    for (const RowForecast* row : scored(rows))
      if (key(*row) != left_out) fold.train.push_back(row->row);
    if (!fold.train.empty()) way.folds.push_back(std::move(fold));
  }
  return way;
}

Way leave_out_future(double date, const std::vector<RowForecast>& rows, const std::vector<double>& years) {
  Way way{.name = "after " + std::to_string(static_cast<int>(date) - 1)};
  Fold fold{.left_out = way.name};
  for (const RowForecast* row : scored(rows)) (years[row->row] < date ? fold.train : fold.tested).push_back(row->row);
  if (!fold.train.empty() && !fold.tested.empty()) way.folds.push_back(std::move(fold));
  return way;
}

/// Each row by the last date before it was published.
Way forward_in_time(const std::vector<Way>& dates, const std::vector<double>& years) {
  Way way{.name = "time"};
  for (std::size_t date = 0; date < dates.size(); ++date) {
    if (way.held_out.empty()) way.held_out = dates[date].held_out;
    for (const Fold& fold : dates[date].folds) {
      Fold own = fold;
      std::erase_if(own.tested, [&](std::size_t row) {
        return date + 1 < kForwardDates.size() && years[row] >= kForwardDates[date + 1];
      });
      for (const std::size_t row : own.tested) way.held_out[row] = dates[date].held_out[row];
      way.folds.push_back(std::move(own));
    }
  }
  return way;
}

/// What all folds of a way forecast, each with its own rules and fit changed by `change`.
template <class Change>
std::array<double, 2> first_order(const Table& table, const Way& way, int threads, Change change) {
  std::vector<std::vector<RowForecast>> parts(way.folds.size());
  parallel_for(way.folds.size(), threads, [&](std::size_t i) {
    const Fold& fold = way.folds[i];
    RuleSet used = fold.used;
    FitChoice choice = table.choice;
    const bool again = change(fold, used, choice);
    CalibrationFit fit = fold.fit;
    if (again) {
      const std::vector<RowForecast> train = table.with(fold.train, used);
      fit = fit_factors(pointers(train), choice);
    }
    parts[i] = table.with(fold.tested, used);
    for (RowForecast& row : parts[i]) predict(row, fit);
  });
  std::vector<RowForecast> all;
  for (const std::vector<RowForecast>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return measures(all);
}

RuleScore score_rule(const Table& table, const std::vector<Way>& ways, std::size_t rule, int threads) {
  RuleScore score{.rule = &rules()[rule]};
  for (const RowForecast& row : table.plain) score.rows += row.scored() && table.changes(rule, row.row) ? 1 : 0;
  for (const Way& way : ways) {
    for (const Fold& fold : way.folds) {
      if (!table.tested(rule, fold.train)) continue;
      ++score.folds;
      score.folds_used += fold.used[rule] ? 1 : 0;
    }
    for (const bool with : {true, false}) {
      const auto [dense, experts] = first_order(table, way, threads, [&](const Fold& fold, RuleSet& used, FitChoice&) {
        const bool again = used[rule] != with && (table.tested(rule, fold.train) || table.tested(rule, fold.tested));
        used[rule] = with;
        return again;
      });
      score.dense[way.name][with ? 0 : 1] = dense;
      score.experts[way.name][with ? 0 : 1] = experts;
    }
  }
  return score;
}

FactorScore score_factor(const Table& table, const std::vector<Way>& ways, CostParameter kind, int threads) {
  FactorScore score{.kind = kind};
  for (const Way& way : ways)
    for (const bool with : {true, false}) {
      const auto [dense, experts] = first_order(table, way, threads, [&](const Fold&, RuleSet&, FitChoice& choice) {
        choice.free[static_cast<std::size_t>(kind)] = with;
        return !with;
      });
      score.dense[way.name][with ? 0 : 1] = dense;
      score.experts[way.name][with ? 0 : 1] = experts;
    }
  return score;
}

/// The month in the name of a file, "asyncTP_llama3_h100_2025-06_torchtitan.md" or "202506"; 0: there is none. A date with a day is that
/// of the copy.
double month_in_name(const std::string& name) {
  static const std::regex kMonth("(^|[^0-9])(20[0-9]{2})-?(0[1-9]|1[0-2])([^0-9-]|$)");
  std::smatch found;
  if (!std::regex_search(name, found, kMonth)) return 0;
  return std::stoi(found[2].str()) + (std::stoi(found[3].str()) - 0.5) / 12;
}

int determined_factors(const std::vector<RowForecast>& rows) {
  std::set<std::pair<std::string, std::size_t>> kinds;
  for (const RowForecast* row : scored(rows))
    for (const CostParameter kind : kFittedKinds)
      if (row->sensitivities.path_s[static_cast<std::size_t>(kind)] > 0)
        kinds.emplace(row->architecture, static_cast<std::size_t>(kind));
  return static_cast<int>(kinds.size());
}

}  // namespace

Result<std::vector<double>> publication_years(const CsvTable& table, const CsvTable& sources) {
  std::map<std::string, double> of;
  for (std::size_t row = 0; row < sources.rows(); ++row)
    of[sources.text(row, "source")] = sources.number(row, "published").value_or(0);
  std::vector<double> years;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto found = of.find(table.text(row, "source"));
    if (found == of.end() || found->second <= 0)
      return tl::unexpected(Error{{table.error_at(row, "source", "has no year of publication in " + sources.file())}});
    years.push_back(std::max(
        {found->second, year_of_release(table.text(row, "framework")), month_in_name(table.text(row, "source_path"))}));
  }
  return years;
}

std::map<std::string, std::string> publishers(const CsvTable& sources) {
  std::map<std::string, std::string> of;
  for (std::size_t row = 0; row < sources.rows(); ++row) {
    const std::string& publisher = sources.text(row, "publisher");
    of[sources.text(row, "source")] = publisher.empty() ? sources.text(row, "source") : publisher;
  }
  return of;
}

Result<Nested> nested_scores(const CsvTable& table, const CsvTable& sources, const RowLibrary& library,
                             const ValidateOptions& options) {
  const Result<std::vector<double>> years = publication_years(table, sources);
  if (!years) return tl::unexpected(years.error());
  Result<FitChoice> choice = choice_of_profiles(library);
  if (!choice) return tl::unexpected(choice.error());
  Result<std::vector<RowForecast>> plain = validate(table, library, options);
  if (!plain) return tl::unexpected(plain.error());
  Table known{.plain = std::move(*plain), .choice = std::move(*choice)};
  for (std::size_t rule = 0; rule < rules().size(); ++rule) {
    Result<std::vector<RowForecast>> off = without_rule(table, library, options, known.plain, rule);
    if (!off) return tl::unexpected(off.error());
    known.off.push_back(std::move(*off));
  }

  Nested out;
  Indices all;
  for (const RowForecast* row : scored(known.plain)) all.push_back(row->row);
  out.band = inner_band(known, all, RuleSet(rules().size(), true));
  out.free_factors = determined_factors(known.plain);
  const std::map<std::string, std::string> publisher = publishers(sources);
  out.ways.push_back(
      leave_out_groups("source", known.plain, [&](const RowForecast& row) { return publisher.at(row.source); }));
  out.ways.push_back(leave_out_groups("stack", known.plain, [](const RowForecast& row) { return row.stack; }));
  out.ways.push_back(
      leave_out_groups("generation", known.plain, [](const RowForecast& row) { return row.architecture; }));
  for (const double date : kForwardDates) out.dates.push_back(leave_out_future(date, known.plain, *years));
  std::vector<Fold*> folds;
  for (std::vector<Way>* ways : {&out.ways, &out.dates})
    for (Way& way : *ways)
      for (Fold& fold : way.folds) folds.push_back(&fold);
  parallel_for(folds.size(), options.threads, [&](std::size_t i) { fit_fold(known, *folds[i]); });
  for (std::vector<Way>* ways : {&out.ways, &out.dates})
    for (Way& way : *ways)
      if (Result<void> done = simulate_way(table, library, options, known.plain, way); !done)
        return tl::unexpected(done.error());
  out.ways.push_back(forward_in_time(out.dates, *years));
  for (std::size_t rule = 0; rule < rules().size(); ++rule)
    out.rules.push_back(score_rule(known, out.ways, rule, options.threads));
  for (const CostParameter kind : kFittedKinds)
    out.factors.push_back(score_factor(known, out.ways, kind, options.threads));
  out.plain = std::move(known.plain);
  return out;
}

}  // namespace tracecast::accuracy
