#include "tools/process_group.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <dlfcn.h>

namespace tracecast::cli {
namespace {

/// Set by Open MPI's mpirun for the processes that it starts.
int processes_started() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size == nullptr ? 1 : std::atoi(size);
}

void* load_module() {
  std::error_code code;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", code);
  const std::filesystem::path folder = program.parent_path();
  for (const std::filesystem::path& place : {folder, folder.parent_path() / "lib" / "tracecast"})
    if (void* module = dlopen((place / "libtracecast_mpi.so").c_str(), RTLD_NOW | RTLD_GLOBAL)) return module;
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<ProcessGroup>> launched_processes() {
  if (processes_started() <= 1) return nullptr;
  void* module = load_module();
  void* entry = module == nullptr ? nullptr : dlsym(module, "tracecast_mpi_process_group");
  if (entry == nullptr)
    return fail_key("mpirun", std::to_string(processes_started()) + " processes",
                    "this program was built without MPI (allowed: one process; --threads for more cores)");
  return std::unique_ptr<ProcessGroup>(reinterpret_cast<ProcessGroup* (*)()>(entry)());
}

}  // namespace tracecast::cli
