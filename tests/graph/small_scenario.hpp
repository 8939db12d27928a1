/// A small run on a small cluster, for tests that need the whole way from a plan to a step graph.
#pragma once

#include "sim/io/scenario.hpp"

namespace tracecast::test {

/// 8 layers of hidden 1024 on H100 nodes of 8: tp x pp x dp ranks, 8 micro-batches of one sequence of 1024 tokens.
Scenario small_scenario(int tp, int pp, int dp);

}  // namespace tracecast::test
