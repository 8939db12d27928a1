/// \file
/// Activations that wait on the host between forward and backward (training.offload_activations).
///
/// After the forward of a layer its activations are copied out, layer by layer beside the computation; before its
/// backward they are copied back, one layer ahead. A copy takes size / PCIe rate of one direction; what the layers in
/// between do not hide is exposed. At most three layers are on the GPU: the one in work and two on their way. So the
/// forward of a layer waits for the copy of the one two before it, and a layer is fetched when the one two after it is done.
/// Leaves out: ranks that share a PCIe switch; staging buffers on the host.
/// Source: docs/references.md#offloading; Transformer Engine's CPU offloading works in the same order
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
  void fetch(int position, EventRef when);

  DataParallel& data_;
  TemplateWriter& writer_;
  const Chunk& chunk_;
  const bool backward_;
  const bool active_;
};

}  // namespace tracecast
