#include "kernels/cuda/collectives.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "kernels/cuda/waiting.hpp"
#include "sim/base/integers.hpp"

#define TRACECAST_NCCL(call) TRACECAST_CHECKED(call, ncclSuccess, ncclGetErrorString(status_))

namespace tracecast::cuda {
namespace {

/// Number of bf16 elements in `bytes`, rounded up to equal shares of `ranks`.
struct Shares {
  std::size_t each;
  std::size_t all;
};
Shares shares_of(std::int64_t bytes, int ranks) {
  const std::int64_t elements = (bytes + 1) / 2;
  const std::int64_t each = std::max<std::int64_t>(1, ceil_div(elements, ranks));
  return {static_cast<std::size_t>(each), static_cast<std::size_t>(each * ranks)};
}

const char* at(const void* base, std::size_t elements) { return static_cast<const char*>(base) + 2 * elements; }
char* at(void* base, std::size_t elements) { return static_cast<char*>(base) + 2 * elements; }

}  // namespace

NcclGroup::~NcclGroup() {
  if (communicator_ == nullptr) return;
  // ncclCommDestroy waits for the other ranks: a rank that fails would never say why.
  if (std::uncaught_exceptions() > 0)
    ncclCommAbort(communicator_);
  else
    ncclCommDestroy(communicator_);
}

NcclGroup NcclGroup::split(int colour, int key) const {
  ncclComm_t part = nullptr;
  TRACECAST_NCCL(ncclCommSplit(communicator_, colour < 0 ? NCCL_SPLIT_NOCOLOR : colour, key, &part, nullptr));
  return NcclGroup(part);
}

void NcclGroup::run(const CollectiveCall& call, Driver& driver, cudaStream_t stream) const {
  int ranks = 1;
  TRACECAST_NCCL(ncclCommCount(communicator_, &ranks));
  const auto bytes = static_cast<std::int64_t>(2 * shares_of(call.size.count, ranks).all);
  const void* const in = driver.input(bytes);
  run_on(call, in, driver.output(bytes), stream);
}

void NcclGroup::run_on(const CollectiveCall& call, const void* in, void* out, cudaStream_t stream) const {
  int ranks = 1;
  int self = 0;
  TRACECAST_NCCL(ncclCommCount(communicator_, &ranks));
  TRACECAST_NCCL(ncclCommUserRank(communicator_, &self));
  const auto [each, all] = shares_of(call.size.count, ranks);
  const ncclDataType_t type = ncclBfloat16;
  switch (call.collective) {
    case Collective::all_reduce:
      TRACECAST_NCCL(ncclAllReduce(in, out, all, type, ncclSum, communicator_, stream));
      return;
    case Collective::all_gather:
      TRACECAST_NCCL(ncclAllGather(in, out, each, type, communicator_, stream));
      return;
    case Collective::reduce_scatter:
      TRACECAST_NCCL(ncclReduceScatter(in, out, each, type, ncclSum, communicator_, stream));
      return;
    case Collective::broadcast:
      TRACECAST_NCCL(ncclBroadcast(in, out, all, type, 0, communicator_, stream));
      return;
    case Collective::all_to_all:
      TRACECAST_NCCL(ncclGroupStart());
      for (int peer = 0; peer < ranks; ++peer) {
        const std::size_t from = static_cast<std::size_t>(peer) * each;
        TRACECAST_NCCL(ncclSend(at(in, from), each, type, peer, communicator_, stream));
        TRACECAST_NCCL(ncclRecv(at(out, from), each, type, peer, communicator_, stream));
      }
      TRACECAST_NCCL(ncclGroupEnd());
      return;
    case Collective::send_recv:
      TRACECAST_NCCL(ncclGroupStart());
      TRACECAST_NCCL(ncclSend(in, all, type, (self + 1) % ranks, communicator_, stream));
      TRACECAST_NCCL(ncclRecv(out, all, type, (self + ranks - 1) % ranks, communicator_, stream));
      TRACECAST_NCCL(ncclGroupEnd());
      return;
  }
}

void NcclGroup::send(std::int64_t bytes, int peer, Driver& driver, cudaStream_t stream) const {
  TRACECAST_NCCL(
      ncclSend(driver.input(bytes), static_cast<std::size_t>(bytes), ncclUint8, peer, communicator_, stream));
}

void NcclGroup::receive(std::int64_t bytes, int peer, Driver& driver, cudaStream_t stream) const {
  TRACECAST_NCCL(
      ncclRecv(driver.output(bytes), static_cast<std::size_t>(bytes), ncclUint8, peer, communicator_, stream));
}

void NcclGroup::barrier(Driver& driver, cudaStream_t stream) const {
  run({Collective::all_reduce, Bytes{8}, Algorithm::automatic, Protocol::automatic}, driver, stream);
  wait(stream);
}

void NcclGroup::check() const {
  if (communicator_ == nullptr) return;
  ncclResult_t error = ncclSuccess;
  TRACECAST_NCCL(ncclCommGetAsyncError(communicator_, &error));
  if (error != ncclSuccess && error != ncclInProgress)
    throw DeviceError(std::string("NCCL lost another rank: ") + ncclGetErrorString(error));
}

void NcclGroup::wait(cudaStream_t stream) const {
  wait_for([stream] { return state_of(cudaStreamQuery(stream)); }, [this] { check(); });
}

void GraphGroups::check() const {
  for (const std::vector<NcclGroup>* groups : {&communicators_, &outgoing_, &incoming_})
    for (const NcclGroup& group : *groups) group.check();
}

NcclGroup nccl_world(const Rendezvous& rendezvous) {
  const JobRank& self = rendezvous.self();
  ncclUniqueId id{};
  if (self.rank == 0) TRACECAST_NCCL(ncclGetUniqueId(&id));
  if (self.ranks > 1 && self.rank == 0) {
    const Result<void> published = rendezvous.publish("nccl-id", std::string(id.internal, sizeof id.internal));
    if (!published) throw DeviceError(to_string(published.error()));
  }
  if (self.rank != 0) {
    const Result<std::string> bytes = rendezvous.fetch("nccl-id", 0);
    if (!bytes) throw DeviceError(to_string(bytes.error()));
    if (bytes->size() != sizeof id.internal)
      throw DeviceError("NCCL's unique id has the wrong size (do two jobs use the same folder?)");
    std::memcpy(id.internal, bytes->data(), sizeof id.internal);
  }
  ncclComm_t communicator = nullptr;
  TRACECAST_NCCL(ncclCommInitRank(&communicator, self.ranks, id, self.rank));
  return NcclGroup(communicator);
}

GraphGroups::GraphGroups(const StepGraph& graph, std::int32_t rank, const NcclGroup& world) {
  // Every rank runs through the same list, since all must take part in each split.
  for (const Communicator& communicator : graph.communicators) {
    const std::vector<std::int32_t>& members = communicator.members;
    const bool member = std::find(members.begin(), members.end(), rank) != members.end();
    communicators_.emplace_back();
    if (members.size() > 1) communicators_.back() = world.split(member ? 0 : -1, rank);
  }
  const Rank& self = graph.ranks[static_cast<std::size_t>(rank)];
  outgoing_.resize(self.channels.size());
  incoming_.resize(self.channels.size());
  for (std::int32_t from = 0; from < static_cast<std::int32_t>(graph.ranks.size()); ++from) {
    const std::vector<ChannelEnd>& channels = graph.ranks[static_cast<std::size_t>(from)].channels;
    for (std::size_t channel = 0; channel < channels.size(); ++channel) {
      const ChannelEnd to = channels[channel];
      if (to.rank < 0 || to.rank == from) continue;
      const bool mine = from == rank || to.rank == rank;
      NcclGroup pair = world.split(mine ? 0 : -1, from == rank ? 0 : 1);
      if (from == rank) outgoing_[channel] = std::move(pair);
      if (to.rank == rank) incoming_[static_cast<std::size_t>(to.channel)] = std::move(pair);
    }
  }
}

}  // namespace tracecast::cuda
