/// \file
/// What one training step is built from.
#pragma once

#include "sim/cost/costs.hpp"
#include "sim/model/model.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/network_model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// Which ranks a step graph has.
enum class SimulatedRanks {
  classes,        ///< one for each class of ranks that do the same, without shared links
  stages_or_all,  ///< one for each pipeline rank, if these are the classes, else all: what fold_stages and fold need
  one_pipeline,  ///< the first of each pipeline rank, which wait for no other: without shared links, no step of all is shorter
  all
};

/// Requires a plan that make_plan accepted for this model and cluster, and a schedule of plan.parallel.pp ranks that
/// check() accepted.
struct StepInputs {
  const Model& model;
  const Plan& plan;
  const Schedule& schedule;
  const Cluster& cluster;
  const Costs& costs;  ///< of the cluster's GPU
  const NetworkModel& network;
};

}  // namespace tracecast
