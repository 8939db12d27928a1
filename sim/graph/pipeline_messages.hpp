/// \file
/// Activations and their gradients between the stages of a pipeline.
#pragma once

#include "sim/graph/build_context.hpp"

namespace tracecast {

class PipelineMessages {
 public:
  explicit PipelineMessages(BuildContext& context);

  /// Adds the streams of the four ends: shared by all chunks of a looped placement, else separate for each chunk.
  void add_streams();
  /// Chunk `index` of the kind of rank that the context has selected, with its messages.
  Chunk chunk(const RankKinds& kinds, int index);
  /// True if a stage's host waits for each message that it receives, so that it cannot issue ahead while the pipeline
  /// fills. Then the receive is a separate template before the work that needs it. If messages do not overlap with
  /// computation, Megatron-LM calls torch.cuda.synchronize() after each batch of them (p2p_communication.py;
  /// batch_p2p_sync of Megatron-Core).
  bool host_waits() const { return host_waits_; }
  /// The content of that template: the message, and the host waiting for it.
  void await(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message);
  /// Makes the compute stream wait for the message; nothing if `message` is -1.
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
