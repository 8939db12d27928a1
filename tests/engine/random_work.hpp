/// \file
/// Random step graphs for tests that compare two ways to run the same work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "sim/graph/step_graph.hpp"

namespace tracecast::test {

/// Random work on two or three ranks. Each has two streams whose collectives concern the rank alone, and two on which all
/// ranks meet. The same kinds of operations on each rank, with other durations.
class RandomWork {
 public:
  enum : StreamId { kTensor = 1, kContext, kData, kExpert };
  struct Options {
    /// Pairs of ranks run one program each, and the first of these streams has collectives of the pair. Sometimes only of the first pair.
    bool pairs = false;
    /// In every second graph all collectives follow a compute operation directly and wait for it only, as in models; else half of them.
    bool tidy = false;
    bool slow_ranks = true;  ///< in a third of all graphs
  };
  explicit RandomWork(unsigned seed, Options options = {false, false, true})
      : random_(seed), pairs_(options.pairs), host_(one_in(2) ? 1 : 1 + pick(30)) {
    if (options.tidy) tidy_ = one_in(2);
    const bool pairs = pairs_;
    const std::int32_t ranks = pairs ? 4 : 2 + pick(2);
    for (const char* name : {"compute", "tp", "cp", "dp", "ep"}) graph_.streams.push_back({name});
    graph_.microbatches = 1;
    for (const OperatorKind kind : {OperatorKind::gemm, OperatorKind::norm}) {
      graph_.operators.emplace_back();
      graph_.operators.back().op.kind = kind;
      graph_.operators.back().cost.beside_collectives = 0.25 * pick(5);
    }
    for (std::int32_t slot = 0; slot < 4; ++slot)
      for (int each = 0; each < kCalls; ++each) graph_.collectives.push_back(call(slot));
    graph_.programs.resize(static_cast<std::size_t>(pairs ? ranks / 2 : ranks));
    graph_.communicators.resize(static_cast<std::size_t>(2 * ranks + 2));
    const bool slow = options.slow_ranks && one_in(3);
    const std::int32_t together = !pairs ? 0 : one_in(3) ? 2 : 4;  // ranks that meet the other one of their pair
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      Rank each;
      each.representative = rank;
      each.program = pairs ? rank / 2 : rank;
      each.communicators = {2 * (rank < together ? rank / 2 * 2 : rank), 2 * rank + 1, 2 * ranks, 2 * ranks + 1};
      if (slow && one_in(2)) each.slowdown = kNoSlowdown + pick(kNoSlowdown);
      for (const std::int32_t communicator : each.communicators)
        graph_.communicators[static_cast<std::size_t>(communicator)].members.push_back(rank);
      graph_.ranks.push_back(each);
    }
    for (int items = 1 + pick(5); items > 0; --items) add_item();
  }

  const StepGraph& graph() const { return graph_; }

 private:
  static constexpr int kCalls = 3;

  static EventRef local(std::int32_t n) { return {n, EventRef::kLocal}; }

  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  bool one_in(int n) { return pick(n) == 0; }

  CostedCollective call(std::int32_t slot) {
    CostedCollective collective;
    collective.slot = slot;
    collective.traffic = slot < 2 ? Traffic::tensor_parallel : Traffic::gradients;
    collective.cost.channels = pick(120);
    collective.cost.duration = Duration{1000};
    collective.call.size = {pick(600)};  // of 1000 bytes that the memory moves in this time
    return collective;
  }

  void add_item() {
    Template work;
    work.phase = one_in(3) ? Phase::optimizer : Phase::forward;
    locals_ = 0;
    for (int ops = 2 + pick(20); ops > 0; --ops) add_operation(work.ops);
    if (one_in(4) && locals_ > 0) {
      work.ops.emplace_back();
      work.ops.back().type = OpType::host_sync;
      work.ops.back().waits = {local(pick(locals_))};
    }
    for (auto& program : graph_.programs) {
      program.push_back({static_cast<std::int32_t>(graph_.templates.size()), 0});
      for (Op& op : work.ops) {
        if (op.type == OpType::compute) op.duration = Duration{pick(40)};
        op.host = Duration{pick(host_)};
      }
      graph_.templates.push_back(work);
    }
  }

  void add_operation(std::vector<Op>& ops) {
    Op op = operation();
    if (op.type == OpType::collective && (pairs_ || tidy_ || one_in(2))) {
      ops.emplace_back();
      ops.back().payload = pick(2);
      ops.back().records = local(locals_++);
      op.waits = {ops.back().records};
    }
    ops.push_back(op);
    graph_.local_events = std::max(graph_.local_events, locals_);
  }

  Op operation() {
    Op op;
    op.payload = pick(3) - 1;
    const bool within_pair = pairs_ && !one_in(8);
    if (const int kind = pick(within_pair ? 7 : 9); kind >= 4) {
      op.type = OpType::collective;
      op.stream = static_cast<StreamId>((kind >= 7 ? kData : kTensor) + (within_pair ? 0 : pick(2)));
      op.payload = (op.stream - kTensor) * kCalls + pick(kCalls);
      op.duration = Duration{pick(60)};
    }
    for (int waits = op.type == OpType::compute ? pick(3) : 1 + pick(2); waits > 0 && locals_ > 0; --waits)
      op.waits.push_back(local(std::max(0, locals_ - 1 - pick(2))));
    const bool may_be_local = op.stream == kTensor || op.stream == kContext;
    if (!may_be_local && one_in(6) && graph_.rank_events > 0) op.waits.push_back({pick(graph_.rank_events), 0});
    if (!may_be_local && one_in(6))
      op.records = {graph_.rank_events++, 0};
    else if (!one_in(4))
      op.records = local(locals_++);
    return op;
  }

  std::mt19937 random_;
  bool pairs_;
  bool tidy_ = false;
  int host_;  ///< an operation takes the host less than this
  std::int32_t locals_ = 0;
  StepGraph graph_;
};

}  // namespace tracecast::test
