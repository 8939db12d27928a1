#include "sim/forecast/evidence.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/forecast/measured_runs.hpp"
#include "sim/io/csv_table.hpp"

namespace tracecast {
namespace {

std::vector<MeasuredRun> read_runs() {
  const Result<CsvTable> table = CsvTable::parse(kMeasuredRuns, "published-evidence.csv");
  TRACECAST_ASSERT(table.has_value(), "the table that is compiled in was written by calibrate");
  enum Column {
    id,
    source,
    gpu,
    architecture,
    stack,
    precision,
    experts,
    parameters,
    ranks,
    seq_length,
    measured,
    error
  };
  const std::vector<std::string> columns{"id",      "source",     "gpu",   "architecture", "stack",      "precision",
                                         "experts", "parameters", "ranks", "seq_length",   "measured_s", "error"};
  TRACECAST_ASSERT(table->header() == columns, "its columns are those of calibrate");
  std::vector<MeasuredRun> runs;
  runs.reserve(table->rows());
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const std::vector<std::string>& fields = table->fields(row);
    const auto number = [&](Column column) { return parse_number<double>(fields[column]).value_or(0); };
    runs.push_back({.id = fields[id],
                    .source = fields[source],
                    .gpu = fields[gpu],
                    .architecture = fields[architecture],
                    .stack = fields[stack],
                    .precision = fields[precision],
                    .experts = number(experts) > 0,
                    .parameters = number(parameters),
                    .ranks = static_cast<int>(number(ranks)),
                    .seq_length = number(seq_length),
                    .measured_s = number(measured),
                    .error = number(error)});
  }
  return runs;
}

double doublings(double a, double b) { return a > 0 && b > 0 ? std::abs(std::log2(a / b)) : 0; }

}  // namespace

const std::vector<MeasuredRun>& measured_runs() {
  static const std::vector<MeasuredRun> kRuns = read_runs();
  return kRuns;
}

Novelty novelty_of(const std::string& architecture, const std::string& stack, bool experts) {
  const auto none = [&](auto same) {
    return std::none_of(measured_runs().begin(), measured_runs().end(),
                        [&](const MeasuredRun& run) { return run.experts == experts && same(run); });
  };
  return {.experts = experts,
          .architecture = none([&](const MeasuredRun& run) { return run.architecture == architecture; }),
          .stack = stack.empty() || none([&](const MeasuredRun& run) { return run.stack == stack; })};
}

Novelty novelty_of(const Scenario& scenario) {
  return novelty_of(scenario.profile.architecture, scenario.stack, scenario.model.moe.has_value());
}

double RunBand::half_width(const Novelty& novelty, double deviation) const {
  const double run =
      (novelty.experts ? experts : dense) + (novelty.architecture ? architecture : 0) + (novelty.stack ? stack : 0);
  return std::hypot(kernels * kNinetyPercent * deviation, run);
}

Band band_around(double p50_s, double half_width) {
  const double factor = std::exp(half_width);
  return {p50_s / factor, p50_s, p50_s * factor};
}

double deviation_of(double p5_s, double p95_s) { return p5_s > 0 ? std::log(p95_s / p5_s) / (2 * kNinetyPercent) : 0; }

std::string far_off(double measured_s, double forecast_s, double most) {
  const double ratio = measured_s / forecast_s;
  if (ratio >= 1 / kFarOff && ratio <= most) return "";
  return fmt::format("{:.4g} times the forecast of {:.4g} s (allowed: 1/{} to {} times; is it in seconds?)", ratio,
                     forecast_s, kFarOff, most);
}

std::vector<Likeness> closest_runs(const Scenario& scenario, std::size_t count) {
  const double parameters = static_cast<double>(parameter_count(scenario.model).total());
  std::vector<Likeness> all;
  for (const MeasuredRun& run : measured_runs()) {
    Likeness like{.run = &run};
    if (run.experts != scenario.model.moe.has_value()) like.distance += 4;
    if (run.architecture != scenario.profile.architecture) {
      like.distance += 4;
    } else if (run.gpu != scenario.profile.name) {
      like.distance += 1;
    }
    if (run.stack != scenario.stack) like.distance += 2;
    if (run.precision != to_string(scenario.training.dtype)) like.distance += 1;
    like.distance += 0.5 * doublings(run.parameters, parameters);
    like.distance += 0.5 * doublings(run.seq_length, static_cast<double>(scenario.training.seq_length));
    like.distance += 0.25 * doublings(run.ranks, scenario.cluster.world_size);
    all.push_back(like);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Likeness& a, const Likeness& b) { return a.distance < b.distance; });
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<Likeness> closest;
  for (const Likeness& like : all)
    if (closest.size() < count && seen.emplace(like.run->source, like.run->gpu).second) closest.push_back(like);
  return closest;
}

}  // namespace tracecast
