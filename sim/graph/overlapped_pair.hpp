/// \file
/// A forward and a backward that hide each other's exchanges of expert-parallel tokens (DualPipe, DualPipeV), and passes in
/// which the host waits.
///
/// Each pass is cut before every operation that waits for an exchange. The parts of the two passes are issued in turns:
/// while the tokens of one are in flight, the other computes. Each part is a separate template, so that every
/// micro-batch keeps its number.
/// Leaves out the choice of communicating SMs in DeepSeek-V3; exchanges take the SMs of their cost.
/// Source: DeepSeek-V3 (arXiv 2412.19437), 3.2.1, figure 4
#pragma once

#include <string>
#include <vector>

#include "sim/graph/build_context.hpp"

namespace tracecast {

/// The parts of `whole` in order, each cut after every host_sync; one part if not `at_exchanges`. Local events that connect
/// two templates, or with `at_exchanges` computation with exchanges, become rank events of purpose `purpose`.
/// Requires a template of chunk `chunk` that runs once per micro-batch
std::vector<std::vector<Template>> cut_template(Template whole, BuildContext& context, const char* purpose, int chunk,
                                                bool at_exchanges);

}  // namespace tracecast
