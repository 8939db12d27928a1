/// \file
/// A schedule as programs with their communication written out: what torch.distributed.pipelining calls
/// compute_comms, and what a step graph of the schedule is built from (graph/schedule_graph.hpp).
///
/// Programs name virtual stages, not chunks; which rank holds a stage is the schedule's to say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

enum class PipelineOpKind : std::uint8_t {
  idle,  ///< an empty slot of a compute-only file
  forward,
  backward,
  backward_input,
  backward_weight,
  overlapped,  ///< forward of (stage, microbatch) with the full backward of (stage2, microbatch2)
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
  unshard,      ///< gather the stage's parameters (FSDP)
  reshard,      ///< drop them again
  reduce_grad,  ///< reduce the stage's gradients
};

struct PipelineOp {
  PipelineOpKind kind = PipelineOpKind::idle;
  int stage = -1;
  int microbatch = -1;  ///< -1: of none (unshard, reshard, reduce_grad, idle)
  int stage2 = -1;
  int microbatch2 = -1;
  bool operator==(const PipelineOp&) const = default;
};

/// [rank], in order.
using PipelineProgram = std::vector<std::vector<PipelineOp>>;

bool is_compute(PipelineOpKind kind);
bool is_send(PipelineOpKind kind);
bool is_receive(PipelineOpKind kind);

/// PyTorch's token: "0F3", "2SEND_B1", "4UNSHARD", "(0F7;7B3)OVERLAP_F_B", "" for an idle slot.
std::string to_string(const PipelineOp& step);

/// The actions of a schedule, without communication.
PipelineProgram program_of(const Schedule& schedule);

/// Stages that a compute step works on: the forward's first.
std::vector<int> stages_of(const PipelineOp& step);

/// Keeps parameters of at most three stages of a rank gathered: before each step, stages that are not among the next
/// three distinct ones are resharded (ascending) and those of them that are missing are unsharded. Idle slots go.
/// Source: PyTorch 2.8.0's rule, docs/references.md#pytorch-pipelining.
PipelineProgram with_parameter_gathering(const PipelineProgram& program);

/// Adds a send after every step whose result another rank needs and, at that moment, the receive to that rank's
/// program. The moment comes from sweeps over the ranks in ascending order, a step per rank and sweep, where its inputs
/// are there; so receives are posted as early as the unit-time picture allows. Idle slots go.
/// Source: PyTorch 2.8.0's rule, docs/references.md#pytorch-pipelining.   Requires a schedule that `check` accepts, for
/// `program`'s compute steps.
PipelineProgram with_early_receives(const Schedule& schedule, const PipelineProgram& program);

/// The same with every receive right before the step that needs it: as Megatron's schedules post them.
PipelineProgram with_receives_at_use(const Schedule& schedule, const PipelineProgram& program);

}  // namespace tracecast
