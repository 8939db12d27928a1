#include "sim/engine/gpu_sharing.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace tracecast {
namespace {

__extension__ using SignedWide = __int128;

constexpr std::int64_t kOne = std::int64_t{1} << 20;  ///< fixed point of losses of speed

bool compute_bound(OperatorKind kind) {
  return kind == OperatorKind::gemm || kind == OperatorKind::grouped_gemm || kind == OperatorKind::attention ||
         kind == OperatorKind::scores;
}

/// All runs of one operator of a template.
struct Loss {
  SignedWide lost = 0;   ///< ps x kOne x ranks
  SignedWide total = 0;  ///< of their time, the same
};

class Losses {
 public:
  Losses(const StepGraph& graph, const Profile& gpu) : graph_(graph), gpu_(gpu) {
    for (const Template& each : graph.templates) of_op_.emplace_back(each.ops.size());
  }

  /// All spans of one rank.
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
    std::vector<const Span*> beside;  // transfers that have begun, and may not have ended
    std::size_t next = 0;
    for (const Span* span : compute) {
      while (next < transfers.size() && transfers[next]->start < span->end) beside.push_back(transfers[next++]);
      std::erase_if(beside, [&](const Span* transfer) { return transfer->end <= span->start; });
      add(*span, beside, rank.multiplicity);
    }
  }

  void apply(StepGraph& graph) const {
    for (std::size_t t = 0; t < of_op_.size(); ++t)
      for (std::size_t o = 0; o < of_op_[t].size(); ++o)
        if (const Loss& loss = of_op_[t][o]; loss.lost > 0) {
          std::int64_t& duration = graph.templates[t].ops[o].duration.picoseconds;
          const SignedWide unit = std::max<SignedWide>(1, loss.total >> 40);  // keeps the product within 128 bits
          duration = static_cast<std::int64_t>(duration * (loss.total / unit) / ((loss.total - loss.lost) / unit));
        }
  }

 private:
  const Op& op_of(const Span& span) const {
    return graph_.templates[static_cast<std::size_t>(span.template_index)].ops[static_cast<std::size_t>(span.op)];
  }

  /// At each moment the transfer that takes most counts; the ends of transfers cut the span.
  void add(const Span& span, const std::vector<const Span*>& beside, std::int32_t multiplicity) {
    Loss& loss = of_op_[static_cast<std::size_t>(span.template_index)][static_cast<std::size_t>(span.op)];
    loss.total += static_cast<SignedWide>((span.end - span.start).picoseconds) * kOne * multiplicity;
    std::vector<std::int64_t> cuts{span.start.picoseconds, span.end.picoseconds};
    for (const Span* transfer : beside)
      for (const Duration cut : {transfer->start, transfer->end})
        if (cut > span.start && cut < span.end) cuts.push_back(cut.picoseconds);
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      std::int64_t most = 0;
      for (const Span* transfer : beside)
        if (transfer->start.picoseconds <= cuts[i] && transfer->end.picoseconds >= cuts[i + 1])
          most = std::max(most, lost(span, *transfer));
      loss.lost += static_cast<SignedWide>(cuts[i + 1] - cuts[i]) * most * multiplicity;
    }
  }

  std::int64_t lost(const Span& span, const Span& transfer) const {
    const OperatorKind kind = graph_.operators[static_cast<std::size_t>(op_of(span).payload)].op.kind;
    const CostedCollective& call = graph_.collectives[static_cast<std::size_t>(op_of(transfer).payload)];
    return std::llround((1 - speed_beside(gpu_, kind, call.cost, call.call.size)) * static_cast<double>(kOne));
  }

  const StepGraph& graph_;
  const Profile& gpu_;
  std::vector<std::vector<Loss>> of_op_;  ///< [template][operation]
};

}  // namespace

double speed_beside(const Profile& gpu, OperatorKind kind, const CollectiveCost& cost, Bytes size) {
  constexpr double kLeast = 0.1;
  double taken = 0;
  if (compute_bound(kind)) {
    taken = gpu.sms > 0 ? static_cast<double>(cost.channels) / gpu.sms : 0;
  } else if (gpu.memory_bandwidth > 0 && cost.duration.picoseconds > 0) {
    taken = 2 * static_cast<double>(size.count) / seconds(cost.duration) / gpu.memory_bandwidth;
  }
  return std::max(kLeast, 1 - taken);
}

StepGraph slowed_by_transfers(const StepGraph& base, const Timeline& run, const Profile& gpu) {
  Losses losses(base, gpu);
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
