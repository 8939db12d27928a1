/// \file
/// One rank of a step on the CPUs of one computer: OpenBLAS and plain C++ for operators, Open MPI for collectives.
///
/// Messages between pipeline stages go through a shared-memory window of MPI, a place for each: the sender copies in and
/// goes on, the receiver copies out. Large messages of MPI_Send would need the sender inside the library while it
/// computes, which a rank of one thread cannot do.
/// Requires all ranks on one host.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include <mpi.h>

#include "kernels/cpu_driver.hpp"
#include "kernels/executor.hpp"

namespace tracecast {

class MpiDevice final : public Device {
 public:
  /// Collective over MPI_COMM_WORLD, whose ranks are those of the graph. `driver` outlives the device.
  MpiDevice(const StepGraph& graph, cpu::Driver& driver);
  ~MpiDevice() override;
  MpiDevice(const MpiDevice&) = delete;
  MpiDevice& operator=(const MpiDevice&) = delete;

  /// All ranks together: the next step begins, and all places for messages are empty again.
  void begin_step();

  void compute(const Operator& op) override { driver_.run(op); }
  void collective(const CollectiveCall& call, std::int32_t communicator) override;
  void send(ChannelEnd to, std::int32_t microbatch, Bytes size) override;
  void receive(std::int32_t channel, std::int32_t microbatch, Bytes size) override;
  Duration now() override;

 private:
  /// Where a message lies in its receiver's window: a flag, then the bytes.
  using Places = std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t>;  // [channel, micro-batch]

  static Places places_of(const StepGraph& graph, std::int32_t rank, std::int64_t& bytes);

  cpu::Driver& driver_;
  std::int32_t rank_ = 0;
  std::int64_t step_ = 0;
  std::vector<MPI_Comm> communicators_;
  std::vector<Places> places_;  ///< [rank]
  std::vector<char*> windows_;  ///< [rank]
  MPI_Win window_ = MPI_WIN_NULL;
};

/// One collective on a communicator: what MpiDevice does, for those who time it alone.
void run_collective(const CollectiveCall& call, MPI_Comm communicator, cpu::Driver& driver);

/// Floats of inputs and outputs that a collective needs.
cpu::Need need_of(const CollectiveCall& call);

}  // namespace tracecast
