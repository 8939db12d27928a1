#include "sim/schedule/program.hpp"

#include <algorithm>
#include <cstddef>
#include <set>

#include <fmt/format.h>

namespace tracecast {

namespace {

const char* letters(PipelineOpKind kind) {
  switch (kind) {
    case PipelineOpKind::idle:
      return "";
    case PipelineOpKind::forward:
      return "F";
    case PipelineOpKind::backward:
      return "B";
    case PipelineOpKind::backward_input:
      return "I";
    case PipelineOpKind::backward_weight:
      return "W";
    case PipelineOpKind::overlapped:
      return "OVERLAP_F_B";
    case PipelineOpKind::send_forward:
      return "SEND_F";
    case PipelineOpKind::receive_forward:
      return "RECV_F";
    case PipelineOpKind::send_backward:
      return "SEND_B";
    case PipelineOpKind::receive_backward:
      return "RECV_B";
    case PipelineOpKind::unshard:
      return "UNSHARD";
    case PipelineOpKind::reshard:
      return "RESHARD";
    case PipelineOpKind::reduce_grad:
      return "REDUCE_GRAD";
  }
  return "";
}

PipelineOp step_of(const Schedule& schedule, std::size_t rank, const Action& action) {
  const auto stage = [&](int chunk) { return schedule.stage_of[rank][static_cast<std::size_t>(chunk)]; };
  const auto simple = [&](PipelineOpKind kind) {
    return PipelineOp{kind, stage(action.chunk), action.microbatch, -1, -1};
  };
  switch (action.kind) {
    case ActionKind::forward:
      return simple(PipelineOpKind::forward);
    case ActionKind::backward:
      return simple(PipelineOpKind::backward);
    case ActionKind::backward_input:
      return simple(PipelineOpKind::backward_input);
    case ActionKind::backward_weight:
      return simple(PipelineOpKind::backward_weight);
    case ActionKind::forward_backward:
      break;
  }
  return {PipelineOpKind::overlapped, stage(action.chunk), action.microbatch, stage(action.chunk2), action.microbatch2};
}

/// The next distinct stages from `from` on, at most three.
std::vector<int> next_stages(const std::vector<PipelineOp>& list, std::size_t from) {
  constexpr std::size_t kActiveStages = 3;
  std::vector<int> stages;
  for (std::size_t i = from; i < list.size() && stages.size() < kActiveStages; ++i) {
    for (int stage : stages_of(list[i])) {
      const bool known = std::find(stages.begin(), stages.end(), stage) != stages.end();
      if (!known && stages.size() < kActiveStages) stages.push_back(stage);
    }
  }
  return stages;
}

}  // namespace

bool is_compute(PipelineOpKind kind) { return kind >= PipelineOpKind::forward && kind <= PipelineOpKind::overlapped; }
bool is_send(PipelineOpKind kind) {
  return kind == PipelineOpKind::send_forward || kind == PipelineOpKind::send_backward;
}
bool is_receive(PipelineOpKind kind) {
  return kind == PipelineOpKind::receive_forward || kind == PipelineOpKind::receive_backward;
}

std::string to_string(const PipelineOp& step) {
  if (step.kind == PipelineOpKind::idle) return "";
  if (step.kind == PipelineOpKind::overlapped) {
    return fmt::format("({}F{};{}B{})OVERLAP_F_B", step.stage, step.microbatch, step.stage2, step.microbatch2);
  }
  std::string text = fmt::format("{}{}", step.stage, letters(step.kind));
  if (step.microbatch >= 0) text += std::to_string(step.microbatch);
  return text;
}

std::vector<int> stages_of(const PipelineOp& step) {
  if (!is_compute(step.kind)) return {};
  if (step.kind == PipelineOpKind::overlapped) return {step.stage, step.stage2};
  return {step.stage};
}

PipelineProgram program_of(const Schedule& schedule) {
  PipelineProgram program(schedule.actions.size());
  for (std::size_t rank = 0; rank < program.size(); ++rank) {
    for (const Action& action : schedule.actions[rank]) program[rank].push_back(step_of(schedule, rank, action));
  }
  return program;
}

PipelineProgram with_parameter_gathering(const PipelineProgram& program) {
  PipelineProgram result(program.size());
  for (std::size_t rank = 0; rank < program.size(); ++rank) {
    std::set<int> resident;
    for (std::size_t i = 0; i < program[rank].size(); ++i) {
      const PipelineOp& step = program[rank][i];
      if (step.kind == PipelineOpKind::idle) continue;
      const std::vector<int> next = next_stages(program[rank], i);
      for (auto stage = resident.begin(); stage != resident.end();) {
        if (std::find(next.begin(), next.end(), *stage) != next.end()) {
          ++stage;
          continue;
        }
        result[rank].push_back({PipelineOpKind::reshard, *stage, -1, -1, -1});
        stage = resident.erase(stage);
      }
      for (int stage : next) {
        if (resident.insert(stage).second) result[rank].push_back({PipelineOpKind::unshard, stage, -1, -1, -1});
      }
      result[rank].push_back(step);
    }
  }
  return result;
}

}  // namespace tracecast
