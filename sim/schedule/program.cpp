#include "sim/schedule/program.hpp"

#include <algorithm>
#include <cstddef>
#include <set>

#include <fmt/format.h>

namespace tracecast {

namespace {

const char* letters(StepKind kind) {
  switch (kind) {
    case StepKind::idle:
      return "";
    case StepKind::forward:
      return "F";
    case StepKind::backward:
      return "B";
    case StepKind::backward_input:
      return "I";
    case StepKind::backward_weight:
      return "W";
    case StepKind::overlapped:
      return "OVERLAP_F_B";
    case StepKind::send_forward:
      return "SEND_F";
    case StepKind::receive_forward:
      return "RECV_F";
    case StepKind::send_backward:
      return "SEND_B";
    case StepKind::receive_backward:
      return "RECV_B";
    case StepKind::unshard:
      return "UNSHARD";
    case StepKind::reshard:
      return "RESHARD";
    case StepKind::reduce_grad:
      return "REDUCE_GRAD";
  }
  return "";
}

PipelineStep step_of(const Schedule& schedule, std::size_t rank, const Action& action) {
  const auto stage = [&](int chunk) { return schedule.stage_of[rank][static_cast<std::size_t>(chunk)]; };
  const auto simple = [&](StepKind kind) { return PipelineStep{kind, stage(action.chunk), action.microbatch, -1, -1}; };
  switch (action.kind) {
    case ActionKind::forward:
      return simple(StepKind::forward);
    case ActionKind::backward:
      return simple(StepKind::backward);
    case ActionKind::backward_input:
      return simple(StepKind::backward_input);
    case ActionKind::backward_weight:
      return simple(StepKind::backward_weight);
    case ActionKind::forward_backward:
      break;
  }
  return {StepKind::overlapped, stage(action.chunk), action.microbatch, stage(action.chunk2), action.microbatch2};
}

/// The next distinct stages from `from` on, at most three.
std::vector<int> next_stages(const std::vector<PipelineStep>& list, std::size_t from) {
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

bool is_compute(StepKind kind) { return kind >= StepKind::forward && kind <= StepKind::overlapped; }
bool is_send(StepKind kind) { return kind == StepKind::send_forward || kind == StepKind::send_backward; }
bool is_receive(StepKind kind) { return kind == StepKind::receive_forward || kind == StepKind::receive_backward; }

std::string to_string(const PipelineStep& step) {
  if (step.kind == StepKind::idle) return "";
  if (step.kind == StepKind::overlapped) {
    return fmt::format("({}F{};{}B{})OVERLAP_F_B", step.stage, step.microbatch, step.stage2, step.microbatch2);
  }
  std::string text = fmt::format("{}{}", step.stage, letters(step.kind));
  if (step.microbatch >= 0) text += std::to_string(step.microbatch);
  return text;
}

std::vector<int> stages_of(const PipelineStep& step) {
  if (!is_compute(step.kind)) return {};
  if (step.kind == StepKind::overlapped) return {step.stage, step.stage2};
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
      const PipelineStep& step = program[rank][i];
      if (step.kind == StepKind::idle) continue;
      const std::vector<int> next = next_stages(program[rank], i);
      for (auto stage = resident.begin(); stage != resident.end();) {
        if (std::find(next.begin(), next.end(), *stage) != next.end()) {
          ++stage;
          continue;
        }
        result[rank].push_back({StepKind::reshard, *stage, -1, -1, -1});
        stage = resident.erase(stage);
      }
      for (int stage : next) {
        if (resident.insert(stage).second) result[rank].push_back({StepKind::unshard, stage, -1, -1, -1});
      }
      result[rank].push_back(step);
    }
  }
  return result;
}

}  // namespace tracecast
