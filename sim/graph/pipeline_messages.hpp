/// \file
/// Activations and their gradients between the stages of a pipeline.
#pragma once

#include "sim/graph/build_context.hpp"

namespace tracecast {

class PipelineMessages {
 public:
  explicit PipelineMessages(BuildContext& context);

  /// The streams of the four ends: shared by all chunks of a looped placement, else of every chunk apart.
  void add_streams();
  /// Chunk `index` of the kind of rank that the context has selected, with the messages to its neighbours.
  Chunk chunk(const RankKinds& kinds, int index);
  /// Does a stage's host go on only when what it receives is there, so that it cannot issue ahead while the pipeline fills?
  /// Then the receive is a template of its own, before the work that needs it. Where messages do not overlap, Megatron-LM calls
  /// torch.cuda.synchronize() after each batch of them (p2p_communication.py; batch_p2p_sync of Megatron-Core).
  bool host_waits() const { return host_waits_; }
  /// That template's content: the message, and a host that goes on when it is there.
  void await(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message);
  /// What follows on the compute stream waits for the message; nothing when `message` is -1.
  void receive(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message);
  void send(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message);

 private:
  StreamId stream(int chunk, ChannelSide side) const;
  /// Rank events of a chunk's four pipeline ends, one per micro-batch.
  EventRef event(int chunk, ChannelSide side) const;
  EventRef post(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message);
  Bytes boundary_tensor() const;
  Bytes boundary_bytes() const;
  std::int32_t message(int chunk, ChannelSide side, const GroupPlacement& placement);

  BuildContext& context_;
  const bool looped_;
  const bool host_waits_;
};

}  // namespace tracecast
