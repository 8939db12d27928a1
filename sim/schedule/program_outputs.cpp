#include "sim/schedule/program_outputs.hpp"

namespace tracecast {

std::vector<Output> results_of(const PipelineStep& step) {
  switch (step.kind) {
    case StepKind::forward:
      return {{false, step.stage, step.microbatch}};
    case StepKind::backward:
    case StepKind::backward_input:
      return {{true, step.stage, step.microbatch}};
    case StepKind::overlapped:
      return {{false, step.stage, step.microbatch}, {true, step.stage2, step.microbatch2}};
    default:
      return {};
  }
}

std::vector<Output> inputs_of(const Schedule& schedule, const PipelineStep& step) {
  std::vector<Output> inputs;
  for (Output output : results_of(step)) {
    output.stage += output.backward ? 1 : -1;
    if (output.stage >= 0 && output.stage < schedule.stages()) inputs.push_back(output);
  }
  return inputs;
}

PipelineStep send_of(const Output& output) {
  return {output.backward ? StepKind::send_backward : StepKind::send_forward, output.stage, output.microbatch, -1, -1};
}

PipelineStep receive_of(const Output& output) {
  return {output.backward ? StepKind::receive_backward : StepKind::receive_forward,
          output.stage + (output.backward ? -1 : 1), output.microbatch, -1, -1};
}

Output moved_by(const PipelineStep& step) {
  switch (step.kind) {
    case StepKind::send_forward:
      return {false, step.stage, step.microbatch};
    case StepKind::send_backward:
      return {true, step.stage, step.microbatch};
    case StepKind::receive_forward:
      return {false, step.stage - 1, step.microbatch};
    default:
      return {true, step.stage + 1, step.microbatch};
  }
}

}  // namespace tracecast
