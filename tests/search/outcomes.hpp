/// \file
/// Machines with layouts and prices, for plans by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/economics/economics.hpp"
#include "sim/search/capacity.hpp"

namespace tracecast::test {

inline Evaluation evaluation(double step_s, double exposed_tensor_s, double bubble) {
  Evaluation e;
  e.fits = true;
  e.step_time_s = step_s;
  e.bubble_fraction = bubble;
  e.exposed_s[static_cast<std::size_t>(Traffic::tensor_parallel)] = exposed_tensor_s;
  e.compute_s = step_s * (1 - bubble) - exposed_tensor_s;
  return e;
}

/// A step is 1,000 sequences of 1,000 tokens.
inline MachineOutcome machine(const std::string& gpu, int gpus, std::vector<Evaluation> best) {
  MachineOutcome outcome;
  outcome.choice.topology = gpu + "-machine";
  outcome.choice.gpus = gpus;
  outcome.choice.scenario.cluster.node.gpus = outcome.choice.scenario.cluster.node.gpus_per_host = 4;
  outcome.choice.scenario.profile.name = gpu;
  outcome.choice.scenario.training.global_batch_size = 1000;
  outcome.choice.scenario.training.seq_length = 1000;
  outcome.result.best = std::move(best);
  return outcome;
}

inline Economics prices() {
  Economics economics;
  economics.gpus["fast"] = {.price = Range3{2, 3, 4}, .tdp_watts = 1000};
  economics.gpus["slow"] = {.price = Range3{0.5, 1, 1.5}, .tdp_watts = 400};
  economics.node_power = {1, 1.5, 2};
  economics.network_watts = {0, 50, 100};
  economics.pue = {1, 1.2, 1.5};
  return economics;
}

}  // namespace tracecast::test
