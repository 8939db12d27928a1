/// \file
/// Options that a command passes to its ranks on GPUs; the counterpart of tools/worker.
#pragma once

#include <string>

#include "kernels/cuda/rendezvous.hpp"
#include "sim/base/result.hpp"
#include "tools/worker/worker.hpp"

namespace tracecast::worker {

/// Checks that this host has as many GPUs as the scenario has ranks, and enough GPU memory.
Result<void> check_cuda_execution(const ExecuteOptions& options);
Result<void> execute_cuda(const ExecuteOptions& options, const cuda::Rendezvous& rendezvous);

struct CudaProfileOptions {
  ProfileOptions common;
  std::string base;    ///< shipped profile for everything not measured; "": chosen by the GPU's name
  double seconds = 0;  ///< time limit; a later run resumes from the log. 0: until done
};
/// False: the time limit was reached. The profile holds the results so far; the next run resumes from OUT.measured.
Result<bool> profile_cuda(const CudaProfileOptions& options, const cuda::Rendezvous& rendezvous);

/// Checks every operator, or one group of them (`only`), against a reference in double precision on fresh random data.
/// Prints a Markdown table, or only the rows of one group; `report`: a file for the table. False: a check failed.
Result<bool> verify_cuda(std::uint64_t seed, const std::string& only, const std::string& report);

}  // namespace tracecast::worker
