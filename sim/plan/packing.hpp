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
///
/// Dynamic context parallelism has no sequences, but bins (pack_bins): each of the D C data-parallel and context ranks takes S / C
/// tokens of a micro-batch, and a bin spans 1, 2, 4 ... C neighbouring ranks, as few as its longest document needs. The documents of
/// a buffer are packed the longest first, each into the fullest bin with room. The bins of a step are dealt to micro-batches by
/// their size, then by their work, so that ranks have about as much work in each, forth and back over the ranks.
/// Leaves out   order and correlation of lengths in a data set, sequences sorted or balanced by length; bins of more than C ranks,
///              of other sizes, and numbers of micro-batches that depend on the lengths.
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
  int sequences = 0;  ///< of one step
  /// Lengths of documents: [step x sequences + sequence], with dynamic context parallelism [bin].
  std::vector<std::vector<std::int32_t>> packs;
  std::vector<std::int32_t> bins;       ///< [step x batches + batch] the bin, batches as in VaryingWork; empty: static
  std::vector<std::int32_t> bin_ranks;  ///< [bin] that it spans
  std::map<std::int32_t, std::int64_t> lengths;  ///< [length] documents of all steps
  std::int64_t useful = 0;                       ///< tokens of documents, all steps
  std::int64_t dropped = 0;                      ///< tokens of documents that did not fit

  const std::vector<std::int32_t>& pack(int step, int index) const {
    return packs[static_cast<std::size_t>(step) * static_cast<std::size_t>(sequences) +
                 static_cast<std::size_t>(index)];
  }
  std::int64_t tokens() const { return sequence * sequences * steps; }
  std::int64_t documents() const;
  bool dynamic() const { return !bins.empty(); }
  /// Requires dynamic()
  std::int32_t bin(int step, int batch) const {
    return bins[static_cast<std::size_t>(step) * (bins.size() / static_cast<std::size_t>(steps)) +
                static_cast<std::size_t>(batch)];
  }
  int ranks_of(std::int32_t bin) const { return bin_ranks[static_cast<std::size_t>(bin)]; }
  /// False if all sequences of all steps have the same lengths.
  bool varies = false;
};

/// `multiple`: lengths are rounded up to one.   Requires 1 <= shortest <= longest, a law with its sizes, sequence >= multiple
PackedSteps pack_steps(const Documents& documents, std::int64_t sequence, std::int64_t sequences,
                       std::int64_t multiple);

/// The same in bins for `ranks` data-parallel times context ranks. Batches are numbered rank by rank.
/// Requires cp a power of two that divides `ranks`, ranks a divisor of sequences x cp, sequence a multiple of 2 cp
PackedSteps pack_bins(const Documents& documents, std::int64_t sequence, std::int64_t sequences, int cp, int ranks);

/// The bins that span `bin_ranks` of `cp` ranks, as sequences of one step.   Requires packed.dynamic()
PackedSteps bins_of_size(const PackedSteps& packed, int bin_ranks, int cp);

}  // namespace tracecast
