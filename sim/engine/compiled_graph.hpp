/// A step graph prepared for the engine: every template's operations sorted by stream, and runs of compute operations
/// that nothing interrupts summed into one step.
///
/// Summing is exact. A run of operations k = 1..n on one stream, issued by the host at offsets i_k after the template's
/// beginning H and lasting d_k, ends at
///
///   end = max(ready + sum d,  H + lag),     lag = max over k of (i_k + d_k + ... + d_n)
///
/// since each operation starts at the later of its predecessor's end and its issue.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/step_graph.hpp"

namespace tracecast::engine {

/// One step of a stream: a run of compute operations, or one transfer.
struct Step {
  OpType type = OpType::compute;
  std::int32_t payload = -1;    ///< of a transfer
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

struct CompiledTemplate {
  std::vector<std::int32_t> first_step;  ///< [stream], and one past the end
  std::int64_t host_total = 0;           ///< ps of host time to issue it all
  std::int32_t sync_op = -1;             ///< the host_sync that ends it, if there is one
  std::vector<std::int64_t> issue;       ///< [op] ps after the template's beginning
};

/// The items of a program on which one stream has something to do.
struct StreamProgram {
  std::vector<std::int32_t> items;
};

struct CompiledProgram {
  std::vector<StreamProgram> streams;
  std::vector<std::int64_t> host_base;  ///< [item] ps; only valid up to the first host_sync
  bool has_sync = false;
};

struct CompiledGraph {
  std::vector<Step> steps;
  std::vector<EventRef> waits;
  std::vector<std::int32_t> members;
  std::vector<CompiledTemplate> templates;
  std::vector<CompiledProgram> programs;

  std::span<const EventRef> waits_of(const Step& step) const {
    return {waits.data() + step.first_wait, static_cast<std::size_t>(step.wait_count)};
  }
  std::span<const std::int32_t> members_of(const Step& step) const {
    return {members.data() + step.first_member, static_cast<std::size_t>(step.member_count)};
  }
};

CompiledGraph compile(const StepGraph& graph);

}  // namespace tracecast::engine
