#include "tools/accuracy/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "sim/base/quantile.hpp"
#include "sim/cost/costs.hpp"
#include "tools/accuracy/band_fit.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/linear_system.hpp"

namespace tracecast::accuracy {
namespace {

constexpr double kHuber = 2;  ///< deviations beyond which a run, or a source, counts linearly
constexpr int kIterations = 30;
constexpr double kConverged = 1e-6;

using Priors = std::array<double, kCostParameters>;

constexpr double kFixed = 1e-4;  ///< prior deviation of what has no factor

/// Prior deviations of one kind of work: of c_k and of d_ak.
struct Prior {
  CostParameter kind;
  double common;
  double own;
};
/// Common: what training adds on every architecture, kernels 8 to 44 %. Own: bootstrap ranges and spreads between GPUs.
/// docs/references.md#in-training-factors
constexpr std::array<Prior, kFittedKinds.size()> kPriors{
    Prior{CostParameter::gemm, 0.25, 0.050}, Prior{CostParameter::gemm_fp8, 0.25, 0.075},
    Prior{CostParameter::gemm_fp4, 0.25, 0.100}, Prior{CostParameter::attention, 0.25, 0.100}};

constexpr Priors priors(double Prior::*deviation) {
  Priors all{};
  all.fill(kFixed);
  for (const Prior& prior : kPriors) all[static_cast<std::size_t>(prior.kind)] = prior.*deviation;
  return all;
}

/// Assumptions of a fit.
struct Assumptions {
  Priors common;                   ///< deviations of the logarithms of c_k
  Priors own;                      ///< of d_ak
  double noise = 0.05;             ///< of one run around its source: scatter of 4.4 %, docs/references.md#noise-floor
  double source_deviation = 0.10;  ///< of sources around the truth, where too few are known to estimate it
};
constexpr std::size_t kFewSources = 5;          ///< too few to estimate their deviation
constexpr double kLeastSourceDeviation = 0.02;  ///< the same job differs by as much, docs/references.md#noise-floor

/// What a residual of so many deviations counts beside one of none.
double huber_weight(double deviations) { return std::abs(deviations) > kHuber ? kHuber / std::abs(deviations) : 1; }

/// Offsets of the sources as their runs alone have them, and how far they spread.
class SourceOffsets {
 public:
  void add(const std::string& source, double offset, double weight) {
    Sum& sum = sums_[source];
    sum.weighted += weight * offset;
    sum.weight += weight;
  }
  /// A robust standard deviation: of normal values the median distance from 0 is 1 / 1.4826 of it.
  double deviation() const {
    std::vector<double> distances;
    for (const auto& [source, sum] : sums_) distances.push_back(std::abs(sum.weighted / sum.weight));
    return std::max(kLeastSourceDeviation, 1.4826 * median(std::move(distances)));
  }

 private:
  struct Sum {
    double weighted = 0;
    double weight = 0;
  };
  std::map<std::string, Sum> sums_;
};

/// A symmetric positive definite system.
class NormalEquations {
 public:
  explicit NormalEquations(std::size_t n) : a_(n, std::vector<double>(n)), b_(n) {}
  void add(const std::vector<std::pair<std::size_t, double>>& gradient, double residual, double weight) {
    for (const auto& [i, gi] : gradient) {
      b_[i] += weight * gi * residual;
      for (const auto& [j, gj] : gradient) a_[i][j] += weight * gi * gj;
    }
  }
  std::vector<double> solve() { return solve_positive_definite(std::move(a_), std::move(b_)); }

 private:
  Matrix a_;
  std::vector<double> b_;
};

/// Indices of the unknowns: the kinds of work, those of each architecture, then the sources.
class Unknowns {
 public:
  Unknowns(const std::vector<const RowForecast*>& rows, const Assumptions& assumed, const FitChoice& choice)
      : assumed_(assumed) {
    for (std::size_t k = 0; k < kCostParameters; ++k)
      if (!choice.free[k]) assumed_.common[k] = assumed_.own[k] = kFixed;
    for (const RowForecast* row : rows) {
      architectures_.emplace(row->architecture, 0);
      ++rows_of_[row->source];
    }
    std::size_t next = kCostParameters;
    for (auto& [name, first] : architectures_) {
      first = next;
      next += kCostParameters;
    }
    first_source_ = next;
    for (const auto& [name, rows_there] : rows_of_) sources_[name] = next++;
    size_ = next;
  }
  std::size_t size() const { return size_; }
  std::size_t first_of(const std::string& architecture) const { return architectures_.at(architecture); }
  std::size_t offset(const std::string& source) const { return sources_.at(source); }
  int rows_of(const std::string& source) const { return rows_of_.at(source); }
  const std::map<std::string, std::size_t>& architectures() const { return architectures_; }
  const std::map<std::string, std::size_t>& sources() const { return sources_; }
  double noise() const { return assumed_.noise; }
  void set_source_deviation(double deviation) { assumed_.source_deviation = deviation; }
  /// Weight of the prior of an unknown that has this value now.
  double prior_weight(std::size_t unknown, double value) const {
    const bool of_source = unknown >= first_source_;
    const double deviation = of_source                   ? assumed_.source_deviation
                             : unknown < kCostParameters ? assumed_.common[unknown]
                                                         : assumed_.own[unknown % kCostParameters];
    return (of_source ? huber_weight(value / deviation) : 1) / (deviation * deviation);
  }

 private:
  Assumptions assumed_;
  std::map<std::string, std::size_t> architectures_;
  std::map<std::string, std::size_t> sources_;
  std::map<std::string, int> rows_of_;
  std::size_t first_source_ = 0;
  std::size_t size_ = 0;
};

/// `settled`: factors on the times of the critical path before the unknown ones.
void add_row(NormalEquations& equations, SourceOffsets& offsets, const Unknowns& unknowns, const std::vector<double>& x,
             const CostScales& settled, const RowForecast& row) {
  double time = 0;
  std::vector<std::pair<std::size_t, double>> gradient;
  const std::size_t own = unknowns.first_of(row.architecture);
  for (std::size_t k = 0; k < kCostParameters; ++k) {
    if (row.sensitivities.path_s[k] <= 0) continue;
    const double seconds = row.sensitivities.path_s[k] * settled[k] * std::exp(x[k] + x[own + k]);
    gradient.emplace_back(k, seconds);
    gradient.emplace_back(own + k, seconds);
    time += seconds;
  }
  for (auto& [unknown, slope] : gradient) slope /= time;
  const std::size_t offset = unknowns.offset(row.source);
  gradient.emplace_back(offset, 1);
  const double residual = std::log(row.measured_s / time) - x[offset];
  const double noise = unknowns.noise();
  const double weight = huber_weight(residual / noise) / (noise * noise) / std::sqrt(unknowns.rows_of(row.source));
  equations.add(gradient, residual, weight);
  offsets.add(row.source, residual + x[offset], weight);
}

CalibrationFit fit(const std::vector<const RowForecast*>& rows, const Assumptions& assumed, const FitChoice& choice,
                   const ArchitectureFactors& settled) {
  Unknowns unknowns(rows, assumed, choice);
  std::vector<double> x(unknowns.size(), 0);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    NormalEquations equations(unknowns.size());
    for (std::size_t u = 0; u < x.size(); ++u) equations.add({{u, 1}}, -x[u], unknowns.prior_weight(u, x[u]));
    SourceOffsets offsets;
    for (const RowForecast* row : rows)
      add_row(equations, offsets, unknowns, x, of_architecture(settled, row->architecture), *row);
    if (unknowns.sources().size() >= kFewSources) unknowns.set_source_deviation(offsets.deviation());
    double largest = 0;
    const std::vector<double> step = equations.solve();
    for (std::size_t u = 0; u < x.size(); ++u) {
      x[u] += step[u];
      largest = std::max(largest, std::abs(step[u]));
    }
    if (largest < kConverged) break;
  }
  CalibrationFit result;
  result.rows = static_cast<int>(rows.size());
  for (const auto& [architecture, factors] : settled)
    for (std::size_t k = 0; k < kCostParameters; ++k) result.factors[architecture][k] = factors[k] * std::exp(x[k]);
  for (const auto& [architecture, first] : unknowns.architectures())
    for (std::size_t k = 0; k < kCostParameters; ++k)
      result.factors[architecture][k] = of_architecture(settled, architecture)[k] * std::exp(x[k] + x[first + k]);
  for (const auto& [source, unknown] : unknowns.sources()) result.source_offset[source] = x[unknown];
  return result;
}

/// 1 / r_ak of every architecture that has one.
ArchitectureFactors isolated(const FitChoice& choice) {
  ArchitectureFactors inverse = choice.shipped;
  for (auto& [architecture, factors] : inverse)
    for (double& factor : factors) factor = 1 / factor;
  return inverse;
}

/// Raises the factors of narrow multiplications to where they gain no more than they may.
void limit_gains(ArchitectureFactors& fitted, const FitChoice& choice) {
  constexpr auto kWide = static_cast<std::size_t>(CostParameter::gemm);
  for (const auto& [architecture, most] : choice.most_gemm) {
    const auto found = fitted.find(architecture);
    if (found == fitted.end()) continue;
    const CostScales shipped = of_architecture(choice.shipped, architecture);
    for (const CostParameter kind : {CostParameter::gemm_fp8, CostParameter::gemm_fp4}) {
      const auto narrow = static_cast<std::size_t>(kind);
      const double wide = found->second[kWide] * shipped[kWide];
      found->second[narrow] = std::max(found->second[narrow], wide / most[narrow] / shipped[narrow]);
    }
  }
}

}  // namespace

double narrow_gain(const Profile& profile, Precision precision) {
  if (!profile.peak_flops.contains(precision) || !profile.peak_flops.contains(Precision::bf16)) return 0;
  const Costs costs(profile);
  double most = 0;
  for (const std::int64_t m : {256, 4096, 65'536})
    for (const std::int64_t n : {1024, 8192, 28'672})
      for (const std::int64_t k : {1024, 8192, 28'672})
        for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
          const auto time = [&](Precision each) {
            return seconds(costs.of({OperatorKind::gemm, pass, each, "", GemmShape{m, n, k}}).duration);
          };
          most = std::max(most, time(Precision::bf16) / time(precision));
        }
  const double peaks = profile.peak_flops.at(precision) / profile.peak_flops.at(Precision::bf16);
  const double bytes = gemm_elements(Precision::bf16).operand / gemm_elements(precision).operand;
  return most / std::max(peaks, bytes);
}

Result<FitChoice> choice_of_profiles(const RowLibrary& library) {
  constexpr double kRounding = 1 - 1e-4;  // profiles have factors with four decimals
  FitChoice out;
  for (const char* name : {"v100", "a100", "h100", "b200", "mi250x", "mi300x", "mi355x"}) {
    const Result<Profile> profile = library.profile(name);
    if (!profile) return tl::unexpected(profile.error());
    const InTraining& f = profile->in_training;
    CostScales& own = out.shipped.emplace(profile->architecture, unit_scales()).first->second;
    const auto set = [&own](CostParameter kind, double factor) { own[static_cast<std::size_t>(kind)] = factor; };
    set(CostParameter::gemm, f.gemm);
    set(CostParameter::gemm_fp8, f.gemm_fp8);
    set(CostParameter::gemm_fp4, f.gemm_fp4);
    set(CostParameter::attention, f.attention);

    CostScales& most = out.most_gemm[profile->architecture];
    most.fill(std::numeric_limits<double>::infinity());
    for (const Precision precision : {Precision::fp8, Precision::mxfp8, Precision::fp8_block, Precision::nvfp4}) {
      const double gain = narrow_gain(*profile, precision);
      if (gain <= 0) continue;
      const bool fp4 = precision == Precision::nvfp4;
      double& limit = most[static_cast<std::size_t>(fp4 ? CostParameter::gemm_fp4 : CostParameter::gemm_fp8)];
      limit = std::min(limit, kRounding * f.gemm / (fp4 ? f.gemm_fp4 : f.gemm_fp8) / gain);
    }
  }
  return out;
}

CalibrationFit fit_factors(const std::vector<const RowForecast*>& rows, const FitChoice& choice) {
  std::vector<const RowForecast*> dense;
  std::ranges::copy_if(rows, std::back_inserter(dense), [](const RowForecast* row) { return !row->moe; });
  const Assumptions assumed{.common = priors(&Prior::common), .own = priors(&Prior::own)};
  CalibrationFit result = fit(dense.empty() ? rows : dense, assumed, choice, isolated(choice));
  limit_gains(result.factors, choice);
  return result;
}

CostScales of_architecture(const ArchitectureFactors& factors, const std::string& architecture) {
  const auto found = factors.find(architecture);
  return found == factors.end() ? unit_scales() : found->second;
}

FactorsOf factors_of(ArchitectureFactors factors) {
  return [factors = std::move(factors)](const RowScenario& row) {
    return of_architecture(factors, row.scenario.profile.architecture);
  };
}

Result<CrossValidation> cross_validate(const CsvTable& table, const RowLibrary& library,
                                       const ValidateOptions& options) {
  CrossValidation out;
  Result<std::vector<RowForecast>> plain = validate(table, library, options);
  if (!plain) return tl::unexpected(plain.error());
  out.plain = std::move(*plain);
  const Result<FitChoice> choice = choice_of_profiles(library);
  if (!choice) return tl::unexpected(choice.error());
  const std::vector<const RowForecast*> rows = scored(out.plain);
  out.fit = fit_factors(rows, *choice);
  std::set<std::string> sources;
  for (const RowForecast* row : rows) sources.insert(row->source);
  for (const std::string& source : sources) {
    std::vector<const RowForecast*> others;
    for (const RowForecast* row : rows)
      if (row->source != source) others.push_back(row);
    out.without[source] = fit_factors(others, *choice).factors;
  }
  const FactorsOf held_out = [&out](const RowScenario& row) {
    const auto found = out.without.find(row.scenario.source);
    return found == out.without.end() ? unit_scales()
                                      : of_architecture(found->second, row.scenario.profile.architecture);
  };
  std::vector<std::vector<RowForecast>> simulated =
      validate_each(table, library, {factors_of(out.fit.factors), held_out}, options);
  out.fitted = std::move(simulated[0]);
  out.held_out = std::move(simulated[1]);
  for (RowForecast& row : out.held_out) {
    if (!row.scored()) continue;
    KnownRuns known;
    for (const RowForecast* other : scored(out.plain))
      if (other->source != row.source) known.add(*other);
    row.band = band_around(row.predicted_s, kRunBand.half_width(known.novelty_of(row), row.deviation()));
  }
  return out;
}

}  // namespace tracecast::accuracy
