/// \file
/// Which operator of a step a recorded kernel is. Kernels and operators are aligned in order (tracer/alignment.hpp) so that the total
/// weight is maximal:
///
///   name     8   all kernels launched in a range, or under an id, named after an operator ("qkv") together are that operator
///   sizes    6   a matrix multiplication launched in a range (or under an id) that names its sizes ("aten::mm, sizes = [[8192, 4096], …]", as
///                PyTorch's NVTX and profiler write them) matches operators of these sizes and no others
///   kind    12   an attention kernel: there is one for each layer and pass, so it tells where in the step the kernels around it are.
///                Multiplications do not: a query's and an output projection of equal sizes are told apart by it
///            4   a multiplication without sizes, by its name
///            2   element-wise kernels, by their name; kernels with unknown names match a residual with weight 1
///            1   a further consecutive kernel of the same kind: an operator may be several kernels, whose times are added
///
/// A kernel launched in a backward (in a range that says so, on a thread of BackwardThreads, or by its name) matches a forward operator
/// only if that operator is recomputed; one that another thread launched matches nothing of a backward. Kernels with sizes that do not
/// match in order are matched by their sizes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/graph/step_graph.hpp"
#include "sim/io/trace.hpp"
#include "tracer/recorded_steps.hpp"

namespace tracecast {

/// The operators and collectives of a rank in a step, in order.
struct ExpectedStep {
  std::vector<std::int32_t> operators;    ///< indices into StepGraph::operators
  std::vector<std::int32_t> collectives;  ///< indices into StepGraph::collectives
  const Rank* rank = nullptr;
};
ExpectedStep expected_step(const StepGraph& graph, const Rank& rank);

/// How a kernel was matched, or why not.
enum class Match : std::uint8_t {
  by_name,
  by_sizes,
  by_kind,
  no_such_name,   ///< the range's operator is in another pass of the step, or has its kernels already
  no_such_sizes,  ///< the step multiplies no matrices of these sizes
  no_such_kind,   ///< the step has no operator of this kind
  too_many,       ///< the step has fewer of this kind, or in another order
  other_library,  ///< a transfer, but not NCCL's
};
inline constexpr int kMatches = 8;
inline bool is_matched(Match match) { return match <= Match::by_kind; }
const char* to_string(Match match);

/// The operator assigned to a group of kernels.
struct Place {
  std::int32_t op = -1;     ///< index into StepGraph::operators; -1: nothing
  std::int32_t index = -1;  ///< into ExpectedStep::operators; -1: matched by its sizes, out of order
  Match match = Match::too_many;
};

/// The match of each group. nullopt: too many to align.
std::optional<std::vector<Place>> places_of(const StepGraph& graph, const ExpectedStep& expected,
                                            const std::vector<KernelGroup>& found);

/// The collective of each NCCL kernel, by kind and order: [kernel] index into ExpectedStep::collectives; -1: none. nullopt: too many to
/// align.
std::optional<std::vector<std::int32_t>> collectives_of(const StepGraph& graph, const ExpectedStep& expected,
                                                        const Trace& trace, const std::vector<std::int32_t>& kernels);

}  // namespace tracecast
