// A CUDA driver without a GPU, for cuDNN's planner: it accepts what cuDNN compiled. Nothing can be run with it.

#include <cstdint>

namespace {

/// A handle of its own for each library and kernel.
void* next_handle() {
  static std::uintptr_t last = 0;
  last += 16;
  return reinterpret_cast<void*>(last);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return 0; }

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  *library = next_handle();
  return 0;
}

int cuLibraryUnload(void*) { return 0; }

int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = next_handle();
  return 0;
}

int cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return 0;
}

int cuKernelSetAttribute(int, int, void*, int) { return 0; }

int cuFuncSetAttribute(void*, int, int) { return 0; }

int cuGetErrorString(int, const char** text) {
  *text = "not in this driver";
  return 0;
}

// cuDNN and NVRTC look these up; they return CUDA_ERROR_STUB_LIBRARY.
int cuCtxGetCurrent() { return 34; }
int cuCtxGetLimit() { return 34; }
int cuCtxPopCurrent() { return 34; }
int cuCtxPushCurrent() { return 34; }
int cuDeviceGet() { return 34; }
int cuDeviceGetCount() { return 34; }
int cuGetErrorName() { return 34; }
int cuGetExportTable() { return 34; }
int cuKernelGetAttribute() { return 34; }
int cuLaunchCooperativeKernel() { return 34; }
int cuLaunchKernel() { return 34; }
int cuLaunchKernelEx() { return 34; }
int cuLibraryLoadFromFile() { return 34; }
int cuLinkAddData() { return 34; }
int cuLinkComplete() { return 34; }
int cuLinkCreate() { return 34; }
int cuLinkDestroy() { return 34; }
int cuOccupancyMaxPotentialClusterSize() { return 34; }
int cuStreamGetCtx() { return 34; }
}
