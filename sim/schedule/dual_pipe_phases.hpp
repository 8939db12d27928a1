/// \file
/// The eight phases that DualPipe and DualPipeV share.
///
/// A rank has two phases, 0 and 1: the chunk that micro-batches reach first, and the other one. `position` counts from the
/// outer end, `depth` is the number of positions: rank q of H = P/2 for DualPipe (counted from the nearer end), rank r of P
/// for DualPipeV. n micro-batches go through each phase. B is a full backward, FB a forward overlapped with a backward of
/// the other phase.
///
///   1  2 (depth-position-1) F0                      5  (depth-position-1) x (B1, FB(F1,B0))
///   2  (position+1) x (F0, F1)                      6  (position+1) x (B1, B0), the second half with the backward split
///   3  (depth-position-1) x (I1, W, F1)             7  (depth-position-1) x (W, I0)
///   4  (n-2 depth+position+1) x (FB(F0,B1), FB(F1,B0)); the innermost rank's very first pair is not overlapped
///   8  (position+1) W
///
/// Weight gradients are done in the order in which their input gradients were. Requires n >= 2 depth.
/// Source: DeepSeek-AI, DualPipe repository (dualpipe.py, dualpipev.py), docs/references.md#dualpipe
#pragma once

#include <array>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

struct DualPipeRank {
  int position = 0;
  int depth = 1;
  int microbatches = 0;                   ///< n, of each phase
  std::array<int, 2> chunk{0, 1};         ///< [phase]
  std::array<int, 2> first_microbatch{};  ///< [phase] number of its first micro-batch
};

std::vector<Action> dual_pipe_phases(const DualPipeRank& rank);

}  // namespace tracecast
