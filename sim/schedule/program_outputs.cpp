#include "sim/schedule/program_outputs.hpp"

namespace tracecast {

std::vector<Output> results_of(const PipelineOp& step) {
  switch (step.kind) {
    case PipelineOpKind::forward:
      return {{false, step.stage, step.microbatch}};
    case PipelineOpKind::backward:
    case PipelineOpKind::backward_input:
      return {{true, step.stage, step.microbatch}};
    case PipelineOpKind::overlapped:
      return {{false, step.stage, step.microbatch}, {true, step.stage2, step.microbatch2}};
    default:
      return {};
  }
}

std::vector<Output> inputs_of(const Schedule& schedule, const PipelineOp& step) {
  std::vector<Output> inputs;
  for (Output output : results_of(step)) {
    output.stage += output.backward ? 1 : -1;
    if (output.stage >= 0 && output.stage < schedule.stages()) inputs.push_back(output);
  }
  return inputs;
}

PipelineOp send_of(const Output& output) {
  return {output.backward ? PipelineOpKind::send_backward : PipelineOpKind::send_forward, output.stage,
          output.microbatch, -1, -1};
}

PipelineOp receive_of(const Output& output) {
  return {output.backward ? PipelineOpKind::receive_backward : PipelineOpKind::receive_forward,
          output.stage + (output.backward ? -1 : 1), output.microbatch, -1, -1};
}

}  // namespace tracecast
