/// \file
/// One rank of a step on the CPUs of one computer: OpenBLAS and plain C++ for operators, Open MPI for collectives.
///
/// Messages between pipeline stages go through an MPI shared-memory window with a slot for each message. The sender copies in
/// and continues, the receiver copies out. MPI_Send would need the sender inside the library to progress large messages, but a
/// single-threaded rank computes meanwhile.
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
  /// Collective over MPI_COMM_WORLD, whose ranks are the ranks of the graph. `driver` must outlive the device.
  MpiDevice(const StepGraph& graph, cpu::Driver& driver);
  ~MpiDevice() override;
  MpiDevice(const MpiDevice&) = delete;
  MpiDevice& operator=(const MpiDevice&) = delete;

  /// Called by all ranks together: begins the next step and empties all message slots.
  void begin_step();

  void compute(const Operator& op) override { driver_.run(op); }
  void collective(const CollectiveCall& call, std::int32_t communicator) override;
  void send(ChannelEnd to, std::int32_t microbatch, Bytes size) override;
  void receive(std::int32_t channel, std::int32_t microbatch, Bytes size) override;
  Duration now() override;

 private:
  /// Offsets of messages in the receiver's window: a flag, then the bytes.
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

/// Runs one collective on a communicator, as MpiDevice does; used to time collectives.
void run_collective(const CollectiveCall& call, MPI_Comm communicator, cpu::Driver& driver);

/// Number of floats that a collective needs for inputs and outputs.
cpu::Need need_of(const CollectiveCall& call);

}  // namespace tracecast
