/// Where sends and receives go in a program.
#include <cstddef>
#include <utility>

#include "sim/schedule/program_outputs.hpp"

namespace tracecast {

namespace {

/// Sweeps over the ranks (program.hpp, with_early_receives).
class Sweeps {
 public:
  Sweeps(const Schedule& schedule, const PipelineProgram& program)
      : schedule_(schedule),
        program_(program),
        holders_(schedule),
        available_(program.size(), AvailableOutputs(schedule)),
        next_(program.size(), 0),
        lowered_(program.size()) {}

  PipelineProgram run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < program_.size(); ++rank) progress = visit(rank) || progress;
    }
    for (std::size_t rank = 0; rank < program_.size(); ++rank) {
      TRACECAST_ASSERT(next_[rank] == program_[rank].size(), "a schedule that was checked does not get stuck");
    }
    return std::move(lowered_);
  }

 private:
  bool visit(std::size_t rank) {
    std::size_t& at = next_[rank];
    const std::vector<PipelineOp>& list = program_[rank];
    while (at < list.size() && list[at].kind == PipelineOpKind::idle) ++at;
    if (at == list.size()) return false;
    const PipelineOp& step = list[at];
    for (const Output& input : inputs_of(schedule_, step)) {
      if (!available_[rank].has(input)) return false;
    }
    ++at;
    lowered_[rank].push_back(step);
    for (const Output& output : results_of(step)) {
      available_[rank].add(output);
      if (const auto peer = holders_.receiver(rank, output)) {
        lowered_[rank].push_back(send_of(output));
        lowered_[*peer].push_back(receive_of(output));
        available_[*peer].add(output);
      }
    }
    return true;
  }

  const Schedule& schedule_;
  const PipelineProgram& program_;
  StageHolders holders_;
  std::vector<AvailableOutputs> available_;
  std::vector<std::size_t> next_;
  PipelineProgram lowered_;
};

}  // namespace

PipelineProgram with_early_receives(const Schedule& schedule, const PipelineProgram& program) {
  return Sweeps(schedule, program).run();
}

PipelineProgram with_receives_at_use(const Schedule& schedule, const PipelineProgram& program) {
  const StageHolders holders(schedule);
  PipelineProgram result(program.size());
  for (std::size_t rank = 0; rank < program.size(); ++rank) {
    for (const PipelineOp& step : program[rank]) {
      if (step.kind == PipelineOpKind::idle) continue;
      for (const Output& input : inputs_of(schedule, step)) {
        if (holders.rank_of(input.stage, input.microbatch) != rank) result[rank].push_back(receive_of(input));
      }
      result[rank].push_back(step);
      for (const Output& output : results_of(step)) {
        if (holders.receiver(rank, output)) result[rank].push_back(send_of(output));
      }
    }
  }
  return result;
}

}  // namespace tracecast
