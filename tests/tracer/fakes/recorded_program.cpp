// The program that the tests of the recorder record. Its arguments are what it does, one after the other:
//   init | load-cupti | kernels N | steps N | copies N | calls N | overhead NS | incomplete N | drop N | sleep MS | fork | fork-_exit | exec | profiler-start |
//   profiler-stop | nccl VERSION N | range NAME | end-range | push NAME | pop | exit | _exit | signal N

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <cupti.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer/nccl_profiler_abi.hpp"

// As CUDA's runtime and NCCL, where the program is linked with them.
extern "C" cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 12'080;
  return cudaSuccess;
}
extern "C" int ncclGetVersion(int* version) {
  *version = 22'809;
  return 0;
}

namespace {

using namespace tracecast::nccl;

void* library_of(const char* name) {
  void* const library = dlopen(name, RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(9);
  }
  return library;
}

/// The library that the recorder finds.
const char* cupti() {
  const char* const found = std::getenv("FAKE_CUPTI");
  return found != nullptr ? found : std::getenv("TRACECAST_CUPTI");
}

template <class Function>
Function symbol(const char* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library_of(library), name));
}

void init() {
  if (symbol<int (*)(unsigned)>("libcuda.so.1", "cuInit")(0) != 0) std::exit(8);
}

template <class Record>
void record(const Record& one) {
  static const auto put = symbol<void (*)(const CUpti_Activity*)>(cupti(), "fake_cupti_record");
  put(reinterpret_cast<const CUpti_Activity*>(&one));
}

std::uint32_t correlation = 0;

/// On the clock of the recorder, in the order of the calls.
std::uint64_t now() {
  static const auto get = symbol<CUptiResult (*)(std::uint64_t*)>(cupti(), "cuptiGetTimestamp");
  static std::uint64_t last = 0;
  std::uint64_t time = 0;
  get(&time);
  return last = time > last ? time : last + 1;
}

void call(CUpti_ActivityKind kind, std::uint32_t id) {
  CUpti_ActivityAPI api{};
  api.kind = kind;
  api.cbid = id;
  api.correlationId = ++correlation;
  api.start = now();
  api.end = now();
  record(api);
}

/// Of the program's thread, by CUPTI.
void overhead(int ns) {
  CUpti_ActivityOverhead3 o{};
  o.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  o.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  o.start = now();
  o.end = o.start + static_cast<std::uint64_t>(ns);
  record(o);
}

constexpr const char* kMultiplication = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NNT";
constexpr const char* kOptimizer = "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelIvEEvv";
constexpr const char* kAllReduce = "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE";

void kernel(const char* name, bool complete = true) {
  call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  CUpti_ActivityKernel10 k{};
  k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  k.name = name;
  k.correlationId = correlation;
  k.streamId = 7;
  k.start = complete ? now() + 5'000 : CUPTI_TIMESTAMP_UNKNOWN;
  k.end = complete ? k.start + 4'000 : CUPTI_TIMESTAMP_UNKNOWN;
  k.gridX = k.gridY = k.gridZ = k.blockX = k.blockY = k.blockZ = 1;
  record(k);
}

void peer_copy() {
  call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020);
  CUpti_ActivityMemcpyPtoP4 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  copy.bytes = 1 << 20;
  copy.correlationId = correlation;
  copy.streamId = 9;
  copy.start = now();
  copy.end = copy.start + 2'000;
  record(copy);
}

/// All-reduces as NCCL issues them: version 5 reports the launch, both the group after it.
void nccl(int version, int count) {
  const char* const plugin = std::getenv("NCCL_PROFILER_PLUGIN");
  void* context = nullptr;
  int events = 0;
  if (version == 6) {  // all-gathers by copy engines: two copies between start and stop
    const auto* profiler = symbol<Profiler*>(plugin, "ncclProfiler_v6");
    profiler->init(&context, 0xABC, &events, "world", 1, 8, 3, nullptr);
    for (int i = 0; i < count; ++i) {
      Event event{};
      event.type = kCopyEngine;
      event.copy_engine.sequence = static_cast<std::uint64_t>(i);
      event.copy_engine.function = "AllGather";
      event.copy_engine.count = 1 << 20;
      event.copy_engine.type = "ncclInt8";
      void* copies = nullptr;
      profiler->start_event(context, &copies, &event);
      peer_copy();
      peer_copy();
      profiler->stop_event(copies);
      peer_copy();  // of the program
    }
    profiler->finalize(context);
    return;
  }
  if (version == 5) {
    const auto* profiler = symbol<Profiler*>(plugin, "ncclProfiler_v5");
    profiler->init(&context, 0xABC, &events, "world", 2, 8, 3, nullptr);
    for (int i = 0; i < count; ++i) {
      void* launch = nullptr;
      Event event{};
      event.type = kKernelLaunch;
      profiler->start_event(context, &launch, &event);
      kernel(kAllReduce);
      profiler->stop_event(launch);
      void* group = nullptr;
      event = {};
      event.type = kGroup;
      profiler->start_event(context, &group, &event);
      event = {};
      event.type = kCollective;
      event.collective = {static_cast<std::uint64_t>(i),
                          "AllReduce",
                          nullptr,
                          nullptr,
                          1 << 20,
                          0,
                          "ncclBfloat16",
                          24,
                          16,
                          "RING",
                          "LL",
                          group};
      void* operation = nullptr;
      profiler->start_event(context, &operation, &event);
      if (operation != nullptr) profiler->stop_event(operation);
      profiler->stop_event(group);
      kernel(kMultiplication);
    }
    profiler->finalize(context);
    return;
  }
  const auto* profiler = symbol<ProfilerV4*>(plugin, "ncclProfiler_v4");
  profiler->init(&context, &events, "world", 0xABC, 2, 8, 3, nullptr);
  for (int i = 0; i < count; ++i) {
    kernel(kAllReduce);
    void* group = nullptr;
    EventV4 event{};
    event.type = kGroup;
    profiler->start_event(context, &group, &event);
    event = {};
    event.type = kCollective;
    event.parent = group;
    event.collective = {
        static_cast<std::uint64_t>(i), "AllReduce", nullptr, nullptr, 1 << 20, 0, "ncclBfloat16", 24, 16, "RING", "LL"};
    void* operation = nullptr;
    profiler->start_event(context, &operation, &event);
    profiler->stop_event(group);
    kernel(kMultiplication);
  }
  profiler->finalize(context);
}

/// Collectives by symmetric kernels, of which NCCL 2.28 reports the calls only, each between kernels of the program.
void symmetric(int count) {
  const auto* profiler = symbol<Profiler*>(std::getenv("NCCL_PROFILER_PLUGIN"), "ncclProfiler_v5");
  void* context = nullptr;
  int events = 0;
  profiler->init(&context, 0xABC, &events, "world", 1, 8, 3, nullptr);
  for (int i = 0; i < count; ++i) {
    void* group = nullptr;
    Event event{};
    event.type = kGroupCall;
    profiler->start_event(context, &group, &event);
    void* call = nullptr;
    event = {};
    event.type = kCollectiveCall;
    event.parent = group;
    event.collective_call = {"AllReduce", 1 << 20, "ncclBfloat16", 0, nullptr, false};
    profiler->start_event(context, &call, &event);
    profiler->stop_event(call);
    kernel("_Z40ncclSymkDevKernel_AllReduce_RSxLD_AGxSTMC21ncclSymkDevWorkArgs4K");
    profiler->stop_event(group);
    kernel(kMultiplication);
  }
  profiler->finalize(context);
}

/// As CUPTI reports a range of NVTX on this thread.
void range(const char* name) {
  static std::vector<std::uint32_t> open;
  static std::uint32_t ranges = 0;
  CUpti_ActivityMarker2 marker{};
  marker.kind = CUPTI_ACTIVITY_KIND_MARKER;
  marker.flags = name != nullptr ? CUPTI_ACTIVITY_FLAG_MARKER_START : CUPTI_ACTIVITY_FLAG_MARKER_END;
  if (name != nullptr) open.push_back(++ranges);
  marker.id = open.back();
  if (name == nullptr) open.pop_back();
  marker.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  marker.name = name;
  marker.timestamp = now();
  record(marker);
}

/// What a script of the user calls.
void push(const char* name) {
  symbol<void (*)(const char*)>(std::getenv("CUDA_INJECTION64_PATH"), "tracecast_push")(name);
}

void pop() { symbol<void (*)()>(std::getenv("CUDA_INJECTION64_PATH"), "tracecast_pop")(); }

void child(bool plainly) {
  const pid_t process = fork();
  if (process == 0) {
    if (plainly) std::exit(0);
    _exit(0);
  }
  waitpid(process, nullptr, 0);
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string what = arguments[i];
    const auto number = [&] { return ++i < count ? std::atoi(arguments[i]) : 0; };
    if (what == "init") {
      init();
    } else if (what == "load-cupti") {
      library_of(cupti());
    } else if (what == "kernels") {
      for (int n = number(); n > 0; --n) kernel(n % 3 == 0 ? kAllReduce : kMultiplication);
    } else if (what == "steps") {
      for (int n = number(); n > 0; --n) {
        for (int k = 0; k < 20; ++k) kernel(kMultiplication);
        kernel(kOptimizer);
      }
    } else if (what == "incomplete") {
      for (int n = number(); n > 0; --n) kernel(kMultiplication, false);
    } else if (what == "copies") {
      for (int n = number(); n > 0; --n) peer_copy();
    } else if (what == "calls") {
      for (int n = number(); n > 0; --n) {
        call(CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020);
        call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent);
      }
    } else if (what == "overhead") {
      overhead(number());
    } else if (what == "drop") {
      symbol<void (*)(std::size_t)>(cupti(), "fake_cupti_drop")(static_cast<std::size_t>(number()));
    } else if (what == "sleep") {
      std::this_thread::sleep_for(std::chrono::milliseconds(number()));
    } else if (what == "fork" || what == "fork-_exit") {
      child(what == "fork");
    } else if (what == "exec") {
      std::vector<char*> rest{arguments[0]};
      rest.insert(rest.end(), arguments + i + 1, arguments + count);
      rest.push_back(nullptr);
      execv("/proc/self/exe", rest.data());
      return 7;
    } else if (what == "profiler-start" || what == "profiler-stop") {
      symbol<void (*)(int)>(cupti(), "fake_cupti_profiler")(what == "profiler-start");
    } else if (what == "range") {
      range(++i < count ? arguments[i] : "");
    } else if (what == "end-range") {
      range(nullptr);
    } else if (what == "push") {
      push(++i < count ? arguments[i] : "");
    } else if (what == "pop") {
      pop();
    } else if (what == "nccl") {
      const int version = number();
      nccl(version, number());
    } else if (what == "symmetric") {
      symmetric(number());
    } else if (what == "exit") {
      std::exit(number());
    } else if (what == "_exit") {
      _exit(number());
    } else if (what == "signal") {
      raise(number());
    } else {
      std::fprintf(stderr, "recorded_program: unknown: %s\n", what.c_str());
      return 6;
    }
  }
  return 0;
}
