/// \file
/// The work of a layer: operators and collectives of one micro-batch on one rank, in the order in which they are
/// issued.
/// Leaves out times and streams, which the template writer adds (template_writer.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/step_graph.hpp"
#include "sim/model/operators.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// One thing to issue.
struct Work {
  enum class Kind {
    compute,     ///< `op` on the compute stream
    collective,  ///< `call`; what follows waits for its end
    start,       ///< `call`, overlapping with what follows, until `join` with the same ticket
    join,
    host_sync,  ///< the host waits for what the compute stream was given so far
    gradients,  ///< the weight gradients of `parameters` parameters are complete
  };
  Kind kind = Kind::compute;
  Operator op;
  bool recomputed = false;
  bool graphed = false;        ///< launched by a CUDA graph that earlier work of the list began
  bool shares_launch = false;  ///< takes no time of the host: launched with the work before it
  /// Calls of the framework that launch it, where it is no operator of the stack's; 0: it is one.
  int calls = 0;
  Traffic traffic = Traffic::tensor_parallel;
  CollectiveCall call;
  bool untiled = false;        ///< of a collective: tp_comm_overlap hides no part of it
  bool among_experts = false;  ///< of a collective of tensor parallelism: between the ranks that share each expert
  int ticket = 0;
  std::int64_t parameters = 0;
  bool expert_parameters = false;  ///< of routed experts: reduced over the expert-data-parallel group
};

using WorkList = std::vector<Work>;

/// Which part of the backward pass to write.
enum class BackwardPart { all, input_gradients, weight_gradients };

inline bool has_input_gradients(BackwardPart part) { return part != BackwardPart::weight_gradients; }
inline bool has_weight_gradients(BackwardPart part) { return part != BackwardPart::input_gradients; }

}  // namespace tracecast
