/// \file
/// Rounds of a search that n processes (Open MPI) evaluate together. All processes run the same search.
///
/// Process 0 sends the layouts of the round to evaluate; a store may already know some. Each process evaluates every
/// n-th of them. Process 0 collects the results and sends the whole round to all. So all processes continue with the
/// same numbers, and the result is that of one process.
#pragma once

#include <string>
#include <vector>

#include "sim/search/planner.hpp"

namespace tracecast {

/// The operations of MPI that are needed.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns the text of process 0 on every process.
  virtual std::string broadcast(std::string text) = 0;
  /// Returns the texts of all processes, by rank, on process 0, and nothing on the others.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
};

/// On process 0: evaluates a round together with the others. A store of results wraps it.
EvaluateRound share_work(ProcessGroup& group, EvaluateRound inner);
/// On all processes, as the outermost function: the results that process 0 gets from `round_of_process_0`. Meanwhile
/// the others serve share_work with `inner`.
EvaluateRound same_rounds(ProcessGroup& group, EvaluateRound round_of_process_0, EvaluateRound inner);

}  // namespace tracecast
