/// \file
/// What `tracecast profile` times: the operators of step graphs of typical training runs, and collectives over sizes.
///
/// A suite is a list of scenarios and the operators that their step graphs ask for; so the shapes are those that
/// training uses, and a new operator of the graph is in every suite by itself.
///
///   quick   a layer stack or two: a minute on a CPU
///   full    the layers of 1B to 70B models by tensor-parallel degree; on GPUs also layers with experts, and fp8
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/scenario.hpp"
#include "sim/model/operators.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// An operator to time, and the scenario that its rows have their widths from.
struct SuiteOperator {
  Operator op;
  std::size_t scenario = 0;
};

struct Suite {
  std::vector<Scenario> scenarios;
  std::vector<SuiteOperator> operators;  ///< each kind, pass, precision and shape once
  std::vector<CollectiveCall> collectives;
};

/// Adds what `scenario` asks of its device. Errors: those of forecast().
Result<void> add_scenario(Suite& suite, Scenario scenario);

/// The collectives of every kind by size: powers of four from 1 KiB to `largest`.
std::vector<CollectiveCall> collective_sizes(Bytes largest);

/// The layer stacks of a suite by name ("quick", "full") on the device that `base` names: model, layout and training
/// settings are the suite's own.   Requires a known name.
Result<Suite> make_suite(const std::string& name, const Scenario& base);

}  // namespace tracecast
