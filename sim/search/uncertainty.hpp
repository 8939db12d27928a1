/// \file
/// Uncertainty of the days, money and energy of candidates, and of their ratios.
///
/// Of one candidate: the step time is log-normal with the forecast's 90 % interval; the goodput is normal, its variance
/// falling with the days of the job; prices and power have the median typical and fall off towards low and high. The price
/// of an owned GPU has two parts: its quotes, and all other assumptions together. All are independent.
///
/// Of two candidates: the errors of their step times have a part in common, since the model is the same and the machine may
/// be. With the share rho of the variance in common, the logarithm of the ratio of two step times has the variance
/// s1^2 + s2^2 - 2 rho s1 s2. Quotes of the same GPU cancel; so does the power of node, network and building. Owned machines
/// share years, interest, building, power, electricity and use: these are drawn once for both.
/// The shares are those of the errors of published runs, each forecast without its source (scenarios/runs/
/// published-evidence.csv; a test computes them again). Leaves out: that failures hit both alike, which makes ratios look wider
/// than they are.
#pragma once

#include "sim/search/capacity.hpp"

namespace tracecast {

/// Share of the variance of log(measured / forecast) that two runs of one model have in common. `experts`: the model has
/// some; `same_gpu`: both run on the same GPU, else on another.
double shared_error(bool experts, bool same_gpu);

/// Sets the quantiles, probabilities and ratios of all candidates. Requires them to be in their order.
void add_uncertainty(CapacityPlan& plan, const Economics* economics);

}  // namespace tracecast
