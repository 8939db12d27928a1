/// \file
/// The tables of keys (fields.hpp) of scenarios and models.
#pragma once

#include "sim/io/fields.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// The group `cluster`: what a scenario says about its machine.
struct ClusterKeys {
  std::string topology;
  int world_size = 0;
  std::string profile;
  Backend backend = Backend::nccl;
  RoutingPolicy routing = RoutingPolicy::even;
  std::optional<std::int64_t> routing_seed = {};
  std::optional<int> gpus_per_rack = {};
  std::optional<double> gpu_spread = {};
  std::optional<int> sites = {};
  std::optional<Bandwidth> wan_rate = {};
  std::optional<Duration> wan_latency = {};
  double power_limit = 1;
  std::optional<double> rack_watts = {};
  std::optional<int> rack_hosts = {};
};

template <>
FieldTable<Parallel> rows_of();
template <>
FieldTable<Training> rows_of();
template <>
FieldTable<Model> rows_of();
template <>
FieldTable<ClusterKeys> rows_of();
template <>
FieldTable<Perturbation> rows_of();
template <>
FieldTable<Scenario> rows_of();

}  // namespace tracecast
