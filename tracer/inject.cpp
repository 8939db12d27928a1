// libtracecast_inject.so: CUDA loads it into a program that `tracecast record` starts (CUDA_INJECTION64_PATH) and calls
// InitializeInjection. It enables CUPTI's activity records, writes them as they arrive, and ends the trace when the program exits.

#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>

#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include "tracer/cupti_records.hpp"
#include "tracer/nccl_events.hpp"
#include "tracer/trace_writer.hpp"

namespace {

using namespace tracecast;

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;  ///< about 40,000 kernels
constexpr std::size_t kAlignment = 8;                       ///< required by CUPTI
constexpr std::uint32_t kFlushMilliseconds = 1000;

// Never freed: CUPTI's threads may deliver a last buffer while the process shuts down.
TraceWriter* writer = nullptr;

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // no limit
}

void take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    write_record(*record, *writer);
  std::size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && dropped > 0)
    writer->dropped(static_cast<std::int64_t>(dropped));
  writer->flush();
  std::free(buffer);
}

// This library is also NCCL's profiler plug-in (NCCL_PROFILER_PLUGIN) and writes into the same trace.
nccl::Recorder* nccl_recorder = nullptr;

void end_of_program() {
  if (nccl_recorder != nullptr) nccl_recorder->finish();
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  writer->finish();
}

std::string version_text(int version) {  // 13000 -> 13.0
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? -1 : std::atoi(text);
}

/// Asks the driver for its version and the name of device 0. The program has loaded the driver, but our symbols might not
/// resolve to it.
void describe_gpu(TraceHeader& h) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) return;
  const auto get_version = reinterpret_cast<CUresult (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  const auto get_device = reinterpret_cast<CUresult (*)(CUdevice*, int)>(dlsym(driver, "cuDeviceGet"));
  const auto get_name = reinterpret_cast<CUresult (*)(char*, int, CUdevice)>(dlsym(driver, "cuDeviceGetName"));
  int version = 0;
  if (get_version != nullptr && get_version(&version) == CUDA_SUCCESS) h.driver = version_text(version);
  CUdevice device = 0;
  char name[128] = "";
  if (get_device != nullptr && get_name != nullptr && get_device(&device, 0) == CUDA_SUCCESS &&
      get_name(name, sizeof name, device) == CUDA_SUCCESS)
    h.gpu = name;
}

TraceHeader header() {
  TraceHeader h;
  std::uint32_t version = 0;
  if (cuptiGetVersion(&version) == CUPTI_SUCCESS) h.recorder = "cupti " + std::to_string(version);
  h.clock = "cupti nanoseconds";
  char date[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm broken{};
  if (gmtime_r(&now, &broken) != nullptr) std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &broken);
  h.date = date;
  h.cuda = version_text(CUDA_VERSION);
  describe_gpu(h);
  h.process = getpid();
  h.rank = number_in_environment("RANK");
  h.ranks = number_in_environment("WORLD_SIZE");
  return h;
}

bool start() {
  const char* const path = std::getenv("TRACECAST_TRACE");
  if (path == nullptr) return false;
  auto made = std::make_unique<TraceWriter>(std::string(path) + "." + std::to_string(getpid()), header());
  if (!made->good()) return false;
  writer = made.release();
  if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) return false;
  for (int i = 0; i < kRecordedKindCount; ++i) cuptiActivityEnable(kRecordedKinds[i]);
  cuptiActivityFlushPeriod(kFlushMilliseconds);
  return std::atexit(end_of_program) == 0;
}

std::int64_t cupti_now() {
  std::uint64_t time = 0;
  return cuptiGetTimestamp(&time) == CUPTI_SUCCESS ? static_cast<std::int64_t>(time) : 0;
}

int nccl_init(void** context, std::uint64_t communicator, int* events, const char*, int, int ranks, int rank, void*) {
  *context = nullptr;
  *events = 0;
  if (writer == nullptr) return 0;  // NCCL started before CUDA, or the recording could not start
  if (nccl_recorder == nullptr) nccl_recorder = new nccl::Recorder(*writer, cupti_now);  // never freed, like the writer
  *context = nccl_recorder->begin_communicator(communicator, ranks, rank);
  *events = nccl::Recorder::kEvents;
  return 0;
}

int nccl_start(void* context, void** handle, nccl::Event* event) {
  *handle = nccl_recorder == nullptr ? nullptr : nccl_recorder->start(context, *event);
  return 0;
}

int nccl_stop(void* handle) {
  if (nccl_recorder != nullptr) nccl_recorder->stop(handle);
  return 0;
}

int nccl_state(void* handle, int state, void*) {
  if (nccl_recorder != nullptr) nccl_recorder->record_state(handle, state);
  return 0;
}

int nccl_finalize(void* context) {
  if (nccl_recorder != nullptr) nccl_recorder->end_communicator(context);
  return 0;
}

}  // namespace

// NCCL looks up this symbol.
extern "C" {
__attribute__((visibility("default")))
nccl::Profiler ncclProfiler_v5{"tracecast", nccl_init, nccl_start, nccl_stop, nccl_state, nccl_finalize};
}

// NVTX loads this library too (NVTX_INJECTION64_PATH); CUPTI's entry point does the work. CUPTI is found through this library's link,
// since its file name differs between installations.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(void* get_table) {
  Dl_info cupti{};
  if (dladdr(reinterpret_cast<void*>(&cuptiGetVersion), &cupti) == 0 || cupti.dli_fname == nullptr) return 0;
  void* const library = dlopen(cupti.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  const auto initialize = reinterpret_cast<int (*)(void*)>(dlsym(library, "InitializeInjectionNvtx2"));
  return initialize == nullptr ? 0 : initialize(get_table);
}

// CUDA expects 1; any other value would stop the program. A failed recording must not do that.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  if (!start()) std::fputs("tracecast: recording could not start; the program runs without it\n", stderr);
  return 1;
}
