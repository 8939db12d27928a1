/// \file
/// A step that another simulator or tracer describes: nodes of work and what they depend on. Each node comes after the nodes
/// that it depends on.   docs/formats/steps.md
/// Source: docs/references.md#format-chakra, docs/references.md#format-astra-sim
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/collective.hpp"
#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// What a collective most probably carries, if only its kind is known.
Traffic traffic_of(Collective collective);

struct ImportedNode {
  enum class Kind { compute, memory, collective, send, receive, host };
  std::int64_t id = 0;
  std::string name;
  Kind kind = Kind::compute;
  Duration duration;  ///< 0 where the file does not say
  Bytes size;         ///< of a collective or message
  Collective collective = Collective::all_reduce;
  std::string group;
  int from = -1;  ///< ranks of a message; -1: not in the file
  int to = -1;
  std::vector<std::int32_t> after;  ///< indices of nodes
  bool operator==(const ImportedNode&) const = default;
};

/// The ranks first, first + stride, …: how many, and their distance.
struct ImportedGroup {
  int ranks = 0;
  int stride = 1;
};

struct ImportedGraph {
  /// What the file counts as the size of a transfer: what one rank puts in, or the larger of input and output.
  enum class Sizes { unknown, of_input, of_larger_buffer };
  std::string format;            ///< its title
  Sizes sizes = Sizes::unknown;  ///< a network model can time transfers of known sizes
  int ranks = 0;                 ///< of the run; 0: not in the file
  /// [ImportedNode::group], for a run of this many ranks; not set: all ranks
  std::function<ImportedGroup(const std::string& group, int ranks)> group_of{};
  std::vector<ImportedNode> nodes;
  std::int64_t untimed_computations = 0;  ///< nodes whose time is missing in the file
  std::vector<std::pair<std::string, std::int64_t>> found;
  std::vector<std::string> notes;
};

/// A lone rank's step graph: computation on one stream, collectives, sends, receives and work of the CPU on one each, in the
/// nodes' order; durations as the file has them, 0 where it has none. Dependencies between streams are events.
StepGraph step_graph_of(const ImportedGraph& step);

/// The work of all nodes together must fit a Duration (106 days). Errors: more than 100 days.
Result<void> check_durations(const ImportedGraph& step, const std::string& file);

/// Puts nodes in order and turns ids into indices. `after[i]`: ids that node i depends on; those that are not there are
/// counted in a note. Errors: an id twice, a cycle, those of check_durations.
Result<void> order_nodes(ImportedGraph& step, const std::vector<std::vector<std::int64_t>>& after,
                         const std::string& file);

}  // namespace tracecast
