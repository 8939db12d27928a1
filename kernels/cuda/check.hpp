/// \file
/// Errors of the CUDA libraries. Every call is checked. An error during a measurement cannot be handled locally, so it is
/// thrown; the rank's entry function (tools/cuda_worker) turns it into a message.
#pragma once

#include <stdexcept>
#include <string>

namespace tracecast::cuda {

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "cudaMalloc(&p, n) at driver.cpp:12: out of memory"
[[noreturn]] inline void fail_call(const char* call, const char* file, int line, const std::string& why) {
  throw DeviceError(std::string(call) + " at " + file + ":" + std::to_string(line) + ": " + why);
}

}  // namespace tracecast::cuda

/// Executes `call`; `good` is its success value, `why` converts its result `status_` to text.
#define TRACECAST_CHECKED(call, good, why)                                                      \
  do {                                                                                          \
    const auto status_ = (call);                                                                \
    if (status_ != (good)) ::tracecast::cuda::fail_call(#call, __FILE_NAME__, __LINE__, (why)); \
  } while (false)
#define TRACECAST_CUDA(call) TRACECAST_CHECKED(call, cudaSuccess, cudaGetErrorString(status_))
