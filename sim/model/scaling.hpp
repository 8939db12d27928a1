/// \file
/// Scaling-law arithmetic: how much compute a model and its tokens take, which sizes suit a budget, how long a machine
/// needs, and what a claimed time says about the rate that it was reached with.
///
/// Loss is in loss.hpp. Parameters N and tokens D are counts, compute C is in FLOPs.
/// Source: Kaplan et al. 2020 and Hoffmann et al. 2022 (20 tokens per parameter); 5.7 N D as the lecture fits it;
/// docs/references.md#kaplan-2020, docs/references.md#hoffmann-2022, docs/references.md#scaling-laws
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"

namespace tracecast {

enum class ComputeRule {
  six_nd,          ///< C = 6 N D: 2 N forward, 4 N backward
  fitted_5_7_nd,   ///< C = 5.7 N D, fitted to published models
  recompute_8_nd,  ///< 8 N D: with every forward repeated; hardware FLOPs of Megatron SC'21
};
template <>
struct EnumNames<ComputeRule> {
  static constexpr NamedValue<ComputeRule> table[] = {
      {ComputeRule::six_nd, "6ND"}, {ComputeRule::fitted_5_7_nd, "5.7ND"}, {ComputeRule::recompute_8_nd, "8ND"}};
};
double compute_of(double parameters, double tokens, ComputeRule rule);

inline constexpr double kChinchillaTokensPerParameter = 20;

struct ModelBudget {
  double parameters = 0;
  double tokens = 0;
};
/// The sizes with D = 20 N that take C = k N D:  N = sqrt(C / (20 k))     k = 6, 5.7 or 8 by the rule
ModelBudget compute_optimal(double compute, ComputeRule rule = ComputeRule::six_nd);

/// Devices of one kind in a machine.
struct DeviceGroup {
  std::string device;
  double count = 0;
  double peak_flops = 0;  ///< dense, of one device, FLOP/s
};

/// What a machine sustained: C / time.
struct SustainedRate {
  double flops = 0;             ///< all devices together, FLOP/s
  double flops_per_device = 0;  ///< mean
  double utilisation = 0;       ///< of the sum of peaks
};
/// Requires days > 0 and at least one device.
SustainedRate sustained_rate(double compute, double days, std::span<const DeviceGroup> devices);
/// The peak of a machine where every device does the same work, as data parallelism with equal batches: all wait for the
/// slowest kind, so it counts for all. With batches in proportion to the peaks the sum of peaks counts. FLOP/s.
double equal_work_peak(std::span<const DeviceGroup> devices);
/// Days at a rate per device.
double days_at(double compute, double devices, double flops_per_device);
/// Training runs sustain 10 to 60 % of the peak; a rate outside that range is probably an error.
bool plausible(double utilisation);

/// Tokens that a batch of `batch` tokens needs where small ones need `tokens`, and `critical` is the batch that takes
/// twice as many tokens and twice as many steps as the least of each.
///
///   tokens (1 + batch / critical)                      critical 0: as many as small ones
///
/// Source: McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.11, (S/S_min - 1)(E/E_min - 1) = 1. How large the critical batch
/// is depends on model, data and progress: it is measured, not forecast here.
double tokens_with_batch(double tokens, double batch, double critical);

/// A published model with its training tokens.
struct NamedBudget {
  const char* name;
  ModelBudget budget;
};
/// LaMDA, GPT-3, Jurassic-1, Gopher, MT-NLG, Chinchilla.
std::span<const NamedBudget> published_budgets();

/// A machine of the lecture and the days that it gives for training GPT-4.
struct MachineClaim {
  std::string machine;
  std::vector<DeviceGroup> devices;
  double days = 0;
  std::string note;  ///< what is odd about the numbers; may be empty
};
/// The lecture says 3e24 FLOPs, the days agree with 3e25 (docs/references.md#scaling-laws).
std::span<const MachineClaim> machine_claims();

}  // namespace tracecast
