/// \file
/// Properties of the GPU and versions of its libraries.
#pragma once

#include <cstdint>
#include <string>

namespace tracecast::cuda {

struct DeviceInfo {
  std::string name;  ///< "NVIDIA H200"
  int major = 0;     ///< compute capability
  int minor = 0;
  int sms = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;
  int clock_mhz = 0;         ///< maximum SM clock
  int memory_clock_mhz = 0;  ///< maximum
};

/// Versions in the vendors' notation ("13.0", "2.28.9").
struct LibraryVersions {
  std::string driver;       ///< "580.159.04"; "": the system does not tell
  std::string driver_cuda;  ///< the newest CUDA that the driver runs
  std::string cuda;
  std::string cublas;
  std::string cudnn;
  std::string nccl;
};

/// Why no GPU can be used here, as one sentence; "" if one can.
std::string missing_device();

/// Properties of GPU `number`, modulo the GPUs that are visible: a launcher may show each rank its own one only. It becomes this thread's
/// device. Throws DeviceError.
DeviceInfo use_device(int number);
int device_count();
LibraryVersions library_versions();

/// "driver 580.159.04 for CUDA 13.0, CUDA 13.0, cuBLAS 13.1.0, cuDNN 9.19.0, NCCL 2.28.9"
std::string to_string(const LibraryVersions& versions);

}  // namespace tracecast::cuda
