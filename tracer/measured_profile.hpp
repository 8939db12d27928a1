/// \file
/// Builds a profile from recorded kernels and collectives (`profile --from`).
///
/// The step graph of the recorded scenario gives the operators of a rank in order. The kernels of each recorded step
/// (tracer/recorded_steps.hpp) are matched with them (tracer/step_match.hpp); every GPU of a trace is a rank. Unmatched kernels are reported
/// with their time and the reason.
///
/// A recording that has too little in common with the scenario is refused: another GPU, a slice of one, another number of ranks;
/// most multiplications of other sizes; too small a share of its time matched, or of the scenario's step found; rates that no GPU
/// reaches (sim/cost/plausible.hpp); multiplications and attention several times slower than forecast.
///
/// A kernel that ran beside a collective counts with its time without the collective (tracer/concurrent_transfers.hpp).
///
/// Collectives with recorded sizes become measurements of their group. Without sizes, NCCL kernels are matched with the step's
/// collectives in order. For each call the shortest duration over all traces is used: the last rank to arrive does not wait.
/// The profile stores only collectives within one host; others are counted and left to the network model.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/profile.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/io/trace.hpp"
#include "tracer/step_match.hpp"

namespace tracecast {

/// Kernels of one name that matched no operator, for one reason.
struct UnmatchedKernels {
  std::string name;
  Duration time;
  Match why = Match::too_many;
  bool operator==(const UnmatchedKernels&) const = default;
};

/// An operator that something else may have been taken for, so that it is not in the profile.
struct OmittedOperator {
  std::string name;  ///< with its pass
  std::string why;
};

/// What a recording must have in common with the scenario.
struct MatchLimits {
  double least_matched =
      0.5;  ///< of the kernels' time; and of the scenario's step, by forecast time, in the fullest recorded step
  double most_of_forecast = 4;  ///< times that multiplications and attention may take of their forecast
};

struct MeasuredProfile {
  Profile profile;
  std::int64_t steps = 0;    ///< of all ranks
  std::int64_t kernels = 0;  ///< compute kernels of all traces, and transfers of other libraries than NCCL
  std::int64_t matched = 0;
  Duration time;  ///< of those kernels
  Duration matched_time;
  std::array<Duration, kMatches> time_by_match{};  ///< [Match]
  double fullest_step = 0;       ///< share of the scenario's operators, by forecast time, that one recorded step had
  double of_forecast = 0;        ///< recorded time / forecast time of matched multiplications and attention; 0: none
  std::int64_t operators = 0;    ///< distinct ones that were measured
  std::int64_t collectives = 0;  ///< NCCL calls or kernels of all traces
  std::int64_t collectives_matched = 0;
  std::int64_t collectives_across_hosts = 0;  ///< of those that matched: not written
  std::vector<UnmatchedKernels> unmatched;    ///< longest first
  /// Found in less than half of the share of all operators, or element-wise work faster than memory allows.
  std::vector<OmittedOperator> left_out;
};

/// A trace and its name in messages.
struct NamedTrace {
  std::string file;
  Trace trace;
};

/// `base` provides the models for everything not measured, with its in-training factors. What was recorded contains them: its times are
/// divided by them, and a forecast multiplies them again.
/// `graph`: of the recorded scenario, with every rank (unfolded). `link`: of its GPUs inside a host (link_of_gpu()); 0: not known.
/// Requires at least one trace. Errors: no compute kernels; a rank that the graph does not have, or in two files; a step with too many
/// kernels and operators to align; a recording that is refused as above.
Result<MeasuredProfile> measured_profile(std::span<const NamedTrace> traces, const StepGraph& graph, Profile base,
                                         const MatchLimits& limits = {}, Bandwidth link = {});

}  // namespace tracecast
