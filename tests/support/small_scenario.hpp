/// A small run on a small cluster, for tests of all that stands between a plan and a step graph.
#pragma once

#include <string>

#include "sim/io/scenario.hpp"

namespace tracecast::test {

/// 8 layers of hidden 1024 on H100 nodes of 8: tp x pp x dp ranks, 8 micro-batches of one sequence of 1024 tokens.
Scenario small_scenario(int tp, int pp, int dp);

/// The same where a rank does one thing at a time, and its host takes no time.
Scenario small_scenario_on_cpus(int tp, int pp, int dp, const std::string& schedule = "");

/// Eight workers of one GPU and one 100 Gb/s NIC each.
Cluster eight_workers();

}  // namespace tracecast::test
