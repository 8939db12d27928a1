/// \file
/// Steps as other simulators and tracers describe them: nodes of work with what they depend on.
///
///   chakra       MLCommons Chakra execution traces: protobuf (.et) or the JSON workload form; one rank a file
///   pytorch-et   PyTorch's execution traces, both generations: operators with shapes, no times
///   simai        SimAI and AICB workloads (text), and AICB's communication log (CSV)
///
/// Nodes are in an order in which each comes after what it depends on. Source: docs/references.md#format-chakra,
/// docs/references.md#format-astra-sim; docs/formats/steps.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/network/collective.hpp"

namespace tracecast {

struct ForeignNode {
  enum class Kind { compute, memory, collective, send, receive, host };
  std::int64_t id = 0;
  std::string name;
  Kind kind = Kind::compute;
  Duration duration;  ///< 0 where the file does not say
  Bytes size;         ///< of a collective or message
  Collective collective = Collective::all_reduce;
  std::string group;
  std::vector<std::int32_t> after;  ///< indices of nodes
  bool operator==(const ForeignNode&) const = default;
};

struct ForeignStep {
  std::string format;  ///< its title
  std::vector<ForeignNode> nodes;
  std::vector<std::pair<std::string, std::int64_t>> found;
  std::vector<std::string> notes;
};

struct StepFormat {
  std::string_view name;
  std::string_view title;
  bool (*matches)(std::string_view content);
  /// Errors: one sentence with the place (line, byte or node) that is damaged; a circle of dependencies.
  Result<ForeignStep> (*read)(std::string_view content, const std::string& file);
};

std::span<const StepFormat> step_formats();
/// `format`: a name of the table; empty: by content. Errors: none of them; those of the format.
Result<ForeignStep> import_step(std::string_view content, const std::string& file, std::string_view format = "");

/// A lone rank's step graph: computation on one stream, collectives, sends, receives and work of the CPU on one each, in the
/// nodes' order; durations as the file has them, 0 where it has none. Dependencies between streams are events.
StepGraph step_graph_of(const ForeignStep& step);

// The formats.
Result<ForeignStep> read_chakra(std::string_view content, const std::string& file);
Result<ForeignStep> read_pytorch_et(std::string_view content, const std::string& file);
Result<ForeignStep> read_simai_workload(std::string_view content, const std::string& file);

/// The work of all nodes together must fit a Duration (106 days). Errors: more than 100 days.
Result<void> check_durations(const ForeignStep& step, const std::string& file);

/// Puts nodes in order and turns ids into indices. `after[i]`: ids that node i depends on; those that are not there are
/// counted in a note. Errors: an id twice, a circle, those of check_durations.
Result<void> order_nodes(ForeignStep& step, const std::vector<std::vector<std::int64_t>>& after,
                         const std::string& file);

}  // namespace tracecast
