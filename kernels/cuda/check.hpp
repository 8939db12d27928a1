/// \file
/// Errors of the CUDA libraries. A call is checked where it is made; what a GPU refuses in the middle of a measurement
/// cannot be repaired there, so it is thrown and becomes a sentence where a rank begins (tools/cuda_worker).
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

/// `call` is made; `good` is its success, `why` a text for its result `status_`.
#define TRACECAST_CHECKED(call, good, why)                                                      \
  do {                                                                                          \
    const auto status_ = (call);                                                                \
    if (status_ != (good)) ::tracecast::cuda::fail_call(#call, __FILE_NAME__, __LINE__, (why)); \
  } while (false)
#define TRACECAST_CUDA(call) TRACECAST_CHECKED(call, cudaSuccess, cudaGetErrorString(status_))
