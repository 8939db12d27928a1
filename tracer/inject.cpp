// libtracecast_inject.so: CUDA loads it into a program that `tracecast record` starts (CUDA_INJECTION64_PATH) and calls
// InitializeInjection. It enables CUPTI's activity records, writes them each second, and ends the trace when the program exits.
// NCCL loads it as its profiler plug-in, NVTX as its injection; the program may call tracecast_push and tracecast_pop in it.
// A fault of the recording never stops the program: the trace's header says what failed.
//
// Variables that `tracecast record` sets:
//   TRACECAST_TRACE     path of the trace, without the process id
//   TRACECAST_RANGE     "cuda-profiler": record between cudaProfilerStart and cudaProfilerStop only
//   TRACECAST_DELAY, TRACECAST_DURATION   seconds: record from then on, for so long
// A user may set TRACECAST_FLUSH_MS, the time between two writes (default 1000).
// A forked child does not record: CUDA cannot be used there, and the trace is the parent's.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "tracer/cupti_library.hpp"
#include "tracer/cupti_records.hpp"
#include "tracer/driver_version.hpp"
#include "tracer/environment.hpp"
#include "tracer/nccl_events.hpp"
#include "tracer/rank_variables.hpp"
#include "tracer/trace_writer.hpp"

namespace {

using namespace tracecast;

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;  ///< about 40,000 kernels
constexpr std::size_t kAlignment = 8;                       ///< required by CUPTI
constexpr auto kOurIds = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;
static_assert(kOurIds == kRecorderIds);

/// What the process records. Never freed: CUPTI's threads may deliver a last buffer while the process shuts down.
struct Recording {
  CuptiLibrary cupti;
  std::unique_ptr<TraceWriter> writer;
  std::unique_ptr<nccl::Recorder> nccl;
  pid_t process = 0;
  double delay = 0;        ///< seconds
  double duration = 0;     ///< 0: to the end
  bool on_demand = false;  ///< between cudaProfilerStart and cudaProfilerStop
  std::mutex mutex;
  std::condition_variable ending;
  bool ends = false;
  std::timed_mutex flushing;         ///< until what a flush delivers has been written
  std::atomic<bool> enabled{false};  ///< changed with `mutex`
  std::atomic<std::int64_t> next_operator{kFirstOperatorId};
};
Recording* recording = nullptr;  ///< nullptr: nothing is recorded, as in a forked child

int number(const char* name) {
  const std::string text = variable(name);
  return text.empty() ? -1 : std::atoi(text.c_str());
}

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // no limit
}

void take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  if (Recording* const r = recording) {
    CUpti_Activity* record = nullptr;
    while (valid > 0 && r->cupti.get_next_record(buffer, valid, &record) == CUPTI_SUCCESS)
      write_record(*record, *r->writer);
    std::size_t dropped = 0;
    if (r->cupti.get_dropped(context, stream, &dropped) == CUPTI_SUCCESS && dropped > 0)
      r->writer->dropped(static_cast<std::int64_t>(dropped));
  }
  std::free(buffer);
}

/// Switches the records of calls that launch, copy or wait on or off; all calls if CUPTI cannot choose.
void switch_calls(const CuptiLibrary& cupti, CUpti_CallbackDomain domain, CUpti_ActivityKind kind,
                  decltype(&cuptiActivityEnableRuntimeApi) switch_one, std::uint32_t count, bool on) {
  if (switch_one == nullptr) return void(on ? cupti.enable(kind) : cupti.disable(kind));
  for (std::uint32_t id = 1; id < count; ++id) {
    const char* name = nullptr;
    if (cupti.get_callback_name(domain, id, &name) == CUPTI_SUCCESS && name != nullptr && is_recorded_call(name))
      switch_one(id, on ? 1 : 0);
  }
}

/// Requires the lock. Returns a sentence if CUPTI refuses kernels, "" on success.
std::string switch_records(Recording& r, bool on) {
  if (r.enabled == on) return "";
  r.enabled = on;
  std::string error;
  for (int i = 0; i < kRecordedKindCount; ++i) {
    const CUptiResult result = on ? r.cupti.enable(kRecordedKinds[i]) : r.cupti.disable(kRecordedKinds[i]);
    // Only kernels are essential: a virtual GPU, say, has no markers.
    if (on && result != CUPTI_SUCCESS && kRecordedKinds[i] == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
      error = r.cupti.error("cuptiActivityEnable", result);
  }
  switch_calls(r.cupti, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_ACTIVITY_KIND_RUNTIME, r.cupti.enable_runtime_call,
               CUPTI_RUNTIME_TRACE_CBID_SIZE, on);
  switch_calls(r.cupti, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_ACTIVITY_KIND_DRIVER, r.cupti.enable_driver_call,
               CUPTI_DRIVER_TRACE_CBID_SIZE, on);
  return error;
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  Recording* const r = recording;
  if (r == nullptr || domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  const bool starts = id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart && call.callbackSite == CUPTI_API_EXIT;
  const bool stops = id == CUPTI_DRIVER_TRACE_CBID_cuProfilerStop && call.callbackSite == CUPTI_API_ENTER;
  if (!starts && !stops) return;
  const std::lock_guard lock(r->mutex);
  switch_records(*r, starts);
}

/// Writes what has been recorded, and begins and ends the range that was asked for by time. CUPTI's own periodic flush delivers full
/// buffers only, so a killed program would lose everything.
void run_flushes(Recording& r) {
  using Seconds = std::chrono::duration<double>;
  const auto begin = std::chrono::steady_clock::now();
  const int flush_ms = number("TRACECAST_FLUSH_MS");
  const auto period = std::chrono::milliseconds(flush_ms > 0 ? flush_ms : 1000);
  auto next_flush = begin + period;
  std::unique_lock lock(r.mutex);
  while (!r.ends) {
    auto until = next_flush;
    const auto start = begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(Seconds(r.delay));
    const auto stop = start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(Seconds(r.duration));
    const auto now = std::chrono::steady_clock::now();
    if (!r.on_demand) {
      if (now >= start && (r.duration == 0 || now < stop)) switch_records(r, true);
      if (r.duration > 0 && now >= stop) switch_records(r, false);
      for (const auto& edge : {start, stop})
        if (edge > now && edge < until) until = edge;
    }
    if (r.ending.wait_until(lock, until, [&r] { return r.ends; })) return;
    if (std::chrono::steady_clock::now() < next_flush) continue;
    next_flush += period;
    lock.unlock();
    {
      const std::lock_guard flush(r.flushing);
      r.cupti.flush_all(0);
      r.writer->flush();
    }
    lock.lock();
  }
}

void end_of_program() {
  Recording* const r = recording;
  if (r == nullptr || r->process != getpid()) return;
  {
    const std::lock_guard lock(r->mutex);
    r->ends = true;
  }
  r->ending.notify_all();
  // A flush that has begun may hold all records. A program must end even if CUPTI does not return.
  const std::unique_lock flush(r->flushing, std::chrono::seconds(10));
  if (r->nccl != nullptr) r->nccl->finish();
  r->cupti.flush_all(0);
  r->cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  r->writer->finish();
}

void in_forked_child() { recording = nullptr; }

std::string version_text(int version) {  // 13000 -> 13.0
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// A function of a library that the program has loaded; nullptr if it has not.
template <class Function>
Function loaded_function(std::initializer_list<const char*> libraries, const char* name) {
  for (const char* each : libraries)
    if (void* const library = dlopen(each, RTLD_LAZY | RTLD_NOLOAD))
      if (void* const symbol = dlsym(library, name)) return reinterpret_cast<Function>(symbol);
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

TraceHeader header(const CuptiLibrary& cupti) {
  TraceHeader h;
  std::uint32_t cupti_version = 0;
  if (cupti.get_version != nullptr && cupti.get_version(&cupti_version) == CUPTI_SUCCESS)
    h.recorder = "cupti " + std::to_string(cupti_version);
  h.clock = "cupti nanoseconds";
  char date[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm broken{};
  if (gmtime_r(&now, &broken) != nullptr) std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &broken);
  h.date = date;
  // The driver's names of GPUs are not to be had inside cuInit: CUPTI's device records follow.
  int version = 0;
  if (const auto get = loaded_function<CUresult (*)(int*)>({"libcuda.so.1"}, "cuDriverGetVersion");
      get != nullptr && get(&version) == CUDA_SUCCESS)
    h.driver = version_text(version);
  if (const std::string driver = nvidia_driver_version(); !driver.empty()) h.driver = driver;
  if (const auto get = loaded_function<int (*)(int*)>({"libcudart.so.13", "libcudart.so.12"}, "cudaRuntimeGetVersion");
      get != nullptr && get(&version) == 0)
    h.cuda = version_text(version);
  h.process = getpid();
  const auto take = [&h](const RankVariables& launcher) {
    if (h.rank >= 0 || number(launcher.rank) < 0 || number(launcher.ranks) < 0) return;
    h.rank = number(launcher.rank);
    h.ranks = number(launcher.ranks);
  };
  take(kTorchrun);
  for (const RankVariables& each : kMpiLaunchers) take(each);
  return h;
}

/// A path that does not exist: a program that runs exec() has the same process id again.
std::string new_file(const std::string& base) {
  const std::string first = base + "." + std::to_string(getpid());
  std::string path = first;
  for (int again = 2; access(path.c_str(), F_OK) == 0; ++again) path = first + "-" + std::to_string(again);
  return path;
}

/// Registers with CUPTI. Returns a sentence if it refuses, "" on success.
std::string subscribe(Recording& r) {
  CUpti_SubscriberHandle subscriber = nullptr;
  CUptiResult result = CUPTI_SUCCESS;
  char other[2 * CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
  if (r.cupti.subscribe_v2 != nullptr) {
    CUpti_SubscriberParams parameters{};
    parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    parameters.subscriberName = "tracecast";
    parameters.oldSubscriberName = other;
    parameters.oldSubscriberSize = sizeof other;
    result = r.cupti.subscribe_v2(&subscriber, on_call, nullptr, &parameters);
  } else {
    result = r.cupti.subscribe(&subscriber, on_call, nullptr);
  }
  if (result != CUPTI_SUCCESS && other[0] != '\0')
    return std::string("another profiler records this program: ") + other;
  if (result != CUPTI_SUCCESS) return r.cupti.error("cuptiSubscribe", result);
  result = r.cupti.register_callbacks(give_buffer, take_buffer);
  if (result != CUPTI_SUCCESS) return r.cupti.error("cuptiActivityRegisterCallbacks", result);
  if (!r.on_demand) return "";
  for (const CUpti_CallbackId id : {CUPTI_DRIVER_TRACE_CBID_cuProfilerStart, CUPTI_DRIVER_TRACE_CBID_cuProfilerStop}) {
    result = r.cupti.enable_callback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
    if (result != CUPTI_SUCCESS) return r.cupti.error("cuptiEnableCallback", result);
  }
  return "";
}

std::int64_t cupti_now() {
  std::uint64_t time = 0;
  return recording != nullptr && recording->cupti.get_timestamp(&time) == CUPTI_SUCCESS
             ? static_cast<std::int64_t>(time)
             : 0;
}

/// The thread takes no signals: they are for the program.
void start_flushes(Recording& r) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([&r] { run_flushes(r); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// "": the recording runs, or nobody asked for one.
std::string start() {
  const std::string path = variable("TRACECAST_TRACE");
  if (path.empty() || recording != nullptr) return "";
  auto r = std::make_unique<Recording>();
  r->process = getpid();
  r->on_demand = variable("TRACECAST_RANGE") == "cuda-profiler";
  r->delay = std::atof(variable("TRACECAST_DELAY").c_str());
  r->duration = std::atof(variable("TRACECAST_DURATION").c_str());
  std::string error = r->cupti.load();
  if (error.empty()) error = subscribe(*r);
  if (error.empty() && !r->on_demand && r->delay == 0) {
    const std::lock_guard lock(r->mutex);
    error = switch_records(*r, true);
  }
  TraceHeader h = header(r->cupti);
  h.error = error;
  r->writer = std::make_unique<TraceWriter>(new_file(path), h);
  if (!r->writer->good()) return "the trace cannot be written";
  if (!error.empty()) return error;
  const CuptiLibrary& cupti = r->cupti;
  r->nccl = std::make_unique<nccl::Recorder>(
      *r->writer,
      nccl::Clock{cupti_now,
                  [&cupti](std::int64_t id) { cupti.push_external_id(kOurIds, static_cast<std::uint64_t>(id)); },
                  [&cupti] { cupti.pop_external_id(kOurIds, nullptr); }});
  recording = r.release();
  pthread_atfork(nullptr, nullptr, in_forked_child);
  start_flushes(*recording);
  return std::atexit(end_of_program) == 0 ? "" : "the end of the program cannot be noticed";
}

void write_version_of_nccl(TraceWriter& writer) {
  int version = 0;
  const auto get = loaded_function<int (*)(int*)>({"libnccl.so.2"}, "ncclGetVersion");
  if (get == nullptr || get(&version) != 0) return;  // 22809
  const std::string text = std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
                           std::to_string(version % 100);
  writer.library("nccl", text);
}

/// Interfaces of both versions differ in the order of arguments only.
int begin_communicator(void** context, int* events, std::uint64_t communicator, int nodes, int ranks, int rank,
                       int mask) {
  *context = nullptr;
  *events = 0;
  Recording* const r = recording;
  if (r == nullptr) return 0;  // NCCL started before CUDA, or the recording could not start
  static std::once_flag once;
  std::call_once(once, [r] { write_version_of_nccl(*r->writer); });
  *context = r->nccl->begin_communicator(communicator, nodes, ranks, rank);
  *events = mask;
  return 0;
}

int nccl_init(void** context, std::uint64_t communicator, int* events, const char*, int nodes, int ranks, int rank,
              void*) {
  return begin_communicator(context, events, communicator, nodes, ranks, rank, nccl::Recorder::kEvents);
}

int nccl_init_v6(void** context, std::uint64_t communicator, int* events, const char*, int nodes, int ranks, int rank,
                 void*) {
  return begin_communicator(context, events, communicator, nodes, ranks, rank, nccl::Recorder::kEventsV6);
}

int nccl_init_v4(void** context, int* events, const char*, std::uint64_t communicator, int nodes, int ranks, int rank,
                 void*) {
  return begin_communicator(context, events, communicator, nodes, ranks, rank, nccl::Recorder::kEventsV4);
}

template <class Event>
int nccl_start(void* context, void** handle, Event* event) {
  *handle = recording == nullptr || !recording->enabled ? nullptr : recording->nccl->start(context, *event);
  return 0;
}

int nccl_stop(void* handle) {
  if (recording != nullptr) recording->nccl->stop(handle);
  return 0;
}

int nccl_state(void*, int, void*) { return 0; }

int nccl_finalize(void* context) {
  if (recording != nullptr) recording->nccl->end_communicator(context);
  return 0;
}

}  // namespace

// NCCL looks up these symbols, the newest that it knows first.
extern "C" {
__attribute__((visibility("default"))) nccl::Profiler ncclProfiler_v6{
    "tracecast", nccl_init_v6, nccl_start<nccl::Event>, nccl_stop, nccl_state, nccl_finalize};
__attribute__((visibility("default")))
nccl::Profiler ncclProfiler_v5{"tracecast", nccl_init, nccl_start<nccl::Event>, nccl_stop, nccl_state, nccl_finalize};
__attribute__((visibility("default"))) nccl::ProfilerV4 ncclProfiler_v4{
    "tracecast", nccl_init_v4, nccl_start<nccl::EventV4>, nccl_stop, nccl_state, nccl_finalize};
}

// NVTX loads this library too (NVTX_INJECTION64_PATH); CUPTI's entry point does the work.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(void* get_table) {
  CuptiLibrary cupti;
  if (!cupti.load().empty() || cupti.initialize_nvtx == nullptr) return 0;
  return cupti.initialize_nvtx(get_table);
}

// A program may say what it launches: kernels that this thread launches between tracecast_push and tracecast_pop are the operator `name`
// ("fc2"), or have the sizes that it names ("aten::mm, sizes = [[8192, 4096], [4096, 12288]]"). Pairs may be nested; the innermost
// counts. Without a recording both do nothing.
extern "C" __attribute__((visibility("default"))) void tracecast_push(const char* name) {
  Recording* const r = recording;
  if (r == nullptr) return;
  const std::int64_t id = r->next_operator++;
  if (r->enabled) r->writer->operator_id(id, name == nullptr ? "" : name);
  r->cupti.push_external_id(kOurIds, static_cast<std::uint64_t>(id));
}

extern "C" __attribute__((visibility("default"))) void tracecast_pop() {
  if (recording != nullptr) recording->cupti.pop_external_id(kOurIds, nullptr);
}

// CUDA expects 1; any other value would stop the program. A failed recording must not do that.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  if (const std::string error = start(); !error.empty())
    std::fprintf(stderr, "tracecast: the program runs without a recording: %s\n", error.c_str());
  return 1;
}
