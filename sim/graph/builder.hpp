/// \file
/// Builds the step graph of one training step from a plan, a schedule, and the costs of a GPU and a network.
///
/// One steady step, in this order on every rank: parameter gathers that belong to the last step (overlap_param_gather),
/// the schedule's forwards and backwards, gradient reduction in buckets (during the last backward of each chunk when
/// overlapped), embedding and norm gradients, gradient norm, optimizer, parameter gather (when not overlapped).
///
/// One rank is simulated for each class of ranks that do the same at the same time (classes.hpp): one for each pipeline
/// rank when all of its ranks lie alike and run at one speed, which the plan's coordinates tell at any size.
///
/// Leaves out: data loading beyond the profile's cost per step, evaluation, checkpoints.
#pragma once

#include "sim/base/result.hpp"
#include "sim/cost/costs.hpp"
#include "sim/graph/perturbation.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/model/model.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/network_model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

struct BuildOptions {
  bool unfold = false;                         ///< simulate every rank instead of one for each class
  const Perturbation* perturbation = nullptr;  ///< null: none
};

/// Requires a plan that make_plan accepted and a schedule of plan.parallel.pp ranks that check() accepted.
StepGraph build_step_graph(const Model& model, const Plan& plan, const Schedule& schedule, const Cluster& cluster,
                           const Costs& costs, const NetworkModel& network, const BuildOptions& options = {});

}  // namespace tracecast
