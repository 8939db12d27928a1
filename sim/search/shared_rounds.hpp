/// Rounds of a search shared between processes (Open MPI) that all run the same search.
///
/// Process 0 decides: it says which layouts of the round are to be evaluated (a store may know some already), everybody
/// evaluates every n-th of them, process 0 collects, and tells everybody the whole round. So all processes go on from
/// the same numbers, and the answer is that of one process.
#pragma once

#include <string>
#include <vector>

#include "sim/search/planner.hpp"

namespace tracecast {

/// What is needed of MPI.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The text of process 0, for everybody.
  virtual std::string broadcast(std::string text) = 0;
  /// The texts of all, by rank, for process 0; others get nothing.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
};

/// Process 0: evaluates a round together with the others. Goes inside what remembers results.
EvaluateRound share_work(ProcessGroup& group, EvaluateRound inner);
/// All processes, outermost: the round as process 0 has it from `round_of_process_0`; the others serve share_work with
/// `inner` meanwhile.
EvaluateRound same_rounds(ProcessGroup& group, EvaluateRound round_of_process_0, EvaluateRound inner);

}  // namespace tracecast
