#include "kernels/cuda/device_info.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>
#include <nccl.h>

#include "kernels/cuda/check.hpp"
#include "tracer/driver_version.hpp"

namespace tracecast::cuda {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value : 0;
}

std::string dotted(std::size_t version, std::size_t major, std::size_t minor) {
  return fmt::format("{}.{}.{}", version / major, version % major / minor, version % minor);
}

std::string cuda_version(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

std::string missing_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return "";
  const char* const why = error == cudaSuccess ? "there is none" : cudaGetErrorString(error);
  return fmt::format("no GPU can be used here: {}", why);
}

int device_count() {
  int count = 0;
  TRACECAST_CUDA(cudaGetDeviceCount(&count));
  return count;
}

DeviceInfo use_device(int number) {
  const int index = number % device_count();
  TRACECAST_CUDA(cudaSetDevice(index));
  cudaDeviceProp properties{};
  TRACECAST_CUDA(cudaGetDeviceProperties(&properties, index));
  std::size_t free = 0;
  std::size_t total = 0;
  TRACECAST_CUDA(cudaMemGetInfo(&free, &total));
  DeviceInfo info;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.sms = properties.multiProcessorCount;
  info.memory_bytes = static_cast<std::int64_t>(total);
  info.free_bytes = static_cast<std::int64_t>(free);
  info.clock_mhz = attribute(cudaDevAttrClockRate, index) / 1000;
  info.memory_clock_mhz = attribute(cudaDevAttrMemoryClockRate, index) / 1000;
  return info;
}

LibraryVersions library_versions() {
  int driver = 0;
  int runtime = 0;
  int nccl = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  ncclGetVersion(&nccl);
  LibraryVersions versions;
  versions.driver = nvidia_driver_version();
  versions.driver_cuda = cuda_version(driver);
  versions.cuda = cuda_version(runtime);
  versions.cublas = dotted(cublasLtGetVersion(), 10000, 100);
  versions.cudnn = dotted(cudnnGetVersion(), 10000, 100);
  versions.nccl = dotted(static_cast<std::size_t>(nccl), 10000, 100);
  return versions;
}

std::string to_string(const LibraryVersions& v) {
  const std::string version = v.driver.empty() ? "" : " " + v.driver;
  return fmt::format("driver{} for CUDA {}, CUDA {}, cuBLAS {}, cuDNN {}, NCCL {}", version, v.driver_cuda, v.cuda,
                     v.cublas, v.cudnn, v.nccl);
}

}  // namespace tracecast::cuda
