/// \file
/// Activations on the host between forward and backward (training.offload_activations), of all layers of a chunk or of the
/// first training.offload_layers.
///
/// After the forward of such a layer its activations are copied out while the next layers compute; before its backward they
/// are copied back. A copy takes size / PCIe rate of one direction; the part that computation does not hide is exposed.
///
/// All layers of the chunk: at most three are on the GPU, the current one and two that are being copied. So the forward of
/// a layer waits for the copy of the layer two before it, and a layer is fetched when the layer two after it is done.
///
/// The first n of L layers: the copies are spread over all layers. That of layer i is over when layer
///
///   end(i) = L/n (i+1) - 1 + min(i+1, L mod n)          L/n rounded down
///
/// has run, and that of layer i+1 starts then. Backward, layer i is fetched when the backward of end(i) begins, and has come
/// when that of end(i-1) begins. So L-n+1 layers are on the GPU while the last one runs, and L-n when the loss runs.
///
/// On boards whose GPUs have PCIe alone, the gathers and reductions of FSDP's layers cross the same port: a copy takes the time of its
/// bytes and of those of the collectives of its layer in the same direction, as if both ran all the time.
///
/// Leaves out: ranks that share a PCIe switch; other collectives on such a port, and those of NICs; staging buffers on the host.
/// Source: docs/references.md#offloading
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
  /// What the collectives of that layer move over the same port.
  Bytes beside(int position) const;
  void copy_out(int position);
  /// So that copies of one forward do not queue behind those of the next.
  void wait_at_end(int last);
  void fetch(int position, EventRef when);
  bool is_offloaded(int position) const { return position >= 0 && position < offloaded_; }
  bool some_stay() const { return offloaded_ < chunk_.stage.num_layers; }
  /// end(i) of some_stay().
  int end_of_copy(int position) const;
  void after_forward(int position);
  void before_backward(int position);

  DataParallel& data_;
  TemplateWriter& writer_;
  const Chunk& chunk_;
  const bool backward_;
  const int offloaded_;  ///< of the chunk's layers, the first
  int copied_ = 0;       ///< where some stay: layers whose copies out are over, or whose copies back have not begun
};

}  // namespace tracecast
