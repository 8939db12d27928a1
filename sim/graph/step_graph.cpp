#include "sim/graph/step_graph.hpp"

namespace tracecast {

const char* to_string(Traffic traffic) {
  switch (traffic) {
    case Traffic::tensor_parallel:
      return "tensor_parallel";
    case Traffic::context_parallel:
      return "context_parallel";
    case Traffic::expert_parallel:
      return "expert_parallel";
    case Traffic::pipeline:
      return "pipeline";
    case Traffic::gradients:
      return "gradients";
    case Traffic::parameters:
      return "parameters";
    case Traffic::embedding:
      return "embedding";
    case Traffic::control:
      return "control";
    case Traffic::offload:
      return "offload";
  }
  return "?";
}

}  // namespace tracecast
