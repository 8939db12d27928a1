/// \file
/// Converts a recorded step to a step graph. The engine replays it to the recorded duration; changes to parts of it can be
/// simulated.
///
///   rank          a GPU of the trace; its NCCL kernels keep their recorded durations (there are no other ranks to wait for)
///   stream        as recorded; the one with the most computation is the compute stream. Its NCCL kernels have a stream of
///                 their own, in the recorded order: while it communicates it does not compute
///   step          from its first work on a GPU to the first work of the next step, since the host may run ahead; the last step
///                 of a recording ends with its last work or its range on the host, whichever is later
///   host          issues every kernel at its recorded launch time, relative to the previous launch; if a call waited for
///                 the GPU (cudaStreamSynchronize …), the host waits for the kernel that ended during that call. What it
///                 issued before a step's first work began counts as issued then; where the GPU waited for the host to issue the
///                 next step, the host continues until then
///   event         a kernel that began more than kPause after it could have begun waits for the last work on another
///                 stream that ended before it
///   gap           the remaining time between the earliest possible begin of a kernel and its actual begin (launch
///                 latency, dispatch) becomes an operator "gap" of that length; those of the compute stream are on a stream
///                 of their own. Where the compute stream waits for one, or for a transfer behind it, it counts as waiting
///
/// A replay of the whole graph therefore reproduces the recorded time of every kernel. If kernels overlap on one stream, the
/// later one is shortened to begin at the end of the earlier one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/io/trace.hpp"
#include "tracer/rank_steps.hpp"

namespace tracecast {

/// A longer pause before a kernel is taken as a wait for another stream, if work on one ended during the pause.
inline constexpr std::int64_t kPauseNs = 10'000;

/// Name of the operators that stand for pauses.
inline constexpr const char* kRecordedPause = "gap";

/// An NCCL kernel: identifies the call in the recordings of other ranks.
struct RecordedCall {
  std::uint64_t group = UINT64_MAX;  ///< communicator; UINT64_MAX: not recorded
  std::int64_t sequence =
      0;              ///< within the communicator; below 0: not recorded, calls of the same number are in their order
  Duration end;       ///< since the begin of the step
  int members = 0;    ///< ranks that take part; 0: not known
  int direction = 0;  ///< of one message: 1 sent, -1 received
  const char* alone = nullptr;  ///< what it is, if it cannot be identified on other ranks
  std::string kernel = {};      ///< of another library than NCCL: its name, shortened
};

struct Replay {
  StepGraph graph;
  std::vector<RecordedCall> calls;  ///< [i] recorded call of graph.collectives[i]
  Duration recorded;                ///< length of the step on the GPU's clock
  std::int64_t works = 0;           ///< kernels and copies
  std::int64_t waits = 0;           ///< inferred events between streams
  std::int64_t syncs = 0;           ///< host calls that waited for the GPU
  std::int64_t met = 0;             ///< collectives in which ranks of several recordings met
  std::vector<std::string>
      notes;  ///< what was assumed, and calls of several recordings that could not be matched, and why
};

/// Numbers of the whole steps (tracer/step_windows.hpp), ascending.
std::vector<std::int64_t> recorded_steps(const Trace& trace);

/// `step`: what was launched in that step; empty: everything.
/// Errors: a step that the trace does not have or in which the GPU did nothing; work that ends before it begins; more than 248
/// streams.
Result<Replay> replay_graph(const Trace& trace, std::optional<std::int64_t> step, const std::string& file);

/// Recordings of several ranks as one step in which they wait for each other. A collective that all recorded members of its group
/// called, in the same order, becomes a rendezvous that takes as long as on the rank that came last; others keep their durations.
/// Calls whose number was not recorded are matched in their order, if all members made as many.
/// Clocks of hosts differ: recordings are shifted so that on average their common collectives end together.
/// Requires at least one replay. Rank numbers that several recordings have are given out anew, from 0.
Replay join_ranks(std::vector<Replay> replays);

/// Recordings of ranks of one run, one or several, as one replay. `step`: by the number of the first recording; `steps`: those of the
/// recordings (rank_steps()), needed if a step is given. A rank that did not record the step after it, which others did, counts
/// from its first work in the step to its last: when the step ended the others know.
/// Requires at least one trace. Errors: as replay_graph().
Result<Replay> replay_ranks(std::span<const Trace> traces, const std::vector<std::string>& files,
                            const RankSteps& steps, std::optional<std::int64_t> step);

}  // namespace tracecast
