/// The slowest GPU of a job.
///
/// GPUs of one kind differ: chips at their power limit keep different clocks, and hosts are not equally busy. A synchronous
/// step goes at the pace of the slowest of N, whose expected delay grows as that of the largest of N normal deviates:
///
///   slower(N) = spread (sqrt(2 ln N) - sqrt(2 ln 64))
///
/// relative to 64, the middle of the runs that the in-training factors were fitted to: a single GPU is 6 % faster, 16,384 are
/// 3 % slower.
/// Source: Sinha et al., "Not All GPUs Are Created Equal" (SC 2022): 8 % between GPUs of one machine, which is four standard
/// deviations of 2 %. Seen in data/validation/runs.csv: GPT, Llama and Nemotron on 8 to 2,304 H100 (DGX Cloud) take 0.3 to 1 %
/// more for each doubling at constant work per GPU, whatever the model, which transfers do not explain.
/// Leaves out: that pipelines and slow links hide slow ranks; a rank that is slow for a reason (`perturb.slow_rank`).
#pragma once

#include "sim/cost/profile.hpp"

namespace tracecast {

/// One standard deviation between GPUs of one kind, relative.
inline constexpr double kGpuSpread = 0.02;

/// Kernels and host of `profile` as the slowest of `ranks` has them. Recorded profiles stay: their GPU is what it is.
/// Requires   ranks >= 1, spread from 0 to 0.2
void wait_for_slowest(Profile& profile, int ranks, double spread);

}  // namespace tracecast
