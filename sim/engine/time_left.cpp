#include "sim/engine/time_left.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace tracecast::engine {
namespace {

/// A message that computation of an item precedes.
struct Sent {
  std::int32_t channel = 0;
  std::int64_t after = 0;  ///< ps of computation before it
};

/// What a compiled template does.
struct TemplateTimes {
  std::int64_t compute = 0;            ///< ps
  std::vector<Sent> sent;              ///< messages that wait for its computation
  std::vector<std::int32_t> received;  ///< channels of messages that all its computation waits for, and all later items
};

class TemplateReader {
 public:
  TemplateReader(const StepGraph& graph, const CompiledGraph& compiled) : compiled_(compiled) {
    sources_.resize(compiled.templates.size());
    for (const CompiledProgram& program : compiled.programs)
      for (const CompiledItem& item : program.items)
        sources_[static_cast<std::size_t>(item.compiled_template)] =
            &graph.templates[static_cast<std::size_t>(item.template_index)];
  }

  TemplateTimes read(std::int32_t index) const {
    TemplateTimes times;
    const std::span<const StreamOp> compute = ops_of(index, kComputeStream);
    for (const StreamOp& op : compute) times.compute += duration_of(op);
    for (std::size_t stream = kComputeStream + 1; stream < compiled_.streams; ++stream)
      for (const StreamOp& op : ops_of(index, stream)) {
        if (op.type == OpType::send)
          if (const std::optional<std::int64_t> after = computed_before(op, compute))
            times.sent.push_back({op.slot_or_channel, *after});
        if (op.type == OpType::receive && holds_all(op, index, compute)) times.received.push_back(op.slot_or_channel);
      }
    return times;
  }

 private:
  std::span<const StreamOp> ops_of(std::int32_t index, std::size_t stream) const {
    const auto first = static_cast<std::size_t>(compiled_.first_stream_op(index, stream));
    const auto last = static_cast<std::size_t>(compiled_.first_stream_op(index, stream + 1));
    return std::span(compiled_.stream_ops).subspan(first, last - first);
  }

  /// No transfer makes a fused run shorter.
  std::int64_t duration_of(const StreamOp& op) const {
    if (op.type != OpType::compute) return 0;
    return op.fused_run >= 0 ? compiled_.fused_runs.times_of(op.fused_run).length.total : op.total;
  }

  /// Computation before the last event that the message waits for; nothing if it waits for none of the template's computation.
  std::optional<std::int64_t> computed_before(const StreamOp& send, std::span<const StreamOp> compute) const {
    std::optional<std::int64_t> latest;
    const auto see = [&](EventRef event, std::int64_t end) {
      const std::span<const EventRef> waits = compiled_.waits_of(send);
      if (std::find(waits.begin(), waits.end(), event) != waits.end()) latest = std::max(latest.value_or(0), end);
    };
    std::int64_t before = 0;
    for (const StreamOp& op : compute) {
      if (op.fused_run >= 0)
        for (const RecordedEvent& each : compiled_.fused_runs.times_of(op.fused_run).records)
          see(each.event, before + each.times.end);
      before += duration_of(op);
      if (op.fused_run < 0) see(op.records, before);
    }
    return latest;
  }

  /// True if the first operation on the compute stream waits for the message, or the host does before it issues the next item.
  bool holds_all(const StreamOp& receive, std::int32_t index, std::span<const StreamOp> compute) const {
    if (receive.records.none()) return false;
    const auto contains = [&](std::span<const EventRef> waits) {
      return std::find(waits.begin(), waits.end(), receive.records) != waits.end();
    };
    if (!compute.empty()) return contains(compiled_.waits_of(compute.front()));
    const std::int32_t sync = compiled_.templates[static_cast<std::size_t>(index)].sync_op;
    const Template* const source = sources_[static_cast<std::size_t>(index)];
    return sync >= 0 && contains(source->ops[static_cast<std::size_t>(sync)].waits);
  }

  const CompiledGraph& compiled_;
  std::vector<const Template*> sources_;  ///< [compiled template] null: no program uses it
};

/// Goes through the programs of all ranks from their ends on.
class Sweep {
 public:
  Sweep(const StepGraph& graph, const CompiledGraph& compiled) : graph_(graph), compiled_(compiled) {
    const TemplateReader reader(graph, compiled);
    for (std::size_t i = 0; i < compiled.templates.size(); ++i)
      templates_.push_back(reader.read(static_cast<std::int32_t>(i)));
    for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      left_.emplace_back(items_of(rank).size() + 1);
      at_.push_back(items_of(rank).size());
      find_receivers(rank);
    }
  }

  TimeLeft run() {
    while (advance(false)) {
    }
    advance(true);
    return std::move(left_);
  }

 private:
  const std::vector<CompiledItem>& items_of(std::size_t rank) const {
    return compiled_.programs[static_cast<std::size_t>(compiled_.program_of[rank])].items;
  }
  const TemplateTimes& times_of(const CompiledItem& item) const {
    return templates_[static_cast<std::size_t>(item.compiled_template)];
  }
  bool is_faster(std::size_t rank) const { return graph_.ranks[rank].slowdown < kNoSlowdown; }

  void find_receivers(std::size_t rank) {
    std::vector<std::int32_t>& own = receiver_.emplace_back(
        graph_.ranks[rank].channels.size() * static_cast<std::size_t>(graph_.microbatches), kNone);
    for (std::size_t item = 0; item < items_of(rank).size(); ++item)
      for (const std::int32_t channel : times_of(items_of(rank)[item]).received)
        own[slot(channel, items_of(rank)[item].microbatch)] = static_cast<std::int32_t>(item);
  }
  std::size_t slot(std::int32_t channel, std::int32_t microbatch) const {
    return static_cast<std::size_t>(channel * graph_.microbatches + microbatch);
  }

  /// Every rank as far as the times of its receivers are known; with `rest` as if the others were 0. False: none got further.
  bool advance(bool rest) {
    bool any = false;
    for (std::size_t rank = 0; rank < at_.size(); ++rank)
      while (at_[rank] > 0) {
        const std::optional<std::int64_t> time = left_from(rank, at_[rank] - 1, rest);
        if (!time) break;
        left_[rank][--at_[rank]] = *time;
        any = true;
      }
    return any;
  }

  std::optional<std::int64_t> left_from(std::size_t rank, std::size_t index, bool rest) const {
    const CompiledItem& item = items_of(rank)[index];
    const TemplateTimes& times = times_of(item);
    const bool counts = !is_faster(rank);
    std::int64_t left = (counts ? times.compute : 0) + left_[rank][index + 1];
    for (const Sent& each : times.sent) {
      const ChannelEnd to = graph_.ranks[rank].channels[static_cast<std::size_t>(each.channel)];
      const auto other = static_cast<std::size_t>(to.rank);
      const std::int32_t receiver = receiver_[other][slot(to.channel, item.microbatch)];
      if (receiver == kNone) continue;
      const auto received = static_cast<std::size_t>(receiver);
      if (received >= at_[other])
        left = std::max(left, (counts ? each.after : 0) + left_[other][received]);
      else if (!rest)
        return std::nullopt;
    }
    return left;
  }

  static constexpr std::int32_t kNone = -1;
  const StepGraph& graph_;
  const CompiledGraph& compiled_;
  std::vector<TemplateTimes> templates_;             ///< [compiled template]
  std::vector<std::vector<std::int32_t>> receiver_;  ///< [rank][slot] the item that waits for the message
  std::vector<std::size_t> at_;                      ///< [rank] the items from here on are known
  TimeLeft left_;
};

}  // namespace

TimeLeft time_left(const StepGraph& graph, const CompiledGraph& compiled) { return Sweep(graph, compiled).run(); }

}  // namespace tracecast::engine
