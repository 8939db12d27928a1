/// \file
/// Counts of independent trials.
#pragma once

namespace tracecast {

/// Probability of at most `hits` among `trials` that each hit with probability `share`.
/// Requires   0 <= hits <= trials, 0 < share < 1
double at_most(int hits, int trials, double share);

}  // namespace tracecast
