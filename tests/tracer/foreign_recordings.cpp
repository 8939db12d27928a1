#include "tests/tracer/foreign_recordings.hpp"

#include <fstream>
#include <map>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sqlite3.h>

namespace tracecast::test {
namespace {

std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

/// The names of ProcessGroupNCCL, and how many elements of the larger buffer a rank puts in and gets out.
struct Torch {
  const char* name;
  bool shares_in;
  bool shares_out;
};
Torch torch_of(const std::string& name) {
  if (name == "AllGather") return {"_allgather_base", true, false};
  if (name == "ReduceScatter") return {"_reduce_scatter_base", false, true};
  if (name == "AllReduce") return {"allreduce", false, false};
  FAIL("no name in PyTorch: " << name);
  return {};
}

std::string arguments_of(const TraceCollective& c) {
  const Torch torch = torch_of(c.name);
  return fmt::format(
      R"(,"Collective name":"{}","In msg nelems":{},"Out msg nelems":{},"Group size":{},"dtype":"{}","Process Group Name":"{:x}","Seq":{})",
      torch.name, torch.shares_in ? c.count / c.ranks : c.count, torch.shares_out ? c.count / c.ranks : c.count,
      c.ranks, c.type == "ncclInt8" ? "Char" : "BFloat16", c.communicator, c.sequence);
}

class Database {
 public:
  explicit Database(const std::filesystem::path& path) {
    REQUIRE(sqlite3_open(path.c_str(), &database_) == SQLITE_OK);
    run("BEGIN");
  }
  ~Database() {
    sqlite3_exec(database_, "COMMIT", nullptr, nullptr, nullptr);
    sqlite3_close(database_);
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  void run(const std::string& statement) {
    REQUIRE(sqlite3_exec(database_, statement.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  }

 private:
  sqlite3* database_ = nullptr;
};

}  // namespace

void write_kineto(const Trace& trace, const std::filesystem::path& path) {
  std::map<std::int64_t, const TraceCollective*> of_kernel;  // by start
  for (const TraceCollective& each : trace.collectives) of_kernel[each.start_ns] = &each;
  std::ofstream file(path);
  file << fmt::format(
      R"({{"schemaVersion":1,"deviceProperties":[{{"id":0,"name":"{}"}}],"distributedInfo":{{"backend":"nccl","rank":{},"world_size":{}}},"traceEvents":[)",
      trace.header.gpu, trace.header.rank, trace.header.ranks);
  for (const TraceCall& each : trace.calls)
    file << fmt::format(
        R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":{},"ts":{},"dur":{},"args":{{"correlation":{}}}}},)"
        "\n",
        each.thread, microseconds(each.start_ns), microseconds(each.end_ns - each.start_ns), each.correlation);
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const TraceKernel& k = trace.kernels[i];
    const auto collective = k.name.starts_with("nccl") ? of_kernel.find(k.start_ns) : of_kernel.end();
    file << fmt::format(
        R"({}{{"ph":"X","cat":"kernel","name":"{}","pid":0,"tid":{},"ts":{},"dur":{},"args":{{"device":0,"stream":{},"correlation":{},"grid":[{},1,1],"block":[{},1,1]{}}}}})"
        "\n",
        i == 0 ? "" : ",", k.name, k.stream, microseconds(k.start_ns), microseconds(k.end_ns - k.start_ns), k.stream,
        k.correlation, k.blocks, k.threads, collective == of_kernel.end() ? "" : arguments_of(*collective->second));
  }
  file << "]}";
}

void write_nsight(const std::vector<Trace>& ranks, const std::filesystem::path& path) {
  Database database(path);
  std::map<std::string, std::size_t> strings;
  const auto text = [&](const std::string& value) {
    const auto [found, added] = strings.try_emplace(value, strings.size() + 1);
    if (added) database.run(fmt::format("INSERT INTO StringIds VALUES({},'{}')", found->second, value));
    return found->second;
  };
  database.run("CREATE TABLE StringIds(id INTEGER, value TEXT)");
  database.run("CREATE TABLE TARGET_INFO_GPU(id, name)");
  database.run("CREATE TABLE TARGET_INFO_CUDA_DEVICE(pid, cudaId, gpuId)");
  database.run("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, end, globalTid, correlationId, nameId)");
  database.run(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, correlationId, globalPid, "
      "demangledName, "
      "shortName, gridX, gridY, gridZ, blockX, blockY, blockZ)");
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Trace& trace = ranks[r];
    const std::size_t process = 100 + r;
    database.run(fmt::format("INSERT INTO TARGET_INFO_GPU VALUES({},'{}')", r, trace.header.gpu));
    database.run(fmt::format("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES({},0,{})", process, r));
    for (const TraceCall& each : trace.calls)
      database.run(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES({},{},{},{},{})", each.start_ns,
                               each.end_ns, (process << 24) + 1, each.correlation, text("cudaLaunchKernel_v7000")));
    for (const TraceKernel& k : trace.kernels)
      database.run(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES({},{},0,{},{},{},{},{},{},1,1,{},1,1)",
                               k.start_ns, k.end_ns, k.stream, k.correlation, process << 24, text(k.name), text(k.name),
                               k.blocks, k.threads));
  }
}

}  // namespace tracecast::test
