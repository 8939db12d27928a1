/// \file
/// Calculon's inputs: an application becomes a model, an execution the settings of a scenario.
///
/// Its systems are efficiency curves of a processor and of networks, which profiles and topologies here measure or derive in
/// other ways; they, and its results, are refused with a sentence. Source: docs/references.md#format-astra-sim;
/// docs/formats/steps.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/model/model.hpp"

namespace tracecast {

struct CalculonInput {
  std::optional<Model> model;         ///< of an application
  std::vector<std::string> settings;  ///< of an execution: "parallel.tp=4", as --set takes them
  std::vector<std::string> notes;
};

/// Errors: no JSON; a system, a result, or neither of the two; sizes that are none.
Result<CalculonInput> read_calculon(std::string_view text, const std::string& file);

}  // namespace tracecast
