/// \file
/// The last two templates of a rank's step: from the last backward until the host knows the gradient norm, and the
/// optimizer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/graph/data_parallel.hpp"

namespace tracecast {

class EndOfStep {
 public:
  explicit EndOfStep(DataParallel& data) : data_(data), context_(data.context()) {}

  /// Reductions of `unreduced` chunks, gradients of embeddings and of what tensor ranks share, overflow check, gradient norm.
  /// `reduced`: events of the reductions in flight.
  std::int32_t reduce_template(int pp, const std::vector<Chunk>& chunks, const std::vector<EventRef>& reduced,
                               const std::vector<Chunk>& unreduced);
  std::int32_t optimizer_template(int pp, const std::vector<Chunk>& chunks);

  Bucket parameters_of(const std::vector<Chunk>& chunks) const;

 private:
  Operator quantise_weights(std::int64_t parameters) const;
  std::int64_t update_bytes() const;
  void reduce_mirror(TemplateWriter& writer, const std::vector<Chunk>& chunks);
  void reduce_chunk(TemplateWriter& writer, const Chunk& chunk);
  void reduce_embedding(TemplateWriter& writer, const std::vector<Chunk>& chunks);
  std::int64_t replicated_parameters(int layer);
  void reduce_replicated(TemplateWriter& writer, const std::vector<Chunk>& chunks);
  void all_reduce_scalar(TemplateWriter& writer, Bytes size);
  void layer_norms(TemplateWriter& writer, const std::vector<Chunk>& chunks);
  void update(TemplateWriter& writer, const std::vector<Chunk>& chunks, const Bucket& all);
  void average(TemplateWriter& writer, const Bucket& all);
  std::int64_t copied_parameters(const std::vector<Chunk>& chunks) const;
  void reduce_copies(TemplateWriter& writer, const std::vector<Chunk>& chunks);
  void send_copies(TemplateWriter& writer, const std::vector<Chunk>& chunks);
  void move_experts(TemplateWriter& writer, const std::vector<Chunk>& chunks);
  void exchange_experts(TemplateWriter& writer, Traffic traffic, Bytes size);
  void gradient_norm(TemplateWriter& writer, const std::vector<Chunk>& chunks);

  DataParallel& data_;
  BuildContext& context_;
  std::map<std::string, std::int64_t> replicated_;  ///< parameters, by LayerWork::kind(), as far as asked for
};

}  // namespace tracecast
