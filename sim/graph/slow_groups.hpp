/// \file
/// Many slow ranks, grouped: scattered ones leave hardly two ranks of a job alike, so that folding gains nothing.
///
/// The ranks of a tensor group wait for each other in every layer. So where there are many slow ranks, each tensor group
/// computes as its slowest rank does, and its ranks are of one class again. What is lost is the time by which the other ranks of
/// the group are ready before the last collective of a pass: 1e-5 of the step (tests/forecast/perturbation_effects_test.cpp).
#pragma once

#include "sim/graph/perturbation.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

/// Entries of perturb.slow_rank times ranks of a replica: above, slow ranks are grouped. A class of ranks takes about a millisecond.
inline constexpr int kMostSlowClasses = 4096;

bool groups_slow_ranks(const Perturbation& perturbation, const Parallel& parallel);

/// The same, with the ranks of each tensor group as slow as the slowest of them.
/// Requires ranks of the plan
Perturbation with_slow_groups(const Perturbation& perturbation, const Plan& plan);

}  // namespace tracecast
