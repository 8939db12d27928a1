#include "sim/engine/gpu_sharing.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace tracecast {
namespace {

__extension__ using SignedWide = __int128;

constexpr std::int64_t kOne = std::int64_t{1} << 20;  ///< fixed-point unit of lost speed

bool compute_bound(OperatorKind kind) {
  return kind == OperatorKind::gemm || kind == OperatorKind::grouped_gemm || kind == OperatorKind::attention ||
         kind == OperatorKind::scores;
}

/// Summed over all executions of one operator of a template.
struct SpeedLoss {
  SignedWide lost = 0;   ///< ps x kOne x ranks
  SignedWide total = 0;  ///< time of the executions, in the same unit
};

class SpeedLosses {
 public:
  SpeedLosses(const StepGraph& graph, const Profile& gpu) : graph_(graph), gpu_(gpu) {
    for (const Template& each : graph.templates) of_op_.emplace_back(each.ops.size());
  }

  /// `spans`: all spans of one rank.
  void add(std::span<const Span> spans, const Rank& rank) {
    std::vector<const Span*> compute;
    std::vector<const Span*> transfers;
    for (const Span& span : spans) {
      const Op& op = op_of(span);
      if (op.type == OpType::compute && op.stream == kComputeStream && op.payload >= 0) compute.push_back(&span);
      if (op.type == OpType::collective && span.end > span.start) transfers.push_back(&span);
    }
    const auto earlier = [](const Span* a, const Span* b) { return a->start < b->start; };
    std::sort(compute.begin(), compute.end(), earlier);
    std::sort(transfers.begin(), transfers.end(), earlier);
    std::vector<const Span*> concurrent;  // transfers that have started and may still move
    std::size_t next = 0;
    for (const Span* span : compute) {
      while (next < transfers.size() && transfers[next]->start < span->end) concurrent.push_back(transfers[next++]);
      std::erase_if(concurrent, [&](const Span* transfer) { return transfer->end <= span->start; });
      add(*span, concurrent, rank.multiplicity);
    }
  }

  void apply(StepGraph& graph) const {
    for (std::size_t t = 0; t < of_op_.size(); ++t)
      for (std::size_t o = 0; o < of_op_[t].size(); ++o)
        if (const SpeedLoss& loss = of_op_[t][o]; loss.lost > 0) {
          std::int64_t& duration = graph.templates[t].ops[o].duration.picoseconds;
          const SignedWide unit = std::max<SignedWide>(1, loss.total >> 40);  // keeps the product within 128 bits
          duration = static_cast<std::int64_t>(duration * (loss.total / unit) / ((loss.total - loss.lost) / unit));
        }
  }

 private:
  const Op& op_of(const Span& span) const {
    return graph_.templates[static_cast<std::size_t>(span.template_index)].ops[static_cast<std::size_t>(span.op)];
  }

  /// Cuts the span at the ends of transfers. In each piece, the transfer that takes the most speed counts.
  void add(const Span& span, const std::vector<const Span*>& concurrent, std::int32_t multiplicity) {
    SpeedLoss& loss = of_op_[static_cast<std::size_t>(span.template_index)][static_cast<std::size_t>(span.op)];
    loss.total += static_cast<SignedWide>((span.end - span.start).picoseconds) * kOne * multiplicity;
    std::vector<std::int64_t> cuts{span.start.picoseconds, span.end.picoseconds};
    for (const Span* transfer : concurrent)
      for (const Duration cut : {transfer->start, transfer->end})
        if (cut > span.start && cut < span.end) cuts.push_back(cut.picoseconds);
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      std::int64_t max = 0;
      for (const Span* transfer : concurrent)
        if (transfer->start.picoseconds <= cuts[i] && transfer->end.picoseconds >= cuts[i + 1])
          max = std::max(max, lost(span, *transfer));
      loss.lost += static_cast<SignedWide>(cuts[i + 1] - cuts[i]) * max * multiplicity;
    }
  }

  std::int64_t lost(const Span& span, const Span& transfer) const {
    const OperatorKind kind = graph_.operators[static_cast<std::size_t>(op_of(span).payload)].op.kind;
    const CostedCollective& call = graph_.collectives[static_cast<std::size_t>(op_of(transfer).payload)];
    return std::llround((1 - speed_during(gpu_, kind, call.cost, call.call.size)) * static_cast<double>(kOne));
  }

  const StepGraph& graph_;
  const Profile& gpu_;
  std::vector<std::vector<SpeedLoss>> of_op_;  ///< [template][operation]
};

}  // namespace

double speed_during(const Profile& gpu, OperatorKind kind, const CollectiveCost& cost, Bytes size) {
  constexpr double kMinSpeed = 0.1;
  double taken = 0;
  if (compute_bound(kind)) {
    taken = gpu.sms > 0 ? static_cast<double>(cost.channels) / gpu.sms : 0;
  } else if (gpu.memory_bandwidth > 0 && cost.duration.picoseconds > 0) {
    taken = 2 * static_cast<double>(size.count) / seconds(cost.duration) / gpu.memory_bandwidth;
  }
  return std::max(kMinSpeed, 1 - taken);
}

StepGraph slowed_by_transfers(const StepGraph& base, const Timeline& run, const Profile& gpu) {
  SpeedLosses losses(base, gpu);
  for (std::size_t begin = 0; begin < run.spans.size();) {
    std::size_t end = begin;
    while (end < run.spans.size() && run.spans[end].rank == run.spans[begin].rank) ++end;
    losses.add({run.spans.data() + begin, end - begin}, base.ranks[static_cast<std::size_t>(run.spans[begin].rank)]);
    begin = end;
  }
  StepGraph slowed = base;
  losses.apply(slowed);
  return slowed;
}

}  // namespace tracecast
