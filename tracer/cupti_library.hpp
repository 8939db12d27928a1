/// \file
/// CUPTI, loaded at run time: the program may have brought its own, and CUPTI's folder is in no loader's path.
#pragma once

#include <string>

#include <cupti.h>

namespace tracecast {

/// The functions that the recorder calls. Those marked * are optional: nullptr in an older library.
struct CuptiLibrary {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetTimestamp) get_timestamp = nullptr;
  decltype(&cuptiGetErrorMessage) get_error_message = nullptr;  ///< *
  decltype(&cuptiGetCallbackName) get_callback_name = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiSubscribe_v2) subscribe_v2 = nullptr;  ///< *
  decltype(&cuptiEnableCallback) enable_callback = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityEnableRuntimeApi) enable_runtime_call = nullptr;  ///< *
  decltype(&cuptiActivityEnableDriverApi) enable_driver_call = nullptr;    ///< *
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) get_dropped = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external_id = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external_id = nullptr;
  int (*initialize_nvtx)(void* get_table) = nullptr;  ///< *

  /// Loads the library that $TRACECAST_CUPTI names, else the one that the program has loaded, else the first that is found beside
  /// this library, in the loader's path and in the CUDA toolkit. Returns a sentence if there is none; "" on success.
  std::string load();
  /// "cuptiActivityEnable: CUPTI_ERROR_…" as text.
  std::string error(const char* call, CUptiResult result) const;
};

}  // namespace tracecast
