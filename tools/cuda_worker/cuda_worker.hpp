/// \file
/// What a rank on a GPU is told by the command that starts it; the counterpart of tools/worker.
#pragma once

#include <string>

#include "kernels/cuda/rendezvous.hpp"
#include "sim/base/result.hpp"
#include "tools/worker/worker.hpp"

namespace tracecast::worker {

/// Whether the scenario fits: as many GPUs as ranks on this host, and their memory.
Result<void> check_cuda_execution(const ExecuteOptions& options);
Result<void> execute_cuda(const ExecuteOptions& options, const cuda::Rendezvous& rendezvous);

struct CudaProfileOptions {
  ProfileOptions common;
  std::string base;    ///< shipped profile that stands behind the measurements; "": by the name of the GPU
  double seconds = 0;  ///< end in good order after so long, to go on later; 0: until done
};
/// False: time is up before everything is measured; the profile has what there is, and the log (OUT.measured) goes on from there.
Result<bool> profile_cuda(const CudaProfileOptions& options, const cuda::Rendezvous& rendezvous);

/// Checks every operator, or one group of them (`only`), against a reference in double precision on fresh random data. Prints a
/// Markdown table, of one group its rows; `report`: a file for the table. False: something is wrong.
Result<bool> verify_cuda(std::uint64_t seed, const std::string& only, const std::string& report);

}  // namespace tracecast::worker
