/// \file
/// What would change the answer of a plan: every assumption that prefers another machine when it alone moves to an end of
/// its range, and the price of a GPU at which two machines cost the same.
///
/// Assumptions: rent of each GPU; of owned GPUs the purchase and every figure of `ownership`; power; the part of the step's
/// error that machines do not have in common (uncertainty.hpp), to its 90 % interval; and the time lost to failures,
/// none or twice as much. Two assumptions that move together may change more.
#pragma once

#include <string>
#include <vector>

#include "sim/search/capacity.hpp"

namespace tracecast {

/// An assumption that puts another machine first.
struct Flip {
  std::string assumption;  ///< "h100 at 1.99 USD per GPU-hour"
  int candidate = 0;       ///< that comes first then
};

/// The price at which another machine would cost as much as the first.
struct BreakEven {
  std::string gpu;
  double usd = 0;     ///< per GPU-hour
  Range3 price;       ///< now
  int candidate = 0;  ///< the best one of that machine
};

struct Sensitivity {
  int tried = 0;  ///< ends of assumptions
  std::vector<Flip> flips;
  std::vector<BreakEven> break_evens;  ///< of objective cost, a machine each
};

/// Nothing is tried if all candidates run on one machine, or if the objective is the number of GPUs.
Sensitivity sensitivity(const CapacityPlan& plan, const Economics* economics);

}  // namespace tracecast
