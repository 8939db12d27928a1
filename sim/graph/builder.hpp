/// \file
/// Builds the step graph of one training step from a plan, a schedule, and the costs of a GPU and a network.
///
/// One steady step, in this order on every rank: parameter gathers of the previous step (overlap_param_gather),
/// the schedule's forwards and backwards, gradient reduction in buckets (during the last backward of each chunk when
/// overlapped), gradients of embeddings and of what tensor ranks share, gradient norm, optimizer, parameter gather (when not overlapped).
///
/// One rank is simulated for each class of ranks that do the same at the same time (classes.hpp): one for each pipeline
/// rank if all of its ranks have equivalent placements and one speed, which follows from the plan's coordinates.
///
/// Leaves out: data loading beyond the profile's cost per step, evaluation, checkpoints.
#pragma once

#include "sim/graph/perturbation.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/graph/step_inputs.hpp"

namespace tracecast {

struct BuildOptions {
  SimulatedRanks ranks = SimulatedRanks::classes;
  const Perturbation* perturbation = nullptr;  ///< null: none
  int step = 0;                                ///< of packed batches: VaryingWork::step
};

StepGraph build_step_graph(const StepInputs& inputs, const BuildOptions& options = {});

}  // namespace tracecast
