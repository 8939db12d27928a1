// A CUDA driver without a GPU, for the tests of the recorder: cuInit loads the injection library as the driver does.

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuInit(unsigned) {
  const char* const path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr) return 0;
  void* const library = dlopen(path, RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const auto initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  return initialize != nullptr && initialize() == 1 ? 0 : 1;
}
}
