/// Activations and their gradients between the stages of a pipeline.
#pragma once

#include "sim/graph/build_context.hpp"

namespace tracecast {

class PipelineMessages {
 public:
  explicit PipelineMessages(BuildContext& context) : context_(context), looped_(context.seats.looped()) {}

  /// The streams of the four ends: shared by all chunks of a looped placement, else of every chunk apart.
  void add_streams();
  /// Chunk `index` of the kind of rank that the context has selected, with the messages to its neighbours.
  Chunk chunk(const RankKinds& kinds, int index);
  /// What follows on the compute stream waits for the message; nothing when `message` is -1.
  void receive(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message);
  void send(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message);

 private:
  StreamId stream(int chunk, ChannelSide side) const;
  /// Rank events of a chunk's four pipeline ends, one per micro-batch.
  EventRef event(int chunk, ChannelSide side) const;
  Bytes boundary_tensor() const;
  Bytes boundary_bytes() const;
  std::int32_t message(int chunk, ChannelSide side, const GroupPlacement& placement);

  BuildContext& context_;
  const bool looped_;
};

}  // namespace tracecast
