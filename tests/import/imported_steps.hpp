/// \file
/// Steps that tests import from files of other simulators.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "sim/engine/simulate.hpp"
#include "sim/import/importers.hpp"
#include "tests/import/samples.hpp"
#include "tests/support/results.hpp"

namespace tracecast::test {

inline ImportedGraph read_step(const std::string& sample_name) {
  INFO(sample_name);
  return value_of(import_as<ImportedGraph>(sample(sample_name), sample_name));
}

inline std::int64_t nodes_of_kind(const ImportedGraph& step, ImportedNode::Kind kind) {
  return std::ranges::count(step.nodes, kind, &ImportedNode::kind);
}

inline Duration replayed(const ImportedGraph& step) { return value_of(simulate(step_graph_of(step))).step_time; }

}  // namespace tracecast::test
