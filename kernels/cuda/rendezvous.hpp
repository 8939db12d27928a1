/// \file
/// Rendezvous of the ranks of a GPU job. A launcher (mpirun, srun) sets rank numbers in the environment; a shared folder
/// carries NCCL's unique id and the data that rank 0 gathers. No MPI library is needed.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast::cuda {

/// Which rank of the job this process is.
struct JobRank {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  ///< on its host: of the GPUs that it sees, it uses the one of this number
  bool operator==(const JobRank&) const = default;
};

/// Reads one environment variable; nullptr: not set.
using Environment = std::function<const char*(const char*)>;

/// Reads the variables of Open MPI, PMI or Slurm, in this order; a single rank if there are none. `expected`: number of ranks that were
/// started; 1 reads nothing, since a process may inherit the variables of the job that it runs in; 0: not known. Errors: not a number, a
/// rank not below the number of ranks, another number than expected.
Result<JobRank> job_rank_from(const Environment& environment, int expected = 0);

class Rendezvous {
 public:
  /// `folder` must exist and be empty at the start of the job; a single rank does not use it.
  Rendezvous(JobRank self, std::filesystem::path folder) : self_(self), folder_(std::move(folder)) {}

  const JobRank& self() const { return self_; }

  /// Publishes bytes for the other ranks under a name of this rank. The file becomes visible only when complete.
  Result<void> publish(const std::string& name, const std::string& bytes) const;
  /// Waits for the bytes that `rank` publishes under a name. Errors: they did not arrive within `timeout`.
  Result<std::string> fetch(const std::string& name, int rank,
                            std::chrono::milliseconds timeout = std::chrono::minutes(2)) const;
  /// The bytes of all ranks in order on rank 0; empty on other ranks.
  Result<std::vector<std::string>> gather_at_root(const std::string& name, const std::string& own) const;

 private:
  JobRank self_;
  std::filesystem::path folder_;
};

}  // namespace tracecast::cuda
