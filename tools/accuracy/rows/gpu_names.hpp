/// \file
/// The GPU in the words of a source: "NVIDIA A100-SXM4-80GB", "8xH100", "p5.48xlarge (H100)".
#pragma once

#include <string>
#include <string_view>

namespace tracecast::accuracy {

/// A GPU by its part number in capitals ("A100", "H100-PCIE", "MI250X-GCD"), and the memory in its name; 0: none is.
struct GpuName {
  std::string part;
  double memory_gb = 0;
};
GpuName gpu_name(std::string_view reported);

/// The GPU of a rack of 72: B200 and B300 are those of GB200 and GB300.
std::string part_in_rack(const std::string& part);

/// False for the memory of GH200's CPU, 120 to 480 GB, which its name carries: "NVIDIA GH200 480GB".
bool is_gpu_memory(double memory_gb, const std::string& part);

}  // namespace tracecast::accuracy
