#include "tests/support/unit_steps.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "sim/schedule/program_outputs.hpp"

namespace tracecast {

namespace {

/// The output that a send or receive moves.
Output moved_by(const PipelineOp& step) {
  switch (step.kind) {
    case PipelineOpKind::send_forward:
      return {false, step.stage, step.microbatch};
    case PipelineOpKind::send_backward:
      return {true, step.stage, step.microbatch};
    case PipelineOpKind::receive_forward:
      return {false, step.stage - 1, step.microbatch};
    default:
      return {true, step.stage + 1, step.microbatch};
  }
}

/// PyTorch's unit-cost simulator.
class UnitSteps {
 public:
  UnitSteps(const Schedule& schedule, const PipelineProgram& program)
      : schedule_(schedule),
        program_(program),
        holders_(schedule),
        available_(program.size(), AvailableOutputs(schedule)),
        sent_(program.size(), AvailableOutputs(schedule)),
        next_(program.size(), 0) {}

  Result<int> count() {
    int steps = 0;
    while (!done()) {
      std::vector<bool> acted(program_.size());
      bool progress = false;
      for (int visit = 0; visit < 2; ++visit) {
        for (std::size_t rank = 0; rank < program_.size(); ++rank) {
          if (acted[rank] || !execute(rank)) continue;
          acted[rank] = progress = true;
        }
      }
      if (!progress) return stuck();
      ++steps;
    }
    return steps;
  }

 private:
  bool done() const {
    for (std::size_t rank = 0; rank < program_.size(); ++rank) {
      if (next_[rank] < program_[rank].size()) return false;
    }
    return true;
  }

  bool ready(std::size_t rank, const PipelineOp& step) const {
    if (is_receive(step.kind)) {
      const Output output = moved_by(step);
      return sent_[holders_.rank_of(output.stage, output.microbatch)].has(output);
    }
    if (is_send(step.kind)) return available_[rank].has(moved_by(step));
    const std::vector<Output> inputs = inputs_of(schedule_, step);
    return std::all_of(inputs.begin(), inputs.end(), [&](const Output& o) { return available_[rank].has(o); });
  }

  bool execute(std::size_t rank) {
    if (next_[rank] == program_[rank].size()) return false;
    const PipelineOp& step = program_[rank][next_[rank]];
    if (!ready(rank, step)) return false;
    ++next_[rank];
    if (is_send(step.kind)) sent_[rank].add(moved_by(step));
    if (is_receive(step.kind)) available_[rank].add(moved_by(step));
    for (const Output& output : results_of(step)) available_[rank].add(output);
    return true;
  }

  tl::unexpected<Error> stuck() const {
    std::string text = "no rank can go on:";
    for (std::size_t rank = 0; rank < program_.size(); ++rank) {
      if (next_[rank] == program_[rank].size()) continue;
      text += fmt::format(" rank {} waits at {};", rank, to_string(program_[rank][next_[rank]]));
    }
    text.pop_back();
    return fail(text);
  }

  const Schedule& schedule_;
  const PipelineProgram& program_;
  StageHolders holders_;
  std::vector<AvailableOutputs> available_;
  std::vector<AvailableOutputs> sent_;
  std::vector<std::size_t> next_;
};

}  // namespace

Result<int> unit_steps(const Schedule& schedule, const PipelineProgram& program) {
  return UnitSteps(schedule, program).count();
}

}  // namespace tracecast
