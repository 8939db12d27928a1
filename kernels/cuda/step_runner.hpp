/// \file
/// Runs one rank's program of a step graph on a GPU: every operation on its stream, events between streams as in the graph,
/// collectives with NCCL. The host issues ahead and waits only at host_sync.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/cuda/collectives.hpp"
#include "kernels/cuda/driver.hpp"
#include "kernels/executor.hpp"

namespace tracecast::cuda {

/// Events with time stamps, reused in the next step.
class EventPool {
 public:
  EventPool() = default;
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  cudaEvent_t next();
  void reset() { used_ = 0; }

 private:
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
};

class StepRunner {
 public:
  /// `groups` nullptr: a single rank. All arguments must outlive the runner.
  StepRunner(const StepGraph& graph, std::int32_t rank, Driver& driver, const GraphGroups* groups);
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  /// Runs a step and waits for its end. Returns every operation except host_sync in issue order; times are since the begin of
  /// the step on this rank.
  ///
  /// Each operation records one time stamp, at its end. Its begin is the latest end of the previous operation on its stream and
  /// of the operations it waited for. A second time stamp would cost another microsecond for each of thousands of kernels. The
  /// time that a kernel waits for its launch is therefore counted as part of the kernel, except after a host_sync and at the
  /// start of a template.
  std::vector<ExecutedOp> run();

  /// Runs every operator of the rank once on its streams, without communication: libraries choose and load kernels and allocate
  /// workspaces, which may wait for the whole GPU. In a step that would wait for collectives that wait for this rank.
  /// Then connects the groups; all ranks must call it. NCCL connects a pair or a collective's algorithm at its first use, and blocks the
  /// host until its other ranks call, too. In a step, two ranks that first send to each other would wait for ever.
  void warm_up();

  cudaStream_t stream(StreamId id) const { return streams_[id]; }

 private:
  struct Issued {
    ExecutedOp op;
    StreamId stream = 0;
    cudaEvent_t begin = nullptr;  ///< time stamp, if any
    cudaEvent_t end = nullptr;
    std::vector<std::int32_t> waits;  ///< operations, by issue order
  };
  using EventKey = std::pair<bool, std::int32_t>;  ///< template-local or of the rank; number

  /// Each collective of the rank's program once, group by group in the order of the graph, which is the same on all ranks.
  void connect_groups();
  /// The operations of the program that use the graph's communicator, each collective of one size once.
  std::vector<const Op*> collectives_of(std::int32_t communicator) const;
  /// A small message over each of the rank's channels, in an order that is the same on all ranks.
  void connect_channels();
  void issue(const ProgramItem& item, std::int32_t item_index, std::int32_t op_index, bool first);
  void synchronise(const Op& op, std::int32_t microbatch);
  void launch(const Op& op, cudaStream_t stream);
  /// Until `query` says that the work is done. Throws DeviceError if it failed or another rank was lost.
  void wait(const std::function<cudaError_t()>& query) const;
  std::vector<ExecutedOp> times() const;
  static EventKey key_of(const EventRef& event, std::int32_t microbatch);

  const StepGraph& graph_;
  const std::size_t rank_;
  const Rank& self_;
  Driver& driver_;
  const GraphGroups* groups_;
  std::vector<cudaStream_t> streams_;
  EventPool pool_;
  cudaEvent_t start_ = nullptr;
  std::vector<Issued> issued_;
  std::map<EventKey, std::int32_t> recorded_;  ///< last operation that recorded an event, by issue order
  bool stamp_next_ = true;
};

}  // namespace tracecast::cuda
