#include "sim/graph/pipeline_messages.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/plan/precision.hpp"

namespace tracecast {
namespace {

bool host_waits_for_messages(const Parallel& parallel) {
  const ScheduleVariant* schedule = find_schedule(parallel.pp_schedule);
  return !overlaps_messages(parallel) && schedule != nullptr && schedule->host_waits_for_messages;
}

}  // namespace

PipelineMessages::PipelineMessages(BuildContext& context)
    : context_(context),
      looped_(context.stage_placement.looped()),
      host_waits_(host_waits_for_messages(context.plan.parallel)) {}

void PipelineMessages::add_streams() {
  for (int chunk = 0; chunk < (looped_ ? 1 : context_.schedule.chunks); ++chunk)
    for (const char* name : {"pp recv forward", "pp send forward", "pp recv backward", "pp send backward"})
      context_.graph.streams.push_back({looped_ ? name : fmt::format("{} {}", name, chunk)});
}

StreamId PipelineMessages::stream(int chunk, ChannelSide side) const {
  const int first = static_cast<int>(Lane::pipeline) + (looped_ ? 0 : 4 * chunk);
  return static_cast<StreamId>(first + static_cast<int>(side));
}

EventRef PipelineMessages::event(int chunk, ChannelSide side) const {
  return {channel(chunk, side) * context_.schedule.microbatches, 1};
}

Bytes PipelineMessages::boundary_tensor() const {
  return Bytes{context_.plan.tokens() * context_.model.hidden_size * wide_size(context_.plan.training)};
}

/// Activations of one micro-batch at a stage boundary: [b, s/C, h], divided over the tensor ranks when they hold
/// different parts of the sequence.
Bytes PipelineMessages::boundary_bytes() const {
  const Parallel& parallel = context_.plan.parallel;
  const bool divided = parallel.sequence_parallel || parallel.scatter_gather_p2p;
  return divided ? boundary_tensor() / parallel.tp : boundary_tensor();
}

std::int32_t PipelineMessages::message(int chunk, ChannelSide side, const GroupPlacement& placement) {
  Message candidate{channel(chunk, side), boundary_bytes(), false, {}};
  candidate.cost = context_.network.cost({Collective::send_recv, candidate.size}, placement);
  std::vector<Message>& messages = context_.graph.messages;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& known = messages[i];
    if (known.channel == candidate.channel && known.size == candidate.size &&
        known.cost.duration == candidate.cost.duration)
      return static_cast<std::int32_t>(i);
  }
  messages.push_back(candidate);
  return static_cast<std::int32_t>(messages.size()) - 1;
}

Chunk PipelineMessages::chunk(const RankKinds& kinds, int index) {
  const RankKind& kind = context_.kind();
  const int pp = kind.pp;
  const std::vector<int>& neighbours = kinds.neighbours(pp);
  const auto link = [&](int other) {
    const auto at = std::lower_bound(neighbours.begin(), neighbours.end(), other) - neighbours.begin();
    return context_.placements.of(kind.links[static_cast<std::size_t>(at)]);
  };
  Chunk chunk;
  chunk.index = index;
  chunk.stage = context_.plan.stages[static_cast<std::size_t>(context_.stage_placement.stage(pp, index))];
  const StageSlot before = context_.stage_placement.neighbour(pp, index, -1);
  const StageSlot after = context_.stage_placement.neighbour(pp, index, +1);
  if (before.rank >= 0 && before.rank != pp) {
    chunk.receive_forward = message(index, ChannelSide::receive_forward, link(before.rank));
    chunk.send_backward = message(index, ChannelSide::send_backward, link(before.rank));
  }
  if (after.rank >= 0 && after.rank != pp) {
    chunk.send_forward = message(index, ChannelSide::send_forward, link(after.rank));
    chunk.receive_backward = message(index, ChannelSide::receive_backward, link(after.rank));
  }
  chunk.number = context_.number_of(chunk);
  return chunk;
}

EventRef PipelineMessages::post(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message) {
  const EventRef arrived = event(chunk, side);
  writer.transfer(OpType::receive, stream(chunk, side), message, {}, arrived);
  return arrived;
}

void PipelineMessages::await(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message) {
  writer.host_sync(post(writer, chunk, side, message));
}

void PipelineMessages::receive(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message) {
  if (message < 0) return;
  writer.wait(host_waits_ ? event(chunk, side) : post(writer, chunk, side, message));
  const Parallel& parallel = context_.plan.parallel;
  if (parallel.sequence_parallel || !parallel.scatter_gather_p2p || parallel.tp == 1) return;
  const CollectiveCall gather{Collective::all_gather, boundary_tensor()};
  writer.wait(writer.collective({Lane::tensor, Traffic::tensor_parallel, Slot::tensor, gather}, {writer.mark()}));
}

void PipelineMessages::send(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message) {
  if (message < 0) return;
  const EventRef computed = event(chunk, side);
  writer.mark_as(computed);
  const bool blocking = !overlaps_messages(context_.plan.parallel);
  const EventRef sent = blocking ? writer.new_local_event() : EventRef{};
  writer.transfer(OpType::send, stream(chunk, side), message, {computed}, sent);
  if (blocking) writer.wait(sent);
}

}  // namespace tracecast
