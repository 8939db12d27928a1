/// \file
/// The clock of a GPU whose board may draw less than its rated power (`nvidia-smi -pl`).
///
/// Of the rated power, kStaticPower is drawn at any clock: leakage, memory, links. The rest grows with clock x voltage^2, and the
/// voltage with the clock, so with the clock's cube:
///
///   limit = kStaticPower + (1 - kStaticPower) clock^3        (both relative to the rated power and its clock)
///
/// Kernels that compute are at the power limit already (docs/references.md#in-training-factors), so their rate falls with the
/// clock. Kernels that memory limits, transfers and the host keep theirs: they draw less than the limit.
/// Source: Chandrakasan et al. 1992 for the law (docs/references.md#power-limit). kStaticPower was chosen so that 500 W of 700 W
/// slow multiplications by 1.16, as torchtitan's runs on such H100 were.
/// Leaves out: limits below what memory and links need, so from kLeastPowerLimit on; that GPUs at a limit differ more
/// (`cluster.gpu_spread`).
#pragma once

namespace tracecast {

inline constexpr double kStaticPower = 0.2;
inline constexpr double kLeastPowerLimit = 0.4;
/// Standard deviation of what a limit costs, relative to it: no limit was measured in training.
inline constexpr double kPowerLawSpread = 0.5;

/// A rack of equal hosts, and what it may draw.
struct RackPower {
  double watts = 0;  ///< of the whole rack
  int hosts = 1;
  int gpus_per_host = 8;
  double gpu_watts = 0;   ///< rated power of a GPU
  double host_watts = 0;  ///< most that a host draws beside its GPUs
};

/// The share of its rated power that each GPU of the rack may draw:
///
///   limit = (watts / hosts - host_watts) / (gpus_per_host gpu_watts)      above 1: the rack limits nothing
///
/// Leaves out   that hosts draw less where GPUs do, and GPUs that lend each other what they do not need
double limit_in_rack(const RackPower& rack);
/// The watts of the rack with which its GPUs may draw this share.
double watts_for(const RackPower& rack, double limit);

/// Share of the rated clock.   Requires   limit from kLeastPowerLimit to 1, a share of the rated power
double clock_at_power(double limit);

/// Share of the efficiency that a long kernel of that many FLOPs keeps at the rated power: (flops / knee)^-exponent above
/// the knee of its model (FLOPs too; profile.hpp), 1 below it and with a knee of 0.
double power_loss(double knee, double exponent, double flops);

}  // namespace tracecast
