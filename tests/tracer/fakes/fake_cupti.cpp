// A CUPTI without a GPU, for the tests of the recorder: takes records from the program that is recorded and hands them over as CUPTI
// does: in buffers of the client, complete records only unless the flush is forced.
//   FAKE_CUPTI_REFUSE    name of a function that returns an error
//   FAKE_CUPTI_OTHER     name of the profiler that has subscribed before
//   FAKE_CUPTI_SLOW_MS   a flush that is not forced delivers what it took so much later

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cupti.h>
#include <dlfcn.h>
#include <time.h>

namespace {

struct Fake {
  std::mutex mutex;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  bool kinds[CUPTI_ACTIVITY_KIND_COUNT] = {};
  std::map<std::pair<bool, std::uint32_t>, bool> calls;     ///< [driver, id] enabled one by one
  std::map<std::pair<int, std::uint32_t>, bool> callbacks;  ///< [domain, id]
  std::vector<std::vector<char>> records;
  std::size_t dropped = 0;
};
Fake& fake() {
  static Fake* const one = new Fake;
  return *one;
}

thread_local std::map<CUpti_ExternalCorrelationKind, std::vector<std::uint64_t>> external_ids;

bool refuses(const char* function) {
  const char* const name = std::getenv("FAKE_CUPTI_REFUSE");
  return name != nullptr && std::strcmp(name, function) == 0;
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(CUpti_ActivityDevice5);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    default:
      return 0;
  }
}

bool is_complete(const std::vector<char>& record) {
  CUpti_Activity plain;
  std::memcpy(&plain, record.data(), sizeof plain);
  if (plain.kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) return true;
  CUpti_ActivityKernel10 kernel;
  std::memcpy(&kernel, record.data(), sizeof kernel);
  return kernel.end != CUPTI_TIMESTAMP_UNKNOWN;
}

bool wanted(const CUpti_Activity& record) {
  if (fake().kinds[record.kind]) return true;
  if (record.kind != CUPTI_ACTIVITY_KIND_RUNTIME && record.kind != CUPTI_ACTIVITY_KIND_DRIVER) return false;
  CUpti_ActivityAPI call;
  std::memcpy(&call, &record, sizeof call);
  const std::uint32_t id = call.cbid;
  return fake().calls[{record.kind == CUPTI_ACTIVITY_KIND_DRIVER, id}];
}

void keep(const CUpti_Activity& record) {
  const char* const bytes = reinterpret_cast<const char*>(&record);
  fake().records.emplace_back(bytes, bytes + size_of(record.kind));
}

/// The calls that the tests make.
const std::map<std::pair<int, std::uint32_t>, const char*>& call_names() {
  static const std::map<std::pair<int, std::uint32_t>, const char*> kNames{
      {{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000}, "cudaLaunchKernel_v7000"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020}, "cudaGetDevice_v3020"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020}, "cudaMemcpyAsync_v3020"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020},
       "cudaStreamSynchronize_v3020"},
      {{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx}, "cuLaunchKernelEx"},
      {{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent}, "cuCtxGetCurrent"}};
  return kNames;
}

}  // namespace

extern "C" {

/// A copy in a folder that is named by a number has that as its version.
CUptiResult cuptiGetVersion(std::uint32_t* version) {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&cuptiGetVersion), &info);
  const std::string path = info.dli_fname == nullptr ? "" : info.dli_fname;
  const std::size_t folder = path.find_last_of('/', path.find_last_of('/') - 1);
  const int number = std::atoi(path.c_str() + (folder == std::string::npos ? 0 : folder + 1));
  *version = number > 0 ? static_cast<std::uint32_t>(number) : 130001;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(std::uint64_t* time) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetErrorMessage(CUptiResult, const char** message) {
  *message = "the fake refuses";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t id, const char** name) {
  const auto found = call_names().find({domain, id});
  if (found == call_names().end()) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = found->second;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void* user) {
  fake().callback = callback;
  fake().user = user;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* user,
                              CUpti_SubscriberParams* parameters) {
  if (const char* const other = std::getenv("FAKE_CUPTI_OTHER")) {
    std::strncpy(parameters->oldSubscriberName, other, parameters->oldSubscriberSize - 1);
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  if (fake().callback != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  return cuptiSubscribe(subscriber, callback, user);
}

CUptiResult cuptiEnableCallback(std::uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id) {
  fake().callbacks[{domain, id}] = enable != 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  if (refuses("cuptiActivityRegisterCallbacks")) return CUPTI_ERROR_NOT_INITIALIZED;
  fake().request = request;
  fake().complete = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (refuses("cuptiActivityEnable")) return CUPTI_ERROR_NOT_COMPATIBLE;
  const std::lock_guard lock(fake().mutex);
  fake().kinds[kind] = true;
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE) {
    CUpti_ActivityDevice5 device{};
    device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
    device.name = "NVIDIA H100 80GB HBM3";
    device.computeCapabilityMajor = 9;
    device.numMultiprocessors = 132;
    device.globalMemorySize = 85'017'493'504;
    for (device.id = 0; device.id < 2; ++device.id) keep(reinterpret_cast<const CUpti_Activity&>(device));
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(fake().mutex);
  fake().kinds[kind] = false;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, std::uint8_t enable) {
  const std::lock_guard lock(fake().mutex);
  fake().calls[{false, id}] = enable != 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, std::uint8_t enable) {
  const std::lock_guard lock(fake().mutex);
  fake().calls[{true, id}] = enable != 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(std::uint32_t flag) {
  std::vector<std::vector<char>> ready;
  {
    const std::lock_guard lock(fake().mutex);
    std::vector<std::vector<char>> rest;
    for (auto& record : fake().records)
      (flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED || is_complete(record) ? ready : rest).push_back(std::move(record));
    fake().records = std::move(rest);
  }
  if (ready.empty() || fake().request == nullptr) return CUPTI_SUCCESS;
  if (const char* const slow = std::getenv("FAKE_CUPTI_SLOW_MS"); slow != nullptr && flag == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(slow)));
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0;
  std::size_t most = 0;
  std::size_t used = 0;
  for (const auto& record : ready) {
    if (buffer != nullptr && used + record.size() > size)
      fake().complete(nullptr, 0, std::exchange(buffer, nullptr), size, used);
    if (buffer == nullptr) {
      fake().request(&buffer, &size, &most);
      used = 0;
    }
    std::memcpy(buffer + used, record.data(), record.size());
    used += record.size();
  }
  fake().complete(nullptr, 0, buffer, size, used);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  std::uint8_t* const next =
      *record == nullptr ? buffer : reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  *dropped = std::exchange(fake().dropped, 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  external_ids[kind].push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) {
  if (external_ids[kind].empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = external_ids[kind].back();
  external_ids[kind].pop_back();
  return CUPTI_SUCCESS;
}

int InitializeInjectionNvtx2(void*) { return 1; }

// What the recorded program calls.

void fake_cupti_record(const CUpti_Activity* record) {
  const std::lock_guard lock(fake().mutex);
  if (!wanted(*record)) return;
  if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME || record->kind == CUPTI_ACTIVITY_KIND_DRIVER) {
    CUpti_ActivityAPI call;
    std::memcpy(&call, record, sizeof call);
    for (const auto& [kind, ids] : external_ids) {
      if (ids.empty() || !fake().kinds[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION]) continue;
      CUpti_ActivityExternalCorrelation external{};
      external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      external.externalKind = kind;
      external.externalId = ids.back();
      external.correlationId = call.correlationId;
      keep(reinterpret_cast<const CUpti_Activity&>(external));
    }
  }
  keep(*record);
}

void fake_cupti_drop(std::size_t count) { fake().dropped += count; }

void fake_cupti_profiler(int starts) {
  const CUpti_CallbackId id = starts ? CUPTI_DRIVER_TRACE_CBID_cuProfilerStart : CUPTI_DRIVER_TRACE_CBID_cuProfilerStop;
  if (fake().callback == nullptr || !fake().callbacks[{CUPTI_CB_DOMAIN_DRIVER_API, id}]) return;
  for (const CUpti_ApiCallbackSite site : {CUPTI_API_ENTER, CUPTI_API_EXIT}) {
    CUpti_CallbackData data{};
    data.callbackSite = site;
    fake().callback(fake().user, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
  }
}
}
