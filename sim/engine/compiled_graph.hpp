/// A step graph prepared for the engine: every template's operations sorted by stream, and runs of compute operations
/// that nothing interrupts summed into one step; with the collectives between them, where these concern one rank alone
/// (segments.hpp).
///
/// Summing is exact. A run of operations k = 1..n on one stream, issued by the host at offsets i_k after the template's
/// beginning H and lasting d_k, ends at
///
///   end = max(ready + sum d,  H + lag),     lag = max over k of (i_k + d_k + ... + d_n)
///
/// since each operation starts at the later of its predecessor's end and its issue. Durations of a slow rank are rounded
/// per operation before they are summed (slowed_runs).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/own_streams.hpp"
#include "sim/engine/segments.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast::engine {

/// One step of a stream: a run of compute operations, or one transfer.
struct Step {
  OpType type = OpType::compute;
  Traffic traffic = Traffic::pipeline;  ///< of a transfer
  bool eager = false;                   ///< of a message
  bool optimizer = false;               ///< of an optimizer template
  /// Of a collective: its slot of Rank::communicators; of a message: its channel.
  std::int32_t where = -1;
  std::int32_t segment = -1;    ///< into Segments::all: not a run, but this
  std::int32_t first_op = 0;    ///< index into Template::ops
  std::int32_t first_wait = 0;  ///< into CompiledGraph::waits
  std::int32_t wait_count = 0;
  std::int32_t first_member = 0;  ///< into CompiledGraph::members: the operations of the run
  std::int32_t member_count = 0;
  EventRef records;
  std::int64_t total = 0;  ///< ps
  std::int64_t issue = 0;  ///< ps after the template's beginning on the host, of the first operation
  std::int64_t lag = 0;    ///< ps after it: the earliest end that the host allows
};

/// What one run of compute operations takes on a slow rank; total and lag as in Step.
struct Run {
  std::int64_t total = 0;
  std::int64_t lag = 0;
};

struct CompiledTemplate {
  std::int64_t host_total = 0;      ///< ps of host time to issue it all
  std::int32_t sync_op = -1;        ///< the host_sync that ends it, if there is one
  std::vector<std::int64_t> issue;  ///< [op] ps after the template's beginning
};

/// One item of a program. The host issues a program in segments: the items up to a host_sync, those up to the next one …
struct CompiledItem {
  std::int32_t template_index = 0;
  std::int32_t microbatch = 0;
  std::int32_t segment = 0;
  std::int32_t first_run = 0;    ///< of the template's compute stream, in the table of slowed_runs
  std::int64_t host_offset = 0;  ///< ps from the segment's beginning until the host begins this item
};

struct CompiledProgram {
  std::vector<CompiledItem> items;
  std::vector<std::vector<std::int32_t>> streams;  ///< [stream] the items on which it has something to do
  std::vector<std::int32_t> syncs;                 ///< the items that end with a host_sync
  std::vector<std::int32_t> templates;             ///< those used, each once, by first use
  std::int32_t runs = 0;                           ///< entries of the table of slowed_runs
};

struct CompiledGraph {
  std::size_t streams = 0;
  std::vector<Step> steps;
  std::vector<std::int32_t> first_steps;  ///< [template x (streams + 1) + stream]
  std::vector<EventRef> waits;
  std::vector<std::int32_t> members;
  Segments segments;
  std::vector<CompiledTemplate> templates;
  std::vector<CompiledProgram> programs;

  std::int32_t first_step(std::int32_t template_index, std::size_t stream) const {
    return first_steps[static_cast<std::size_t>(template_index) * (streams + 1) + stream];
  }
  std::span<const EventRef> waits_of(const Step& step) const {
    return {waits.data() + step.first_wait, static_cast<std::size_t>(step.wait_count)};
  }
  std::span<const std::int32_t> members_of(const Step& step) const {
    return {members.data() + step.first_member, static_cast<std::size_t>(step.member_count)};
  }
};

/// `streams`: which streams the compute stream runs in passing; by default none, and no segments.
CompiledGraph compile(const StepGraph& graph, const OwnStreams& streams = {});

/// The compute stream's steps of every template that `program` uses, for a rank of this slowness; an item's begin at
/// CompiledItem::first_run. Entries of steps that do not compute are 0.
std::vector<Run> slowed_runs(const StepGraph& graph, const CompiledGraph& compiled, const CompiledProgram& program,
                             std::int32_t slowness);

}  // namespace tracecast::engine
