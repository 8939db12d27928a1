/// \file
/// Activations on the host between forward and backward (training.offload_activations), of all layers of a chunk or of the
/// first training.offload_layers.
///
/// After the forward of such a layer its activations are copied out while the next layers compute; before its backward they
/// are copied back, one layer ahead. A copy takes size / PCIe rate of one direction; the part that computation does not
/// hide is exposed. At most three layers are on the GPU: the current one and two that are being copied. So the
/// forward of a layer waits for the copy of the layer two before it, and a layer is fetched when the layer two after
/// it is done.
/// Leaves out: ranks that share a PCIe switch; staging buffers on the host.
/// Source: docs/references.md#offloading; Transformer Engine's CPU offloading uses the same order
#pragma once

#include "sim/graph/data_parallel.hpp"

namespace tracecast {

/// The copies of one chunk inside one forward (or backward) template.
class ActivationCopies {
 public:
  ActivationCopies(DataParallel& data, TemplateWriter& writer, const Chunk& chunk, bool backward);
  /// Around the compute of the stage's layer number `position`, first to last forward, last to first backward.
  void before(int position);
  void after(int position);

 private:
  EventRef event(const char* purpose, int position) const;
  Bytes size(int position) const;
  void copy_out(int position);
  /// So that copies of one forward do not queue behind those of the next.
  void wait_at_end(int last);
  void fetch(int position, EventRef when);
  bool is_offloaded(int position) const { return position >= 0 && position < offloaded_; }

  DataParallel& data_;
  TemplateWriter& writer_;
  const Chunk& chunk_;
  const bool backward_;
  const int offloaded_;  ///< of the chunk's layers, the first
};

}  // namespace tracecast
