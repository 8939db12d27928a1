/// \file
/// Collectives and messages by NCCL: one process a GPU. A rank that is alone has a communicator of one, on which every
/// collective is a copy.
#pragma once

#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "kernels/cuda/driver.hpp"
#include "kernels/cuda/rendezvous.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast::cuda {

/// A communicator that ends with its owner.
class NcclGroup {
 public:
  NcclGroup() = default;
  explicit NcclGroup(ncclComm_t communicator) : communicator_(communicator) {}
  ~NcclGroup();
  NcclGroup(NcclGroup&& other) noexcept : communicator_(std::exchange(other.communicator_, nullptr)) {}
  NcclGroup& operator=(NcclGroup&& other) noexcept {
    std::swap(communicator_, other.communicator_);
    return *this;
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  ncclComm_t raw() const { return communicator_; }
  bool none() const { return communicator_ == nullptr; }

  /// Those of this group's ranks that name the same colour; all must call. Colour -1: in none of the new ones.
  NcclGroup split(int colour, int key) const;

  void run(const CollectiveCall& call, Driver& driver, cudaStream_t stream) const;
  /// As run(), on memory of the caller's. Sizes in bytes as CollectiveCall counts them, rounded up to equal shares of
  /// bf16; `in` and `out` hold them all.
  void run_on(const CollectiveCall& call, const void* in, void* out, cudaStream_t stream) const;
  void send(std::int64_t bytes, int peer, Driver& driver, cudaStream_t stream) const;
  void receive(std::int64_t bytes, int peer, Driver& driver, cudaStream_t stream) const;
  /// All ranks have come; waits for them.
  void barrier(Driver& driver, cudaStream_t stream) const;

 private:
  ncclComm_t communicator_ = nullptr;
};

/// Of all ranks of the job. Errors: they did not find each other. Throws DeviceError for NCCL's own.
Result<NcclGroup> nccl_world(const Rendezvous& rendezvous);

/// The groups that a rank of a step graph takes part in: each communicator of the graph, and one of two ranks for each
/// direction of each channel, since NCCL wants the operations of a communicator in one order on all of its ranks.
class GraphGroups {
 public:
  /// All ranks of `world` together; its ranks are those of the graph.
  GraphGroups(const StepGraph& graph, std::int32_t rank, const NcclGroup& world);

  const NcclGroup& communicator(std::int32_t index) const { return communicators_[static_cast<std::size_t>(index)]; }
  /// To or from the other end of channel `channel` of this rank, as a group of two in which the sender is rank 0.
  const NcclGroup& outgoing(std::int32_t channel) const { return outgoing_[static_cast<std::size_t>(channel)]; }
  const NcclGroup& incoming(std::int32_t channel) const { return incoming_[static_cast<std::size_t>(channel)]; }

 private:
  std::vector<NcclGroup> communicators_;
  std::vector<NcclGroup> outgoing_;
  std::vector<NcclGroup> incoming_;
};

}  // namespace tracecast::cuda
