/// \file
/// A step graph prepared for the engine.
///
/// The operations of each template are sorted by stream. A run of compute operations that no event interrupts becomes one
/// StreamOp. Collectives that concern one rank only are fused into such runs as well (fused_runs.hpp).
///
/// Summing is exact. Take operations k = 1..n of one stream. The host begins the template at H and issues operation k at
/// H + i_k; the operation lasts d_k. Each operation starts at the later of its issue and its predecessor's end, so
///
///   end = max(ready + sum d,  H + lag),     lag = max over k of (i_k + d_k + ... + d_n)
///
/// Durations of a slow rank are rounded per operation before they are summed (append_runs). The same function sums those of
/// micro-batches that take different times (VaryingWork).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/fused_runs.hpp"
#include "sim/engine/local_streams.hpp"
#include "sim/engine/lockstep.hpp"
#include "sim/engine/progress.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast::engine {

/// What a stream executes as one unit: a run of compute operations, or one transfer.
struct StreamOp {
  OpType type = OpType::compute;
  Traffic traffic = Traffic::pipeline;  ///< of a transfer
  bool eager = false;                   ///< of a message
  bool optimizer = false;               ///< of an optimizer template
  std::int32_t slot_or_channel = -1;    ///< collective: index into Rank::communicators; message: its channel
  std::int32_t fused_run = -1;          ///< index into FusedRuns::all; -1: not a fused run
  std::int32_t lockstep_run = -1;  ///< its first compute or transfer: index into CompiledGraph::lockstep_runs; -1: no
  std::int32_t first_op = 0;       ///< index into Template::ops
  std::int32_t first_wait = 0;     ///< index into CompiledGraph::waits
  std::int32_t wait_count = 0;
  std::int32_t first_member = 0;  ///< index into CompiledGraph::members: the operations of the run
  std::int32_t member_count = 0;
  std::int32_t first_work = 0;  ///< of a run that is not fused: index into CompiledGraph::work, as many as members
  EventRef records;
  std::int64_t total = 0;  ///< ps
  std::int64_t issue = 0;  ///< ps from the template's beginning on the host to the issue of the first operation
  std::int64_t lag = 0;    ///< ps from the same beginning: the earliest end that the host allows
};

/// Duration of one run of compute operations on a rank of its own times; total and lag as in StreamOp.
struct RunDuration {
  std::int64_t total = 0;
  std::int64_t lag = 0;
};

struct CompiledTemplate {
  std::int64_t host_total = 0;        ///< ps of host time to issue all operations
  std::int32_t sync_op = -1;          ///< the host_sync at its end; -1: none
  std::vector<std::int64_t> issue;    ///< [op] ps after the template's beginning
  std::vector<std::int32_t> streams;  ///< those that have StreamOps
  bool varies = false;                ///< it has operators of VaryingWork
};

/// One item of a program. The host issues a program in blocks: a block ends with a host_sync or with the program.
struct CompiledItem {
  std::int32_t template_index = 0;
  std::int32_t compiled_template = 0;  ///< index into CompiledGraph::templates
  std::int32_t microbatch = 0;
  std::int32_t issue_block = 0;
  std::int64_t host_offset = 0;  ///< ps from the beginning of the issue block until the host begins this item
};

struct CompiledProgram {
  std::vector<CompiledItem> items;
  std::vector<std::vector<std::int32_t>> streams;  ///< [stream] the items that have operations on it; at last -1
  std::vector<std::int32_t> syncs;                 ///< the items that end with a host_sync
};

/// A template or program may be compiled twice: for ranks whose operations are fused, and for the others.
struct CompiledGraph {
  std::size_t streams = 0;
  std::vector<StreamOp> stream_ops;
  std::vector<std::int32_t> first_stream_ops;  ///< [template x (streams + 1) + stream]
  std::vector<EventRef> waits;
  std::vector<std::int32_t> members;
  std::vector<Work> work;               ///< of the compute stream; empty unless transfers slow compute
  std::vector<bool> waits_for_compute;  ///< [wait] only compute records it; empty as well
  FusedRuns fused_runs;
  Lockstep lockstep;
  std::vector<LockstepRun> lockstep_runs;
  std::vector<CompiledTemplate> templates;
  std::vector<CompiledProgram> programs;
  std::vector<std::int32_t> program_of;  ///< [rank] index into `programs`
  std::vector<bool> fuses;               ///< [rank] its operations are fused

  std::int32_t first_stream_op(std::int32_t template_index, std::size_t stream) const {
    return first_stream_ops[static_cast<std::size_t>(template_index) * (streams + 1) + stream];
  }
  std::span<const EventRef> waits_of(const StreamOp& op) const {
    return {waits.data() + op.first_wait, static_cast<std::size_t>(op.wait_count)};
  }
  std::span<const std::int32_t> members_of(const StreamOp& op) const {
    return {members.data() + op.first_member, static_cast<std::size_t>(op.member_count)};
  }
};

/// `streams`: the streams whose operations are fused into runs of the compute stream; by default none. `keep_work`:
/// transfers slow compute. `lockstep`: groups of ranks that may run in lockstep; then operations are fused only on ranks that
/// are alone in their group.
CompiledGraph compile(const StepGraph& graph, const LocalStreams& streams = {}, bool keep_work = false,
                      Lockstep lockstep = {});

/// Appends the durations of the compute StreamOps of an item of `rank`, which fuses nothing. Entries of transfers are 0.
void append_runs(const StepGraph& graph, const CompiledGraph& compiled, const CompiledItem& item, const Rank& rank,
                 std::vector<RunDuration>& runs);

}  // namespace tracecast::engine
