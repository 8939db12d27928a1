/// \file
/// Where the steps of a recording begin. The first of these that a recording has decides:
///
///   ranges      a step is what was launched in a range ProfilerStep#N
///   optimizer   a step ends with the last optimizer kernel before the next multiplication, or before the next embedding if there is
///               one in between
///   period      a step is the distance between occurrences of one kernel in which every kernel that recurs occurs each time; the
///               shortest such distance
///
/// A period of several steps (a kernel that runs in every tenth step only) cannot be told from a step of ten micro-batches: then
/// ranges or known names of the optimizer's kernels are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sim/io/trace.hpp"
#include "tracer/recorded_work.hpp"

namespace tracecast {

/// Host times, ns: what is launched from `begin` on and before `end`.
struct StepWindow {
  std::int64_t begin = INT64_MIN;
  std::int64_t end = INT64_MAX;
};

/// The whole steps of a recording by number: N of ProfilerStep#N; without such ranges 1, 2, … on the GPU with most kernels.
std::map<std::int64_t, StepWindow> step_windows(const Trace& trace);

/// Indices of `kernels`, those of one GPU in the order of launch, at which a step begins, without ranges. The first kernel is only
/// listed if the step before it ended there.
std::vector<std::size_t> step_begins(const Trace& trace, std::span<const RecordedWork> kernels);

/// Indices of `ids`, which number kernels in order, at which a period begins; empty: there are not two whole periods.
std::vector<std::size_t> period_begins(std::span<const std::int32_t> ids);

/// Removes everything but the last `count` whole steps. False: there are fewer, and nothing was removed.
bool keep_last_steps(Trace& trace, std::int64_t count);

}  // namespace tracecast
