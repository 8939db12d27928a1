/// \file
/// The slowest GPU of a job.
///
/// GPUs of one kind differ: chips at their power limit keep different clocks, and hosts are not equally busy. A synchronous
/// step goes at the pace of the slowest of N, whose expected delay is that of the largest of N normal deviates:
///
///   delay(N, spread) = spread z(N),   z(N) = quantile of the normal distribution at (N - 3/8) / (N + 1/4)
///
/// What the profile says already contains the delay of the GPUs that it was measured on:
///   fitted    64 GPUs with a spread of 2 %, the middle of the runs that the in-training factors were fitted to:
///             slower = 1 + delay(N, spread) - delay(64, 2 %). With 2 % a single GPU is 4.7 % faster and 16,384 are 3.2 %
///             slower; with 0 every job has the speed of one mean GPU. A larger spread never makes a job faster
///   recorded  R GPUs, which are the job's own: slower = 1 + max(0, delay(N, spread) - delay(R, spread))
///   a CPU     its ranks share one machine: no difference
/// Source: Sinha et al., "Not All GPUs Are Created Equal" (SC 2022): 8 % between GPUs of one machine, which is four standard
/// deviations of 2 %. z: Blom 1958. Seen in scenarios/runs/published.csv: GPT, Llama and Nemotron on 8 to 2,304 H100 (DGX
/// Cloud) take 0.3 to 1 % more for each doubling at constant work per GPU, whatever the model, which transfers do not
/// explain.
/// Leaves out: that pipelines and slow links hide slow ranks; a rank that is slow for a reason (`perturb.slow_rank`).
#pragma once

#include "sim/cost/profile.hpp"

namespace tracecast {

/// One standard deviation between GPUs of one kind, relative.
inline constexpr double kGpuSpread = 0.02;

/// How many GPUs the slowest one's delay is of that the times of `profile` contain: 64 of fitted ones, the recorded ones.
int gpus_of_factors(const Profile& profile);

/// Kernels (`in_training.slowest_gpu`) and host of `profile` as the slowest of `ranks` has them, in place of another job's.
/// Requires   ranks >= 1, spread from 0 to 0.2; 0: all GPUs have the speed of the mean one
void wait_for_slowest(Profile& profile, int ranks, double spread);

}  // namespace tracecast
