/// \file
/// Collectives and messages with NCCL, one process per GPU. A single rank has a communicator of size one, on which every
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

/// Owns a communicator.
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

  /// Splits the group by colour; all ranks must call. Colour -1: this rank joins no new group.
  NcclGroup split(int colour, int key) const;

  void run(const CollectiveCall& call, Driver& driver, cudaStream_t stream) const;
  /// Like run(), on memory of the caller. Sizes are bytes as in CollectiveCall, rounded up to equal shares of bf16; `in` and
  /// `out` must hold the rounded sizes.
  void run_on(const CollectiveCall& call, const void* in, void* out, cudaStream_t stream) const;
  void send(std::int64_t bytes, int peer, Driver& driver, cudaStream_t stream) const;
  void receive(std::int64_t bytes, int peer, Driver& driver, cudaStream_t stream) const;
  /// Waits for the work of `stream`. Throws DeviceError if NCCL lost another rank, or after kPatience.
  void wait(cudaStream_t stream) const;
  /// Throws DeviceError if NCCL has lost another rank.
  void check() const;
  /// Barrier: waits until all ranks have called.
  void barrier(Driver& driver, cudaStream_t stream) const;

 private:
  ncclComm_t communicator_ = nullptr;
};

/// The group of all ranks of the job. Throws DeviceError if the ranks did not find each other, which only some of them know, and on
/// NCCL errors.
NcclGroup nccl_world(const Rendezvous& rendezvous);

/// The groups of a rank of a step graph: one for each communicator of the graph, and a group of two ranks for each direction
/// of each channel, since NCCL requires the same order of operations on all ranks of a communicator.
class GraphGroups {
 public:
  /// Called by all ranks of `world` together; its ranks are the ranks of the graph.
  GraphGroups(const StepGraph& graph, std::int32_t rank, const NcclGroup& world);

  const NcclGroup& communicator(std::int32_t index) const { return communicators_[static_cast<std::size_t>(index)]; }
  /// The group of two for channel `channel` of this rank, in which the sender is rank 0.
  const NcclGroup& outgoing(std::int32_t channel) const { return outgoing_[static_cast<std::size_t>(channel)]; }
  const NcclGroup& incoming(std::int32_t channel) const { return incoming_[static_cast<std::size_t>(channel)]; }
  /// Throws DeviceError if a group has lost another rank.
  void check() const;

 private:
  std::vector<NcclGroup> communicators_;
  std::vector<NcclGroup> outgoing_;
  std::vector<NcclGroup> incoming_;
};

}  // namespace tracecast::cuda
