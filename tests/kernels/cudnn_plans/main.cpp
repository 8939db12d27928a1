// Plans attention graphs with cuDNN for a GPU that is only described.
//
//   cudnn_plans SM < GRAPHS       SM: 80, 90 or 100
//
// A line of GRAPHS is an attention shape and what to plan:
//   batch q_len kv_len heads kv_heads qk_dim v_dim causal window forward compile
// For each line it prints the kernel that cuDNN compiles; with compile = 0 "an engine", if its heuristics return one, which is
// twenty times as fast; "none" where there is none. Exit code 0, or 1 with a sentence.

#include <array>
#include <cstdio>
#include <iostream>
#include <string>

#include "kernels/cuda/attention_plan.hpp"

namespace tracecast::cuda {
namespace {

struct DescribedGpu {
  int sm;
  const char* name;
  int multiprocessors;
  std::int64_t memory;
  int shared_memory;  ///< bytes that a block may request
};

constexpr std::array<DescribedGpu, 3> kGpus{{{80, "NVIDIA A100-SXM4-80GB", 108, 85'017'493'504, 166'912},
                                             {90, "NVIDIA H100 80GB HBM3", 132, 85'017'493'504, 232'448},
                                             {100, "NVIDIA B200", 148, 191'000'000'000, 232'448}}};

/// Properties by the names that cuDNN's own messages ask for. Clocks and cache do not decide whether there is a plan.
std::string properties(const DescribedGpu& gpu) {
  std::string json = R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "warpSize": 32,)";
  json += R"( "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "regsPerBlock": 65536,)";
  json += R"( "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024,)";
  json += R"( "smClockRateKHz": 1410000, "memClockRateKHz": 1593000, "l2CacheSize": 41943040, "pciDeviceId": 0,)";
  json += R"( "cudaDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "driverVer": 13000)";
  const auto add = [&](const char* key, const std::string& value) {
    json += std::string(", \"") + key + "\": " + value;
  };
  add("deviceName", '"' + std::string(gpu.name) + '"');
  add("deviceVer", std::to_string(gpu.sm * 10));
  add("multiProcessorCount", std::to_string(gpu.multiprocessors));
  add("totalGlobalMem", std::to_string(gpu.memory));
  add("maxSharedMemoryPerBlockOptin", std::to_string(gpu.shared_memory));
  return json + "}";
}

Descriptor describe(const DescribedGpu& gpu) {
  const std::string json = properties(gpu);
  Descriptor described(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  described.set_all(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, json.data(), json.size());
  described.finalize();
  return described;
}

/// The first kernel of the plan, by cuDNN's JSON of it.
std::string kernel_of(const Descriptor& plan) {
  std::int64_t size = 0;
  const cudnnBackendAttributeName_t json = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
  TRACECAST_CUDNN(cudnnBackendGetAttribute(plan.raw(), json, CUDNN_TYPE_CHAR, 0, &size, nullptr));
  std::string text(static_cast<std::size_t>(size), ' ');
  TRACECAST_CUDNN(cudnnBackendGetAttribute(plan.raw(), json, CUDNN_TYPE_CHAR, size, &size, text.data()));
  const std::string key = "\"kernelName\":\"";
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return "no kernel named";
  const std::size_t begin = at + key.size();
  return text.substr(begin, text.find('"', begin) - begin);
}

std::string planned(const AttentionGraph& graph, const PlanDevice& device, bool compile) {
  if (!compile) return has_engine(graph, device) ? "an engine" : "none";
  const std::vector<Descriptor> plan = execution_plan(graph, device);
  return plan.empty() ? "none" : kernel_of(plan.front());
}

int plan_all(const DescribedGpu& gpu) {
  const Descriptor described = describe(gpu);
  AttentionShape s;
  bool forward = true;
  bool compile = true;
  while (std::cin >> s.batch >> s.q_len >> s.kv_len >> s.heads >> s.kv_heads >> s.qk_dim >> s.v_dim >> s.causal >>
         s.window >> forward >> compile)
    std::puts(planned(attention_graph(s, forward), {.described = described.raw()}, compile).c_str());
  return 0;
}

}  // namespace
}  // namespace tracecast::cuda

int main(int count, char** words) {
  const std::string sm = count == 2 ? words[1] : "";
  try {
    for (const tracecast::cuda::DescribedGpu& gpu : tracecast::cuda::kGpus)
      if (std::to_string(gpu.sm) == sm) return tracecast::cuda::plan_all(gpu);
    std::fprintf(stderr, "usage: cudnn_plans 80|90|100 < SHAPES\n");
  } catch (const tracecast::cuda::DeviceError& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
