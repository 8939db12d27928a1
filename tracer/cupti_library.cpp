#include "tracer/cupti_library.hpp"

#include <string>
#include <vector>

#include <dlfcn.h>

#include "tracer/environment.hpp"

namespace tracecast {
namespace {

constexpr const char* kName = "libcupti.so.13";  // the records' layout is that of CUPTI 13

/// The folder of this library.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  return path.substr(0, path.find_last_of('/'));
}

void* open_library() {
  if (const std::string named = variable("TRACECAST_CUPTI"); !named.empty()) return dlopen(named.c_str(), RTLD_NOW);
  if (void* const loaded = dlopen(kName, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  std::vector<std::string> paths{own_folder() + "/" + kName, kName};
  for (const std::string& root : {variable("CUDA_HOME"), variable("CUDA_PATH"), std::string("/usr/local/cuda")})
    for (const char* folder : {"/extras/CUPTI/lib64/", "/lib64/", "/lib/"})
      if (!root.empty()) paths.push_back(root + folder + kName);
  for (const std::string& path : paths)
    if (void* const library = dlopen(path.c_str(), RTLD_NOW)) return library;
  return nullptr;
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::string CuptiLibrary::load() {
  void* const library = open_library();
  if (library == nullptr) return std::string("CUPTI was not found (") + kName + "; set TRACECAST_CUPTI to its path)";
  const bool complete =
      find(library, "cuptiGetVersion", get_version) && find(library, "cuptiGetTimestamp", get_timestamp) &&
      find(library, "cuptiGetCallbackName", get_callback_name) && find(library, "cuptiSubscribe", subscribe) &&
      find(library, "cuptiEnableCallback", enable_callback) &&
      find(library, "cuptiActivityRegisterCallbacks", register_callbacks) &&
      find(library, "cuptiActivityEnable", enable) && find(library, "cuptiActivityDisable", disable) &&
      find(library, "cuptiActivityFlushAll", flush_all) &&
      find(library, "cuptiActivityGetNextRecord", get_next_record) &&
      find(library, "cuptiActivityGetNumDroppedRecords", get_dropped) &&
      find(library, "cuptiActivityPushExternalCorrelationId", push_external_id) &&
      find(library, "cuptiActivityPopExternalCorrelationId", pop_external_id);
  find(library, "cuptiGetErrorMessage", get_error_message);
  find(library, "cuptiSubscribe_v2", subscribe_v2);
  find(library, "cuptiActivityEnableRuntimeApi", enable_runtime_call);
  find(library, "cuptiActivityEnableDriverApi", enable_driver_call);
  find(library, "InitializeInjectionNvtx2", initialize_nvtx);
  return complete ? "" : "CUPTI lacks a function that the recorder needs: it is older than version 13";
}

std::string CuptiLibrary::error(const char* call, CUptiResult result) const {
  const char* message = nullptr;
  if (get_error_message == nullptr || get_error_message(result, &message) != CUPTI_SUCCESS || message == nullptr)
    message = "unknown error";
  return std::string(call) + ": " + message + " (" + std::to_string(static_cast<int>(result)) + ")";
}

}  // namespace tracecast
