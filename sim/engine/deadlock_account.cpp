#include "sim/engine/deadlock_account.hpp"

#include <string>
#include <utility>

#include "sim/engine/deadlock.hpp"

namespace tracecast::engine {
namespace {

class Account {
 public:
  explicit Account(State& state) : state_(state), lanes_(static_cast<std::int32_t>(state.stream_count)) {}

  std::vector<Wait> waits() {
    const auto streams = static_cast<std::int32_t>(state_.streams.size());
    std::vector<std::int32_t> index(state_.streams.size(), kNobody);
    std::vector<std::int32_t> waiting;
    for (std::int32_t stream = 0; stream < streams; ++stream) {
      if (step_at(stream) == nullptr) continue;
      index[static_cast<std::size_t>(stream)] = static_cast<std::int32_t>(waiting.size());
      waiting.push_back(stream);
    }
    std::vector<Wait> result;
    for (const std::int32_t stream : waiting) {
      Wait wait = explain(stream);
      std::erase_if(wait.on, [&](std::int32_t other) {
        return other == kNobody || index[static_cast<std::size_t>(other)] == kNobody;
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

  /// Null when it has finished, or waits for the host before the first step of an item.
  const Step* step_at(std::int32_t stream) const {
    const StreamState& s = stream_state(stream);
    if (state_.finished(s) || s.step == 0) return nullptr;
    return &state_.compiled.steps[static_cast<std::size_t>(s.step - 1)];
  }

  Wait explain(std::int32_t stream) {
    const Place at = state_.place_of(stream);
    const Step& step = *step_at(stream);
    const std::int32_t own = at.state->rank;
    Wait wait{number(own) + " (" + lane_name(stream) + ", " + state_.source(at).name + ", micro-batch " +
                  std::to_string(at.what->microbatch) + ")",
              "",
              {}};
    for (const EventRef ref : state_.compiled.waits_of(step)) {
      if (State::recorded(at, ref, state_.event(at, ref))) continue;
      const std::int32_t recorder = recorder_of(at, ref);
      wait.what = recorder == kNobody ? "waits for an event that nobody records" : "waits for " + lane_name(recorder);
      wait.on.push_back(recorder);
      return wait;
    }
    if (step.type == OpType::collective) return explain_collective(std::move(wait), at, step);
    const ChannelEnd end = rank(own).channels[static_cast<std::size_t>(step.where)];
    if (end.rank < 0) {
      wait.what = "receives from nobody";
      return wait;
    }
    const bool sends = step.type == OpType::send;
    wait.what = "waits for " + number(end.rank) + (sends ? " to receive" : " to send");
    wait.on.push_back(partner_of(end, at.what->microbatch, sends ? OpType::receive : OpType::send));
    return wait;
  }

  Wait explain_collective(Wait wait, const Place& at, const Step& step) {
    const std::int32_t index = at.rank->communicators[step.where];
    const Communicator& group = state_.graph.communicators[static_cast<std::size_t>(index)];
    const Op& op = state_.source(at).ops[static_cast<std::size_t>(step.first_op)];
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
    for (std::int32_t link = state_.meetings[static_cast<std::size_t>(communicator)].waiters.first; link != 0;
         link = stream_state(link - 1).next)
      if (link - 1 == stream) return true;
    return false;
  }

  /// The first stream of a rank with an operation yet to run of which `matches(item, microbatch, op)` is true.
  template <class Matches>
  std::int32_t find_stream(std::int32_t rank_index, Matches matches) const {
    for (std::int32_t stream = rank_index * lanes_; stream < (rank_index + 1) * lanes_; ++stream) {
      const StreamState& s = stream_state(stream);
      const CompiledProgram& program = *state_.ranks[static_cast<std::size_t>(rank_index)].program;
      const std::vector<std::int32_t>& own = state_.items(s);
      for (auto position = static_cast<std::size_t>(s.position); position < own.size(); ++position) {
        const CompiledItem& what = program.items[static_cast<std::size_t>(own[position])];
        for (const Op& op : state_.graph.templates[static_cast<std::size_t>(what.template_index)].ops)
          if (op.stream == s.lane && matches(own[position], what.microbatch, op)) return stream;
      }
    }
    return kNobody;
  }

  /// The stream of the same rank that has yet to record `ref`.
  std::int32_t recorder_of(const Place& at, EventRef ref) const {
    return find_stream(at.state->rank, [&](std::int32_t item, std::int32_t microbatch, const Op& op) {
      if (op.records.none() || op.records.local() != ref.local()) return false;
      if (ref.local()) return item == at.item && op.records.base == ref.base;
      return op.records.base + op.records.stride * microbatch == ref.base + ref.stride * at.what->microbatch;
    });
  }

  /// The stream at the other end of a channel that has yet to handle the message of this micro-batch.
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

Error account_of_deadlock(State& state) { return describe_deadlock(Account(state).waits()); }

}  // namespace tracecast::engine
