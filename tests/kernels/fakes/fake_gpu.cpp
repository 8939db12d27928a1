// CUDA's runtime, cuBLASLt, cuDNN and NCCL without a GPU, for tracecast-cuda-worker: nothing is computed. What matters about the order of
// calls is written to FAKE_GPU_LOG:
//   environment MODULE_LOADING MAX_CONNECTIONS   as the program set them before its first call
//   multiply STREAM WORKSPACE, attend STREAM WORKSPACE
//   collective STREAM; abort or destroy          of a communicator
//   waits CALL                                   a call that may wait for the whole GPU while a collective of this rank runs
// FAKE_GPU_REFUSE=NAME: launches of kernels whose name contains it are refused.
// FAKE_GPU_LOST=N: after N collectives another rank is lost: no work ends any more, and to destroy a communicator takes for ever.

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

struct Fake {
  std::FILE* log = nullptr;
  std::map<const void*, std::string> kernels;  ///< by the host's stub
  void* launch_stream = nullptr;
  cudaError_t last = cudaSuccess;
  std::set<const void*> busy;                 ///< streams with a collective that has not been waited for
  std::map<const void*, const void*> events;  ///< [event] the stream that recorded it
  std::map<const void*, float> recorded_ms;   ///< [event]
  float now_ms = 0;
  std::map<void*, std::size_t> allocations;
  const void* cudnn_stream = nullptr;
  std::map<const void*, const void*> workspaces;  ///< [variant pack]
  std::set<const void*> plans;
  int collectives = 0;
  std::uintptr_t last_handle = 0x1000;

  __attribute__((format(printf, 2, 3))) void line(const char* format, ...) {
    const char* const path = std::getenv("FAKE_GPU_LOG");
    if (path == nullptr) return;
    if (log == nullptr) log = std::fopen(path, "w");
    std::va_list arguments;
    va_start(arguments, format);
    std::vfprintf(log, format, arguments);
    va_end(arguments);
    std::fflush(log);
  }
  void may_wait(const char* call) {
    if (!busy.empty()) line("waits %s\n", call);
  }
  bool lost() const {
    const char* const after = std::getenv("FAKE_GPU_LOST");
    return after != nullptr && collectives > std::atoi(after);
  }
  template <class Handle>
  Handle handle() {
    return reinterpret_cast<Handle>(last_handle += 16);
  }
};

/// Never destroyed: kernels register before main, and the program's destructors call after it.
Fake& fake() {
  static Fake& one = *new Fake;
  return one;
}

cudaError_t state_of(const void* stream) {
  if (fake().lost()) return cudaErrorNotReady;
  fake().busy.erase(stream);
  return cudaSuccess;
}

ncclResult_t collective(cudaStream_t stream) {
  ++fake().collectives;
  fake().busy.insert(stream);
  fake().line("collective %p\n", static_cast<void*>(stream));
  return ncclSuccess;
}

ncclResult_t make(ncclComm_t* communicator) {
  *communicator = fake().handle<ncclComm_t>();
  return ncclSuccess;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* binary = nullptr;
  return &binary;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  fake().kernels[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void* stream) {
  fake().launch_stream = stream;
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void* stream) {
  *static_cast<void**>(stream) = fake().launch_stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, std::size_t, cudaStream_t) {
  const char* const refused = std::getenv("FAKE_GPU_REFUSE");
  if (refused != nullptr && fake().kernels[kernel].find(refused) != std::string::npos)
    fake().last = cudaErrorInvalidConfiguration;
  return fake().last;
}
cudaError_t cudaGetLastError() {
  const cudaError_t last = fake().last;
  fake().last = cudaSuccess;
  return last;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidConfiguration ? "invalid configuration argument" : "an error of the fake runtime";
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  const auto variable = [](const char* name) { return std::getenv(name) == nullptr ? "-" : std::getenv(name); };
  fake().line("environment %s %s\n", variable("CUDA_MODULE_LOADING"), variable("CUDA_DEVICE_MAX_CONNECTIONS"));
  *count = 2;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::snprintf(properties->name, sizeof properties->name, "NVIDIA H100 80GB HBM3");
  properties->major = 9;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{80} << 30;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  fake().may_wait("cudaMalloc");
  *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  fake().allocations[*memory] = bytes;
  return *memory == MAP_FAILED ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  fake().may_wait("cudaFree");
  munmap(memory, fake().allocations[memory]);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void*, const void*, std::size_t, cudaMemcpyKind) {
  fake().may_wait("cudaMemcpy");
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemset(void*, int, std::size_t) { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void*, int, std::size_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  fake().may_wait("cudaDeviceSynchronize");
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = fake().handle<cudaStream_t>();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return state_of(stream); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  fake().busy.erase(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = fake().handle<cudaEvent_t>();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  fake().events[event] = stream;
  fake().recorded_ms[event] = fake().now_ms += 0.01F;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return state_of(fake().events[event]); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return state_of(fake().events[event]); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = fake().recorded_ms[end] - fake().recorded_ms[begin];
  return cudaSuccess;
}

std::size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the fake cuBLASLt"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = fake().handle<cublasLtHandle_t>();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
  *made = fake().handle<cublasLtMatmulDesc_t>();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*,
                                              std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType, std::uint64_t, std::uint64_t,
                                          std::int64_t) {
  *made = fake().handle<cublasLtMatrixLayout_t>();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void*,
                                                std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = fake().handle<cublasLtMatmulPreference_t>();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t*,
                                              int* found) {
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t,
                              const void*, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t,
                              void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void* workspace, std::size_t,
                              cudaStream_t stream) {
  fake().line("multiply %p %p\n", static_cast<void*>(stream), workspace);
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the fake cuDNN"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = fake().handle<cudnnHandle_t>();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t stream) {
  fake().cudnn_stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* made) {
  *made = fake().handle<cudnnBackendDescriptor_t>();
  if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) fake().plans.insert(*made);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  if (fake().plans.contains(descriptor)) fake().may_wait("cudnnBackendFinalize");  // loads its kernel
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t, const void* values) {
  if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
    fake().workspaces[descriptor] = *static_cast<const void* const*>(values);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t type, std::int64_t, std::int64_t* count,
                                       void* values) {
  *count = 1;
  if (type == CUDNN_TYPE_INT64) *static_cast<std::int64_t*>(values) = 1 << 20;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t pack) {
  fake().line("attend %p %p\n", fake().cudnn_stream, fake().workspaces[pack]);
  return CUDNN_STATUS_SUCCESS;
}

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t error) {
  return error == ncclRemoteError ? "remote process exited or there was a network error" : "no error";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId*) { return ncclSuccess; }
ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int, ncclUniqueId, int) { return make(communicator); }
ncclResult_t ncclCommSplit(ncclComm_t, int colour, int, ncclComm_t* part, ncclConfig_t*) {
  return colour == NCCL_SPLIT_NOCOLOR ? ncclSuccess : make(part);
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  fake().line("destroy\n");
  while (fake().lost()) pause();
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  fake().line("abort\n");
  fake().busy.clear();
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = fake().lost() ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t, int* count) {
  *count = 2;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t, int* rank) {
  *rank = 0;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }
ncclResult_t ncclAllReduce(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t s) {
  return collective(s);
}
ncclResult_t ncclAllGather(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t s) {
  return collective(s);
}
ncclResult_t ncclReduceScatter(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               cudaStream_t s) {
  return collective(s);
}
ncclResult_t ncclBroadcast(const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t s) {
  return collective(s);
}
ncclResult_t ncclSend(const void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t s) {
  return collective(s);
}
ncclResult_t ncclRecv(void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t s) { return collective(s); }
}
