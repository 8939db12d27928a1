#include "tools/accuracy/failure_figures.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/base/quantile.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/forecast/goodput_forecast.hpp"
#include "sim/io/files.hpp"

namespace tracecast::accuracy {
namespace {

/// Weighted least squares of y = a + b x: {a, b}.
std::pair<double, double> fit_line(const std::vector<double>& x, const std::vector<double>& y,
                                   const std::vector<double>& weights) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    w += weights[i];
    wx += weights[i] * x[i];
    wy += weights[i] * y[i];
    wxx += weights[i] * x[i] * x[i];
    wxy += weights[i] * x[i] * y[i];
  }
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  return {(wy - slope * wx) / w, slope};
}

}  // namespace

double StartLaw::communicators_s(double gpus) const { return communicators_per_1k_s * std::pow(gpus / 1000, exponent); }
double StartLaw::restart_s(double gpus) const { return base_s + per_1k_s * gpus / 1000 + communicators_s(gpus); }

StartLaw fit_start_law(const std::vector<StartTimes>& points) {
  std::vector<double> size, log_size, log_time, rest, weights;
  for (const StartTimes& p : points) {
    size.push_back(p.gpus / 1000);
    log_size.push_back(std::log(p.gpus / 1000));
    log_time.push_back(std::log(p.communicators_s));
    rest.push_back(p.restart_s - p.communicators_s);
    weights.push_back(1 / (rest.back() * rest.back()));
  }
  const auto [log_a, exponent] = fit_line(log_size, log_time, std::vector<double>(points.size(), 1));
  const auto [base, per_1k] = fit_line(size, rest, weights);
  return {base, per_1k, std::exp(log_a), exponent};
}

bool is_failure_table(const CsvTable& table) {
  return table.has("metric") && table.has("category") && table.has("duration_days");
}

namespace {

class FigureForecaster {
 public:
  FigureForecaster(const CsvTable& table, CsvTable how, const DataPaths& data, int threads)
      : table_(table), how_(std::move(how)), data_(data), threads_(threads) {}

  Result<FailureFigures> run() {
    std::map<std::string, std::size_t> rows;
    for (std::size_t i = 0; i < how_.rows(); ++i) rows[how_.text(i, "id")] = i;
    collect_start_times();
    FailureFigures out;
    for (row_ = 0; row_ < table_.rows(); ++row_) {
      const auto found = rows.find(table_.text(row_, "id"));
      if (found == rows.end()) return table_error("id", "has no row in failure-forecasts.csv");
      plan_ = found->second;
      if (plan("quantity").empty()) {
        ++out.left_out[plan("why")];
        continue;
      }
      Result<FailureFigure> figure = forecast();
      if (!figure) return tl::unexpected(figure.error());
      out.figures.push_back(std::move(*figure));
    }
    return out;
  }

 private:
  const std::string& plan(const char* column) const { return how_.text(plan_, column); }
  const std::string& text(const char* column) const { return table_.text(row_, column); }
  tl::unexpected<Error> table_error(const char* column, std::string message) const {
    return tl::unexpected(Error{{table_.error_at(row_, column, std::move(message))}});
  }

  /// The sizes whose restart and communicator set-up are both published.
  void collect_start_times() {
    std::map<double, StartTimes> by_size;
    for (std::size_t i = 0; i < table_.rows(); ++i) {
      const double gpus = table_.number(i, "gpu_count").value_or(0);
      const double value = table_.number(i, "value").value_or(0);
      if (table_.text(i, "category") == "cold restart") by_size[gpus].restart_s = value;
      if (table_.text(i, "metric") == "collective_library_init_time") by_size[gpus].communicators_s = value;
    }
    for (auto& [gpus, times] : by_size) {
      times.gpus = gpus;
      if (times.restart_s > 0 && times.communicators_s > 0) start_times_.push_back(times);
    }
  }

  StartLaw law_without(double gpus) const {
    std::vector<StartTimes> others;
    for (const StartTimes& p : start_times_)
      if (p.gpus != gpus) others.push_back(p);
    return fit_start_law(others);
  }

  Result<FailureFigure> forecast() {
    FailureFigure f;
    f.run = text("run_or_cluster");
    f.gpu = text("gpu");
    f.gpus = table_.number(row_, "gpu_count").value_or(0);
    const bool by_part = text("metric").find("_by_c") != std::string::npos;
    f.name = by_part                     ? text("category")
             : text("category") == "all" ? text("metric")
                                         : text("metric") + ", " + text("category");
    f.name = spaced(f.name);
    f.unit = plan("published").empty() ? text("unit") : "percent";
    f.model = plan("model");
    f.published = plan("published").empty() ? table_.number(row_, "value").value_or(0)
                                            : how_.number(plan_, "published").value_or(0);
    f.bound = text("notes").starts_with("lower bound");
    const Machine machine{static_cast<int>(how_.number(plan_, "gpus").value_or(f.gpus)), 8};
    const Result<double> value = value_of(f, machine);
    if (!value) return tl::unexpected(value.error());
    f.forecast = *value;
    return f;
  }

  Result<double> value_of(FailureFigure& f, const Machine& machine) {
    const std::string& quantity = plan("quantity");
    const StartLaw law = start_times_.empty() ? StartLaw{} : law_without(f.gpus);
    if (quantity == "restart" || quantity == "communicators") {
      f.model = "law of the other sizes";
      return quantity == "restart" ? law.restart_s(f.gpus) : law.communicators_s(f.gpus);
    }
    if (quantity == "checkpoint_size") return size_of_checkpoint(f);
    const Result<FailureFile> file = failures(f.model.empty() ? "llama3-54-days" : f.model, {});
    if (!file) return tl::unexpected(file.error());
    if (quantity == "warm_restart") {
      f.model = "llama3-54-days";
      return seconds(restart_time(file->recovery, machine, SpareState::warm)) / 60;
    }
    if (quantity == "spares") return enough_spares(file->model, machine, file->recovery);
    if (quantity == "goodput") return goodput(f);
    if (quantity == "failures") return number_of_failures(*file, machine, f.unit);
    if (quantity == "nodes")
      return days() * kSecondsPerDay * rate(*file, machine, [&](const FailureKind& kind) {
               return nodes_taken(kind.scope, file->model, machine) * kind.replace_probability;
             });
    return table_error("id", "has the unknown quantity '" + quantity + "' in failure-forecasts.csv");
  }

  double days() const { return table_.number(row_, "duration_days").value_or(0); }

  template <class Weight>
  static double rate(const FailureFile& file, const Machine& machine, Weight weight) {
    const FailureModel model = without_unused_network(file.model, machine);
    double sum = 0;
    for (const FailureKind& kind : model.kinds)
      sum += weight(kind) * interruption_rate_s(kind, model, machine, file.recovery.flap_budget);
    return sum;
  }

  Result<double> number_of_failures(const FailureFile& file, const Machine& machine, const std::string& unit) const {
    const std::vector<std::string_view> names = split(plan("select"), '|');
    for (const std::string_view name : names)
      if (!name.empty() && std::none_of(file.model.kinds.begin(), file.model.kinds.end(),
                                        [&](const FailureKind& kind) { return kind.name == name; }))
        return table_error("id", fmt::format("selects '{}', which '{}' lacks", name, file.model.name));
    const double all = rate(file, machine, [](const FailureKind&) { return 1.0; });
    const double selected = plan("select").empty() ? all : rate(file, machine, [&](const FailureKind& kind) {
      return std::find(names.begin(), names.end(), kind.name) != names.end() ? 1.0 : 0.0;
    });
    if (const std::optional<double> total = how_.number(plan_, "total")) return *total * selected / all;
    if (unit == "count") return selected * days() * kSecondsPerDay;
    if (unit == "minute") return 1 / selected / 60;
    if (unit == "hour") return 1 / selected / kSecondsPerHour;
    if (unit == "day") return 1 / selected / kSecondsPerDay;
    if (unit == "failures_per_1000_node_days") return 1000 * selected * kSecondsPerDay / machine.nodes();
    if (unit == "per_1000_servers_per_day") return selected * kSecondsPerDay;
    return table_error("unit", "is not one that failures are forecast in");
  }

  Result<double> size_of_checkpoint(const FailureFigure& f) const {
    const Result<Model> model = find_file(f.model, data_.scenarios / "models", "model").and_then([](const auto& path) {
      return read_model(path);
    });
    if (!model) return tl::unexpected(model.error());
    const double bytes = static_cast<double>(saved_state(*model, Training{}, Parallel{}).total().count);
    return bytes / (f.unit == "terabyte" ? 1e12 : 1e9);
  }

  Result<FailureFile> failures(const std::string& name, const std::vector<std::string>& overrides) const {
    return find_file(name, data_.scenarios / "failures", "failure model").and_then([&](const auto& path) {
      return read_failure_file(path, overrides);
    });
  }

  Result<double> goodput(const FailureFigure& f) const {
    GoodputRequest request;
    std::vector<std::string> of_scenario, of_failures;
    for (const std::string_view set : split(plan("set"), ';')) {
      if (set.starts_with("mtbf="))
        request.mtbf_s = parse_long_time_s(std::string(set.substr(5))).value_or(0);
      else if (!set.empty())
        (set.starts_with("recovery.") ? of_failures : of_scenario).emplace_back(set);
    }
    const Result<Scenario> scenario =
        find_file(plan("scenario"), data_.scenarios, "scenario").and_then([&](const auto& path) {
          return read_scenario(path, data_, of_scenario);
        });
    if (!scenario) return tl::unexpected(scenario.error());
    Result<FailureFile> file = failures(f.model, of_failures);
    if (!file) return tl::unexpected(file.error());
    request.scenario = *scenario;
    request.failures = std::move(*file);
    request.days = days() > 0 ? std::min(days(), 60.0) : 2;
    request.find_best_interval = false;
    request.options.min_histories = request.options.max_histories = 8;
    request.options.threads = threads_;
    const Result<GoodputForecast> forecast = forecast_goodput(request);
    if (!forecast) return tl::unexpected(forecast.error());
    return forecast->goodput.goodput.mean * (f.unit == "percent" ? 100 : 1);
  }

  const CsvTable& table_;
  const CsvTable how_;
  const DataPaths& data_;
  const int threads_;
  std::vector<StartTimes> start_times_;
  std::size_t row_ = 0;   ///< of table_
  std::size_t plan_ = 0;  ///< of how_
};

/// How far from 1, whichever way.
double factor(const FailureFigure& f) { return std::max(f.ratio(), 1 / f.ratio()); }

struct Score {
  int figures = 0;
  int within_1_5 = 0;
  int within_2 = 0;
  double median = 1;
};

/// Lower bounds are right if the forecast is above, and are not in the median.
Score score(const std::vector<FailureFigure>& figures) {
  Score s;
  std::vector<double> factors;
  for (const FailureFigure& f : figures) {
    if (f.bound) continue;
    factors.push_back(factor(f));
    s.within_1_5 += factors.back() <= 1.5;
    s.within_2 += factors.back() <= 2;
  }
  s.figures = static_cast<int>(factors.size());
  if (!factors.empty()) s.median = quantile(factors, 0.5);
  return s;
}

}  // namespace

Result<FailureFigures> forecast_failure_figures(const CsvTable& table, const DataPaths& data, int threads) {
  Result<CsvTable> how = CsvTable::read(data.scenarios / "runs" / "failure-forecasts.csv");
  if (!how) return tl::unexpected(how.error());
  return FigureForecaster(table, std::move(*how), data, threads).run();
}

std::string failure_figures_page(const FailureFigures& all, const TextStyle& style) {
  const bool narrow = style.width < 78;  // without the model
  const int name_width = narrow ? 32 : 36;
  const TextTable table(narrow ? std::vector{-name_width, 9, 8, 5} : std::vector{-name_width, 9, 9, 6, -22});
  const auto row = [&](const std::string& name, const std::string& published, const std::string& forecast,
                       const std::string& ratio, const std::string& by) {
    const bool fits = columns(name) <= name_width;
    const std::string own_line = fits ? "" : paragraph("  ", name, style);
    const std::string first = fits ? name : "";
    return own_line +
           (narrow ? table.row(first, published, forecast, ratio) : table.row(first, published, forecast, ratio, by));
  };
  std::string text, run;
  for (const FailureFigure& f : all.figures) {
    const std::string title = f.run + (f.gpus > 0 ? fmt::format(", {:.0f} {}", f.gpus, f.gpu) : "");
    if (title != run)
      text += fmt::format("{}{}\n{}", run.empty() ? "" : "\n", title, row("", "published", "forecast", "ratio", "by"));
    run = title;
    std::string unit = f.unit == "percent" ? "%" : f.unit;
    std::ranges::replace(unit, '_', ' ');
    text += row(unit == "count" ? f.name : fmt::format("{} ({})", f.name, unit),
                fmt::format("{}{:.4g}", f.bound ? "> " : "", f.published), fmt::format("{:.4g}", f.forecast),
                fmt::format("{:.2f}", f.ratio()), f.model);
  }
  const Score s = score(all.figures);
  text += "\n" +
          paragraph("",
                    fmt::format("{} figures forecast by models of other clusters (lower bounds aside): median factor "
                                "{:.2f}, {} within 1.5, {} within 2",
                                s.figures, s.median, s.within_1_5, s.within_2),
                    style) +
          "\nNot forecast\n";
  for (const auto& [why, count] : all.left_out) text += paragraph(fmt::format("  {:>3}  ", count), why, style);
  return text;
}

std::string failure_figures_json(const FailureFigures& all) {
  nlohmann::ordered_json figures = nlohmann::ordered_json::array();
  for (const FailureFigure& f : all.figures)
    figures.push_back({{"run", f.run},
                       {"gpu", f.gpu},
                       {"gpus", f.gpus},
                       {"figure", f.name},
                       {"unit", f.unit},
                       {"forecast_by", f.model},
                       {"published", f.published},
                       {"lower_bound", f.bound},
                       {"forecast", f.forecast}});
  const Score s = score(all.figures);
  return json_file(nlohmann::ordered_json{{"figures", figures},
                                          {"scored", s.figures},
                                          {"median_factor", s.median},
                                          {"within_1_5", s.within_1_5},
                                          {"within_2", s.within_2},
                                          {"not_forecast", all.left_out}});
}

}  // namespace tracecast::accuracy
