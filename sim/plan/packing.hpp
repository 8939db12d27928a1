/// \file
/// Packed batches: sequences made of documents of different lengths, for a number of steps.
///
/// Lengths are drawn from the law, or from the histogram with its weights, independently; Philox makes them the same on every
/// machine. Documents longer than a sequence are cut: `concatenate` continues them in the next sequence, which is a document of
/// its own there; the other kinds drop the rest. first_fit and best_fit pack `buffer` documents at a time, and the sequences of
/// a buffer are shuffled. What a sequence has no document for is padding.
/// With context parallelism every document is divided by itself (Transformer Engine's THD format): its length is rounded up to a
/// multiple of 2 cp.
/// Micro-batch m of data-parallel rank r has the sequences (m D + r) b to (m D + r + 1) b - 1 of the step (Megatron-LM's sampler).
/// Leaves out   order and correlation of lengths in a data set, batches sorted or balanced by length.
/// Source       docs/references.md#packing
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "sim/plan/documents.hpp"

namespace tracecast {

/// Sequences of the steps that are simulated.
struct PackedSteps {
  std::int64_t sequence = 0;  ///< tokens of one
  int steps = 0;
  int sequences = 0;                             ///< of one step
  std::vector<std::vector<std::int32_t>> packs;  ///< [step x sequences + sequence] lengths of its documents
  std::map<std::int32_t, std::int64_t> lengths;  ///< [length] documents of all steps
  std::int64_t useful = 0;                       ///< tokens of documents, all steps
  std::int64_t dropped = 0;                      ///< tokens of documents that did not fit

  const std::vector<std::int32_t>& pack(int step, int index) const {
    return packs[static_cast<std::size_t>(step) * static_cast<std::size_t>(sequences) +
                 static_cast<std::size_t>(index)];
  }
  std::int64_t tokens() const { return sequence * sequences * steps; }
  std::int64_t documents() const;
  /// False if all sequences of all steps have the same lengths.
  bool varies = false;
};

/// `multiple`: lengths are rounded up to one.   Requires 1 <= shortest <= longest, a law with its sizes, sequence >= multiple
PackedSteps pack_steps(const Documents& documents, std::int64_t sequence, std::int64_t sequences,
                       std::int64_t multiple);

}  // namespace tracecast
