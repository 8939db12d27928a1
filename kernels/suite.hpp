/// \file
/// The suites that `tracecast profile` times: operators from step graphs of typical training runs, and collectives by size.
///
/// A suite is a list of scenarios and the operators of their step graphs. The shapes are therefore those of training, and a
/// new operator of the graph automatically becomes part of every suite.
///
///   quick   one or two layer stacks: a minute on a CPU
///   full    the layers of 1B to 70B models by tensor-parallel degree; on GPUs also layers with experts, and fp8
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/scenario.hpp"
#include "sim/model/operators.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// An operator to time, and the scenario that gives its row widths.
struct SuiteOperator {
  Operator op;
  std::size_t scenario = 0;
};

struct Suite {
  std::vector<Scenario> scenarios;
  std::vector<SuiteOperator> operators;  ///< each kind, pass, precision and shape once
  std::vector<CollectiveCall> collectives;
};

/// Adds the operators of `scenario`. Errors: those of forecast().
Result<void> add_scenario(Suite& suite, Scenario scenario);

/// The collectives of every kind by size: powers of four from 1 KiB to `largest`.
std::vector<CollectiveCall> collective_sizes(Bytes largest);

/// The layer stacks of a suite by name ("quick", "full") on the device of `base`; the suite defines model, layout and training
/// settings.   Requires a known name.
Result<Suite> make_suite(const std::string& name, const Scenario& base);

}  // namespace tracecast
