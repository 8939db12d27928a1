/// \file
/// How the ranks of a job on GPUs find each other: a launcher (mpirun, srun) says through the environment who is who, a
/// folder that all of them can reach carries NCCL's unique id and what rank 0 gathers. No MPI library is needed.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast::cuda {

struct Seat {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  ///< of its host: the number of its GPU
  bool operator==(const Seat&) const = default;
};

/// Reads one variable of the environment; nullptr: not set.
using Environment = std::function<const char*(const char*)>;

/// From Open MPI's, PMI's or Slurm's variables, in this order; alone when there are none. Errors: a number that is none,
/// a rank that is not below their count.
Result<Seat> seat_from(const Environment& environment);

class Rendezvous {
 public:
  /// `folder` exists and is empty at the start of the job; it is not used by a rank that is alone.
  Rendezvous(Seat seat, std::filesystem::path folder) : seat_(seat), folder_(std::move(folder)) {}

  const Seat& seat() const { return seat_; }

  /// Leaves bytes for the others under a name of this rank. Complete when it can be read.
  Result<void> leave(const std::string& name, const std::string& bytes) const;
  /// Waits for what `rank` leaves under a name. Errors: it did not come within `patience`.
  Result<std::string> fetch(const std::string& name, int rank,
                            std::chrono::milliseconds patience = std::chrono::minutes(2)) const;
  /// Of all ranks in order, at rank 0; elsewhere empty.
  Result<std::vector<std::string>> gather_at_root(const std::string& name, const std::string& own) const;

 private:
  Seat seat_;
  std::filesystem::path folder_;
};

}  // namespace tracecast::cuda
