#include "sim/engine/deadlock_report.hpp"

#include <string>
#include <utility>

#include "sim/engine/deadlock.hpp"

namespace tracecast::engine {
namespace {

class WaitExplainer {
 public:
  explicit WaitExplainer(State& state) : state_(state), lanes_(static_cast<std::int32_t>(state.stream_count)) {}

  std::vector<Wait> waits() {
    const auto streams = static_cast<std::int32_t>(state_.streams.size());
    std::vector<std::int32_t> index(state_.streams.size(), kNoStream);
    std::vector<std::int32_t> waiting;
    for (std::int32_t stream = 0; stream < streams; ++stream) {
      if (blocked_op(stream) == nullptr) continue;
      index[static_cast<std::size_t>(stream)] = static_cast<std::int32_t>(waiting.size());
      waiting.push_back(stream);
    }
    std::vector<Wait> result;
    for (const std::int32_t stream : waiting) {
      Wait wait = explain(stream);
      std::erase_if(wait.on, [&](std::int32_t other) {
        return other == kNoStream || index[static_cast<std::size_t>(other)] == kNoStream;
      });
      for (std::int32_t& other : wait.on) other = index[static_cast<std::size_t>(other)];
      result.push_back(std::move(wait));
    }
    return result;
  }

 private:
  const StreamState& stream_state(std::int32_t stream) const {
    return state_.streams[static_cast<std::size_t>(stream)];
  }
  const Rank& rank(std::int32_t index) const { return state_.graph.ranks[static_cast<std::size_t>(index)]; }
  std::string number(std::int32_t index) const { return "rank " + std::to_string(rank(index).representative); }
  const std::string& lane_name(std::int32_t stream) const {
    return state_.graph.streams[static_cast<std::size_t>(stream % lanes_)].name;
  }

  /// Null if the stream has finished, or waits for the host before the first operation of an item.
  const StreamOp* blocked_op(std::int32_t stream) const {
    const StreamState& s = stream_state(stream);
    if (state_.finished(s) || s.next_op == 0) return nullptr;
    return &state_.compiled.stream_ops[static_cast<std::size_t>(s.next_op - 1)];
  }

  Wait explain(std::int32_t stream) {
    const OpContext at = state_.context_of(stream);
    const StreamOp& stream_op = *blocked_op(stream);
    const std::int32_t own = at.state->rank;
    Wait wait{number(own) + " (" + lane_name(stream) + ", " + state_.source(at).name + ", micro-batch " +
                  std::to_string(at.item->microbatch) + ")",
              "",
              {}};
    for (const EventRef ref : state_.compiled.waits_of(stream_op)) {
      if (State::recorded(at, ref, state_.event(at, ref))) continue;
      const std::int32_t recorder = recorder_of(at, ref);
      wait.what =
          recorder == kNoStream ? "waits for an event that is never recorded" : "waits for " + lane_name(recorder);
      wait.on.push_back(recorder);
      return wait;
    }
    if (stream_op.type == OpType::collective) return explain_collective(std::move(wait), at, stream_op);
    const ChannelEnd end = rank(own).channels[static_cast<std::size_t>(stream_op.slot_or_channel)];
    if (end.rank < 0) {
      wait.what = "has no sender";
      return wait;
    }
    const bool sends = stream_op.type == OpType::send;
    wait.what = "waits for " + number(end.rank) + (sends ? " to receive" : " to send");
    wait.on.push_back(partner_of(end, at.item->microbatch, sends ? OpType::receive : OpType::send));
    return wait;
  }

  Wait explain_collective(Wait wait, const OpContext& at, const StreamOp& stream_op) {
    const std::int32_t index = at.rank->communicators[stream_op.slot_or_channel];
    const Communicator& group = state_.graph.communicators[static_cast<std::size_t>(index)];
    const Op& op = state_.source(at).ops[static_cast<std::size_t>(stream_op.first_op)];
    const CostedCollective& call = state_.graph.collectives[static_cast<std::size_t>(op.payload)];
    wait.what = "waits in " + std::string(to_string(call.call.collective)) + " of " + group.name;
    for (const std::int32_t member : group.members) {
      const std::int32_t other = member * lanes_ + at.state->lane;
      if (other == at.stream || joined(other, index)) continue;
      wait.what += " for " + number(member);
      wait.on.push_back(other);
      break;
    }
    return wait;
  }

  bool joined(std::int32_t stream, std::int32_t communicator) const {
    for (std::int32_t link = state_.rendezvous[static_cast<std::size_t>(communicator)].waiters.first; link != 0;
         link = stream_state(link - 1).next)
      if (link - 1 == stream) return true;
    return false;
  }

  /// The first stream of a rank with a remaining operation for which `matches(item, microbatch, op)` is true.
  template <class Matches>
  std::int32_t find_stream(std::int32_t rank_index, Matches matches) const {
    for (std::int32_t stream = rank_index * lanes_; stream < (rank_index + 1) * lanes_; ++stream) {
      const StreamState& s = stream_state(stream);
      const CompiledProgram& program = *state_.ranks[static_cast<std::size_t>(rank_index)].program;
      for (const std::int32_t* index = s.items; *index >= 0; ++index) {
        const CompiledItem& item = program.items[static_cast<std::size_t>(*index)];
        for (const Op& op : state_.graph.templates[static_cast<std::size_t>(item.template_index)].ops)
          if (op.stream == s.lane && matches(*index, item.microbatch, op)) return stream;
      }
    }
    return kNoStream;
  }

  /// The stream of the same rank that will record `ref`.
  std::int32_t recorder_of(const OpContext& at, EventRef ref) const {
    return find_stream(at.state->rank, [&](std::int32_t item, std::int32_t microbatch, const Op& op) {
      if (op.records.none() || op.records.local() != ref.local()) return false;
      if (ref.local()) return item == at.item_index && op.records.base == ref.base;
      return op.records.base + op.records.stride * microbatch == ref.base + ref.stride * at.item->microbatch;
    });
  }

  /// The stream at the other end of a channel whose send or receive of this micro-batch remains.
  std::int32_t partner_of(ChannelEnd end, std::int32_t microbatch, OpType type) const {
    return find_stream(end.rank, [&](std::int32_t, std::int32_t other, const Op& op) {
      return other == microbatch && op.type == type &&
             state_.graph.messages[static_cast<std::size_t>(op.payload)].channel == end.channel;
    });
  }

  State& state_;
  const std::int32_t lanes_;
};

}  // namespace

Error deadlock_report(State& state) { return describe_cycle(WaitExplainer(state).waits()); }

}  // namespace tracecast::engine
