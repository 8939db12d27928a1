#include "sim/report/schedule_view.hpp"

#include <fmt/format.h>

namespace tracecast {

double activation_unit(const Schedule& schedule) {
  return static_cast<double>(schedule.replicas) / static_cast<double>(schedule.chunks);
}

std::string label_of(const Action& action) {
  switch (action.kind) {
    case ActionKind::forward:
      return fmt::format("F{}", action.microbatch);
    case ActionKind::backward:
      return fmt::format("B{}", action.microbatch);
    case ActionKind::backward_input:
      return fmt::format("I{}", action.microbatch);
    case ActionKind::backward_weight:
      return fmt::format("W{}", action.microbatch);
    case ActionKind::forward_backward:
      break;
  }
  return fmt::format("F{}|B{}", action.microbatch, action.microbatch2);
}

}  // namespace tracecast
