// NCCL between processes that computes nothing, loaded before fake_gpu.cpp: as the real one, the first message between two ranks of a
// communicator and its first collective of a kind block the host until the other ranks make the same call. Inside a group all calls
// count as made at its end.
//   FAKE_NCCL_FOLDER    an empty folder that the ranks share
//   FAKE_NCCL_SECONDS   after so many seconds the call is written to standard error, and the process ends with exit code 77
// Ranks are those of Open MPI's variables.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nccl.h>
#include <unistd.h>

namespace {

struct Communicator {
  std::string name;
  std::vector<int> members;  ///< ranks of the job
  int self = 0;
  std::set<std::string> connected;
};

struct Call {
  std::string own;
  std::vector<std::string> others;
};

std::vector<Call>& calls_of_group() {
  static std::vector<Call> calls;
  return calls;
}
int depth = 0;
int splits = 0;

int variable(const char* name) { return std::atoi(std::getenv(name)); }
int own_rank() { return variable("OMPI_COMM_WORLD_RANK"); }
std::filesystem::path file(const std::string& name) {
  return std::filesystem::path(std::getenv("FAKE_NCCL_FOLDER")) / name;
}

void publish(const std::string& name, const std::string& text = "") {
  std::ofstream(file(name + ".partial")) << text;
  std::filesystem::rename(file(name + ".partial"), file(name));
}

void await(const std::string& name) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(variable("FAKE_NCCL_SECONDS"));
  while (!std::filesystem::exists(file(name))) {
    if (std::chrono::steady_clock::now() > end) {
      std::fprintf(stderr, "rank %d waits for ever: %s\n", own_rank(), name.c_str());
      _exit(77);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void make_calls() {
  const std::vector<Call> calls = std::exchange(calls_of_group(), {});
  for (const Call& call : calls) publish(call.own);
  for (const Call& call : calls)
    for (const std::string& other : call.others) await(other);
}

ncclResult_t connect(ncclComm_t communicator, const std::string& what, const Call& call) {
  Communicator& c = *reinterpret_cast<Communicator*>(communicator);
  if (c.connected.insert(what).second) calls_of_group().push_back(call);
  if (depth == 0) make_calls();
  return ncclSuccess;
}

ncclResult_t message(ncclComm_t communicator, int peer, bool sends) {
  const Communicator& c = *reinterpret_cast<Communicator*>(communicator);
  const int from = sends ? c.self : peer;
  const int to = sends ? peer : c.self;
  const std::string name = c.name + ".from." + std::to_string(from) + ".to." + std::to_string(to);
  const Call call{name + (sends ? ".send" : ".receive"), {name + (sends ? ".receive" : ".send")}};
  return connect(communicator, call.own, call);
}

ncclResult_t collective(ncclComm_t communicator, const std::string& kind) {
  const Communicator& c = *reinterpret_cast<Communicator*>(communicator);
  Call call{c.name + "." + kind + "." + std::to_string(own_rank()), {}};
  for (const int member : c.members) call.others.push_back(c.name + "." + kind + "." + std::to_string(member));
  return connect(communicator, kind, call);
}

ncclComm_t made(Communicator communicator) {
  return reinterpret_cast<ncclComm_t>(new Communicator(std::move(communicator)));  // lives as long as the process
}

}  // namespace

extern "C" {

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId, int rank) {
  Communicator world{"world", {}, rank, {}};
  for (int member = 0; member < ranks; ++member) world.members.push_back(member);
  *communicator = made(std::move(world));
  return ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t, int colour, int key, ncclComm_t* part, ncclConfig_t*) {
  const std::string name = "split." + std::to_string(splits++);
  publish(name + "." + std::to_string(own_rank()), std::to_string(colour) + " " + std::to_string(key));
  std::map<std::pair<int, int>, int> members;  // [key, rank]
  for (int rank = 0; rank < variable("OMPI_COMM_WORLD_SIZE"); ++rank) {
    const std::string theirs = name + "." + std::to_string(rank);
    await(theirs);
    std::pair<int, int> read;  // colour, key
    std::ifstream(file(theirs)) >> read.first >> read.second;
    if (read.first == colour) members[{read.second, rank}] = rank;
  }
  if (colour == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  Communicator communicator{name + "." + std::to_string(colour), {}, 0, {}};
  for (const auto& [place, rank] : members) {
    if (rank == own_rank()) communicator.self = static_cast<int>(communicator.members.size());
    communicator.members.push_back(rank);
  }
  *part = made(std::move(communicator));
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  *count = static_cast<int>(reinterpret_cast<const Communicator*>(communicator)->members.size());
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  *rank = reinterpret_cast<const Communicator*>(communicator)->self;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--depth == 0) make_calls();
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t c, cudaStream_t) {
  return collective(c, "all-reduce");
}
ncclResult_t ncclAllGather(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t c, cudaStream_t) {
  return collective(c, "all-gather");
}
ncclResult_t ncclReduceScatter(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t c,
                               cudaStream_t) {
  return collective(c, "reduce-scatter");
}
ncclResult_t ncclBroadcast(const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t c, cudaStream_t) {
  return collective(c, "broadcast");
}
ncclResult_t ncclSend(const void*, std::size_t, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t) {
  return message(c, peer, true);
}
ncclResult_t ncclRecv(void*, std::size_t, ncclDataType_t, int peer, ncclComm_t c, cudaStream_t) {
  return message(c, peer, false);
}
}
