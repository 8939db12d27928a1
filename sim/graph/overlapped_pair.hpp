/// \file
/// A forward and a backward that hide each other's exchanges of expert-parallel tokens (DualPipe, DualPipeV).
///
/// Each pass is cut in front of every operation that waits for an exchange. The parts of the two passes are issued in
/// turns: while the tokens of one are under way, the other computes. Each part is a template of its own, so that every
/// micro-batch keeps its number.
/// Leaves out: that DeepSeek-V3 chooses how many SMs communicate; exchanges take the SMs that their cost says.
/// Source: DeepSeek-V3 (arXiv 2412.19437), 3.2.1, figure 4
#pragma once

#include <string>
#include <vector>

#include "sim/graph/build_context.hpp"

namespace tracecast {

/// Do pairs of this plan's schedule run so? Not without exchanges; nor with ZeRO-3, whose gathers are ordered per pass.
bool interleaves_pairs(const Plan& plan);

/// The parts of `whole` in order. What connects two parts, and computation with exchanges, become events of the whole
/// step, named after `purpose`.   Requires a template of the chunk `chunk` that runs once per micro-batch
std::vector<Template> cut_at_exchanges(Template whole, BuildContext& context, const char* purpose, int chunk);

}  // namespace tracecast
