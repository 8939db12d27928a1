#include "tools/accuracy/band_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

namespace tracecast::accuracy {
namespace {

constexpr double kInside = 0.9;

/// A width, and how far the search looks first.
struct Part {
  double RunBand::*width;
  double step;
};
constexpr Part kParts[]{
    {&RunBand::dense, 0.04}, {&RunBand::experts, 0.08}, {&RunBand::architecture, 0.04}, {&RunBand::stack, 0.04}};
constexpr int kKernelShares = 10;  ///< of RunBand::kernels, from none to the whole
constexpr Part kArchitecture[]{{&RunBand::architecture, 0.04}};
constexpr int kHalvings = 6;

}  // namespace

void KnownRuns::add(const RowForecast& row) {
  architectures_.emplace(row.moe, row.architecture);
  if (!row.stack.empty()) stacks_.emplace(row.moe, row.stack);
}

Novelty KnownRuns::novelty_of(const RowForecast& row) const {
  return {.experts = row.moe,
          .architecture = !architectures_.contains({row.moe, row.architecture}),
          .stack = !stacks_.contains({row.moe, row.stack})};
}

BandSample band_sample(const RowForecast& row, const KnownRuns& known) {
  return {.source = row.source,
          .architecture = row.architecture,
          .error = std::abs(std::log(row.predicted_s / row.measured_s)),
          .deviation = row.deviation(),
          .novelty = known.novelty_of(row)};
}

namespace {

/// Runs of `rows`, in groups that together count as many as `known` lacks of kSourcesOfWidth.
std::vector<BandSample> stand_ins_for(const std::set<std::string>& known, const std::vector<RowForecast>& rows,
                                      std::string RowForecast::*group, const Novelty& novelty) {
  std::set<std::string> groups;
  for (const RowForecast& row : rows) groups.insert(row.*group);
  std::vector<BandSample> stand_ins;
  if (known.size() >= kSourcesOfWidth) return stand_ins;
  const double weight = static_cast<double>(kSourcesOfWidth - known.size()) / static_cast<double>(groups.size());
  for (const RowForecast& row : rows)
    stand_ins.push_back({.source = "dense: " + row.source,
                         .architecture = "dense: " + row.architecture,
                         .error = std::abs(std::log(row.predicted_s / row.measured_s)),
                         .deviation = row.deviation(),
                         .novelty = novelty,
                         .weight = weight});
  return stand_ins;
}

}  // namespace

std::vector<BandSample> stand_ins_for_experts(const std::vector<BandSample>& samples,
                                              const std::vector<RowForecast>& uncalibrated) {
  std::set<std::string> known;
  for (const BandSample& sample : samples)
    if (sample.novelty.experts) known.insert(sample.source);
  return stand_ins_for(known, uncalibrated, &RowForecast::source, {.experts = true});
}

std::vector<BandSample> stand_ins_for_architectures(const std::vector<BandSample>& samples,
                                                    const std::vector<RowForecast>& uncalibrated) {
  std::set<std::string> known;
  for (const BandSample& sample : samples)
    if (sample.novelty.architecture && !sample.novelty.experts) known.insert(sample.architecture);
  return stand_ins_for(known, uncalibrated, &RowForecast::architecture, {.architecture = true});
}

namespace {

/// Each source counts with the root of its number of runs.
std::vector<double> source_weights(const std::vector<BandSample>& samples) {
  std::map<std::string, double> rows;
  for (const BandSample& sample : samples) ++rows[sample.source];
  std::vector<double> weights;
  for (const BandSample& sample : samples) weights.push_back(sample.weight / std::sqrt(rows.at(sample.source)));
  return weights;
}

/// Each architecture counts the same, for either kind of model; one that stands in counts with its weight.
std::vector<double> architecture_weights(const std::vector<BandSample>& samples) {
  std::vector<double> weights = source_weights(samples);
  std::map<std::pair<bool, std::string>, double> sums;
  for (std::size_t i = 0; i < samples.size(); ++i)
    sums[{samples[i].novelty.experts, samples[i].architecture}] += weights[i];
  for (std::size_t i = 0; i < samples.size(); ++i)
    weights[i] *= samples[i].weight / sums.at({samples[i].novelty.experts, samples[i].architecture});
  return weights;
}

double loss_of(const RunBand& band, const BandSample& sample) {
  const double beyond = sample.error - band.half_width(sample.novelty, sample.deviation);
  return beyond > 0 ? kInside * beyond : (kInside - 1) * beyond;
}

/// Changes `parts` of the band until the loss is least.
RunBand fit_parts(RunBand band, std::span<const Part> parts, const std::vector<BandSample>& samples,
                  const std::vector<double>& weights) {
  const auto loss = [&](const RunBand& of) {
    double sum = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) sum += weights[i] * loss_of(of, samples[i]);
    return sum;
  };
  double least = loss(band);
  double scale = 1;
  for (int halving = 0; halving < kHalvings;) {
    bool better = false;
    for (const Part& part : parts)
      for (const double sign : {1.0, -1.0}) {
        RunBand other = band;
        other.*part.width = std::max(0.0, other.*part.width + sign * scale * part.step);
        if (const double its = loss(other); its < least - 1e-9) {
          band = other;
          least = its;
          better = true;
        }
      }
    if (better) continue;
    scale /= 2;
    ++halving;
  }
  return band;
}

/// A band and its loss, as a sum over the runs of each source.
struct Fitted {
  RunBand band;
  std::map<std::string, double> loss;
};

Fitted with_kernels(double share, const std::vector<BandSample>& samples, const std::vector<double>& weights) {
  Fitted fitted{.band = kRunBand, .loss = {}};
  fitted.band.kernels = share;
  fitted.band = fit_parts(fitted.band, kParts, samples, weights);
  for (std::size_t i = 0; i < samples.size(); ++i)
    fitted.loss[samples[i].source] += weights[i] * loss_of(fitted.band, samples[i]);
  return fitted;
}

/// True if `other` has the same loss as `best` within the standard error of the difference over sources.
bool as_good(const Fitted& other, const Fitted& best) {
  double sum = 0, squares = 0;
  for (const auto& [source, loss] : best.loss) {
    const double more = other.loss.at(source) - loss;
    sum += more;
    squares += more * more;
  }
  const auto n = static_cast<double>(best.loss.size());
  const double variance = n > 1 ? (squares - sum * sum / n) * n / (n - 1) : 0;
  return sum <= std::sqrt(std::max(0.0, variance)) + 1e-9;
}

/// The largest share of the kernels' deviation whose loss is that of the best one within its standard error.
RunBand fit_widths(const std::vector<BandSample>& samples) {
  const std::vector<double> weights = source_weights(samples);
  std::vector<Fitted> shares;
  for (int share = 0; share <= kKernelShares; ++share)
    shares.push_back(with_kernels(static_cast<double>(share) / kKernelShares, samples, weights));
  const auto total = [](const Fitted& fitted) {
    double sum = 0;
    for (const auto& [source, loss] : fitted.loss) sum += loss;
    return sum;
  };
  const Fitted* best = &*std::ranges::min_element(shares, {}, total);
  for (auto share = shares.rbegin(); share != shares.rend(); ++share)
    if (as_good(*share, *best)) return share->band;
  return best->band;
}

}  // namespace

RunBand fit_run_band(const std::vector<BandSample>& samples, const std::vector<BandSample>& stand_ins) {
  std::vector<BandSample> unmeasured = stand_ins;
  for (const BandSample& sample : samples)
    if (sample.novelty.architecture) unmeasured.push_back(sample);
  const RunBand band = fit_widths(samples);
  return fit_parts(band, kArchitecture, unmeasured, architecture_weights(unmeasured));
}

}  // namespace tracecast::accuracy
