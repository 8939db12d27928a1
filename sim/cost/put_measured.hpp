/// \file
/// Adds a measurement to a profile, in place of an earlier one of the same.
///
/// The same operator: of the same kind, pass, precision and shape; its name does not count. The same collective: of the same size,
/// over as many ranks on as many hosts.
#pragma once

#include "sim/cost/profile.hpp"

namespace tracecast {

void put_measured(Profile& profile, const MeasuredOperator& measured);
void put_measured(Profile& profile, const MeasuredCollective& measured);

}  // namespace tracecast
