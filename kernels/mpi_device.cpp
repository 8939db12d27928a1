#include "kernels/mpi_device.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "sim/base/integers.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kLine = 64;  ///< bytes; the flag has a separate cache line

int floats(Bytes size) { return static_cast<int>((size.count + 3) / 4); }

std::int64_t lines(std::int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

std::atomic_ref<std::int64_t> flag(char* place) {
  return std::atomic_ref<std::int64_t>(*reinterpret_cast<std::int64_t*>(place));
}

}  // namespace

cpu::Need need_of(const CollectiveCall& call) {
  constexpr std::int64_t kMore = 64;  // the share of each rank is rounded up
  return {floats(call.size) + kMore, floats(call.size) + kMore};
}

void run_collective(const CollectiveCall& call, MPI_Comm communicator, cpu::Driver& driver) {
  int ranks = 1;
  int self = 0;
  MPI_Comm_size(communicator, &ranks);
  MPI_Comm_rank(communicator, &self);
  const int all = floats(call.size);
  const int share = ceil_div(all, ranks);
  switch (call.collective) {
    case Collective::all_reduce:
      MPI_Allreduce(driver.input(all), driver.output(all), all, MPI_FLOAT, MPI_SUM, communicator);
      return;
    case Collective::all_gather:
      MPI_Allgather(driver.input(share), share, MPI_FLOAT, driver.output(share * ranks), share, MPI_FLOAT,
                    communicator);
      return;
    case Collective::reduce_scatter:
      MPI_Reduce_scatter_block(driver.input(share * ranks), driver.output(share), share, MPI_FLOAT, MPI_SUM,
                               communicator);
      return;
    case Collective::all_to_all:
      MPI_Alltoall(driver.input(share * ranks), share, MPI_FLOAT, driver.output(share * ranks), share, MPI_FLOAT,
                   communicator);
      return;
    case Collective::broadcast:
      MPI_Bcast(driver.output(all), all, MPI_FLOAT, 0, communicator);
      return;
    case Collective::send_recv:
      MPI_Sendrecv(driver.input(all), all, MPI_FLOAT, (self + 1) % ranks, 0, driver.output(all), all, MPI_FLOAT,
                   (self + ranks - 1) % ranks, 0, communicator, MPI_STATUS_IGNORE);
      return;
  }
}

MpiDevice::Places MpiDevice::places_of(const StepGraph& graph, std::int32_t rank, std::int64_t& bytes) {
  Places places;
  bytes = 0;
  const Rank& self = graph.ranks[static_cast<std::size_t>(rank)];
  for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(self.program)])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type != OpType::receive) continue;
      const Message& message = graph.messages[static_cast<std::size_t>(op.payload)];
      places[{message.channel, item.microbatch}] = bytes;
      bytes += kLine + lines(message.size.count);
    }
  return places;
}

MpiDevice::MpiDevice(const StepGraph& graph, cpu::Driver& driver) : driver_(driver) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  for (std::size_t i = 0; i < graph.communicators.size(); ++i) {
    const std::vector<std::int32_t>& members = graph.communicators[i].members;
    communicators_.push_back(MPI_COMM_NULL);
    const bool member = std::find(members.begin(), members.end(), rank_) != members.end();
    if (members.size() < 2 || !member) continue;
    MPI_Group world = MPI_GROUP_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, static_cast<int>(members.size()), members.data(), &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, static_cast<int>(i), &communicators_.back());
    MPI_Group_free(&group);
    MPI_Group_free(&world);
  }
  std::int64_t own = 0;
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(graph.ranks.size()); ++r) {
    std::int64_t bytes = 0;
    places_.push_back(places_of(graph, r, bytes));
    if (r == rank_) own = bytes;
  }
  char* memory = nullptr;
  MPI_Win_allocate_shared(own + kLine, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window_);
  std::memset(memory, 0, static_cast<std::size_t>(own + kLine));
  for (std::size_t r = 0; r < graph.ranks.size(); ++r) {
    MPI_Aint size = 0;
    int unit = 1;
    char* theirs = nullptr;
    MPI_Win_shared_query(window_, static_cast<int>(r), &size, &unit, &theirs);
    // Flags need aligned memory, so windows are padded by one line.
    const auto address = reinterpret_cast<std::uintptr_t>(theirs);
    windows_.push_back(theirs + (lines(static_cast<std::int64_t>(address)) - static_cast<std::int64_t>(address)));
  }
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
}

MpiDevice::~MpiDevice() {
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
  for (MPI_Comm& communicator : communicators_)
    if (communicator != MPI_COMM_NULL) MPI_Comm_free(&communicator);
}

void MpiDevice::begin_step() {
  ++step_;
  MPI_Barrier(MPI_COMM_WORLD);
}

void MpiDevice::collective(const CollectiveCall& call, std::int32_t communicator) {
  run_collective(call, communicators_[static_cast<std::size_t>(communicator)], driver_);
}

void MpiDevice::send(ChannelEnd to, std::int32_t microbatch, Bytes size) {
  const auto receiver = static_cast<std::size_t>(to.rank);
  char* const place = windows_[receiver] + places_[receiver].at({to.channel, microbatch});
  std::memcpy(place + kLine, driver_.input(floats(size)), static_cast<std::size_t>(size.count));
  flag(place).store(step_, std::memory_order_release);
}

void MpiDevice::receive(std::int32_t channel, std::int32_t microbatch, Bytes size) {
  const auto self = static_cast<std::size_t>(rank_);
  char* const place = windows_[self] + places_[self].at({channel, microbatch});
  while (flag(place).load(std::memory_order_acquire) != step_) {
    // Busy-waits, like Open MPI: a sleeping rank would wake up late.
  }
  std::memcpy(driver_.output(floats(size)), place + kLine, static_cast<std::size_t>(size.count));
}

Duration MpiDevice::now() {
  // Monotonic since boot, so the same for all processes of the host.
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(time).count() * 1000};
}

}  // namespace tracecast
