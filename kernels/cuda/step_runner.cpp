#include "kernels/cuda/step_runner.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace tracecast::cuda {

EventPool::~EventPool() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

cudaEvent_t EventPool::next() {
  if (used_ == events_.size()) {
    events_.push_back(nullptr);
    TRACECAST_CUDA(cudaEventCreate(&events_.back()));
  }
  return events_[used_++];
}

StepRunner::StepRunner(const StepGraph& graph, std::int32_t rank, Driver& driver, const GraphGroups* groups)
    : graph_(graph),
      rank_(static_cast<std::size_t>(rank)),
      self_(graph.ranks[static_cast<std::size_t>(rank)]),
      driver_(driver),
      groups_(groups) {
  streams_.resize(graph.streams.size());
  for (cudaStream_t& stream : streams_) TRACECAST_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

StepRunner::~StepRunner() {
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

StepRunner::EventKey StepRunner::key_of(const EventRef& event, std::int32_t microbatch) {
  return {event.local(), event.local() ? event.base : event.base + event.stride * microbatch};
}

std::vector<ExecutedOp> StepRunner::run() {
  pool_.reset();
  issued_.clear();
  recorded_.clear();
  start_ = pool_.next();
  TRACECAST_CUDA(cudaEventRecord(start_, streams_[kComputeStream]));
  for (cudaStream_t stream : streams_) TRACECAST_CUDA(cudaStreamWaitEvent(stream, start_, 0));
  const std::vector<ProgramItem>& program = graph_.programs[static_cast<std::size_t>(self_.program)];
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Template& used = graph_.templates[static_cast<std::size_t>(program[i].template_index)];
    for (std::size_t o = 0; o < used.ops.size(); ++o)
      issue(program[i], static_cast<std::int32_t>(i), static_cast<std::int32_t>(o), o == 0);
  }
  for (cudaStream_t stream : streams_) wait([stream] { return cudaStreamQuery(stream); });
  return times();
}

void StepRunner::warm_up() {
  std::set<std::pair<StreamId, std::int32_t>> done;
  for (const ProgramItem& item : graph_.programs[static_cast<std::size_t>(self_.program)])
    for (const Op& op : graph_.templates[static_cast<std::size_t>(item.template_index)].ops)
      if (op.type == OpType::compute && op.payload >= 0 && done.emplace(op.stream, op.payload).second)
        launch(op, streams_[op.stream]);
  for (cudaStream_t stream : streams_) TRACECAST_CUDA(cudaStreamSynchronize(stream));
  if (groups_ == nullptr) return;
  connect_groups();
  connect_channels();
}

std::vector<const Op*> StepRunner::collectives_of(std::int32_t communicator) const {
  std::vector<const Op*> ops;
  std::set<std::pair<Collective, std::int64_t>> known;
  for (const ProgramItem& item : graph_.programs[static_cast<std::size_t>(self_.program)])
    for (const Op& op : graph_.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type != OpType::collective || op.payload < 0) continue;
      const CostedCollective& costed = graph_.collectives[static_cast<std::size_t>(op.payload)];
      if (self_.communicators[static_cast<std::size_t>(costed.slot)] != communicator) continue;
      if (known.emplace(costed.call.collective, costed.call.size.count).second) ops.push_back(&op);
    }
  return ops;
}

void StepRunner::connect_groups() {
  for (std::size_t index = 0; index < graph_.communicators.size(); ++index)
    for (const Op* const op : collectives_of(static_cast<std::int32_t>(index))) {
      launch(*op, streams_[op->stream]);
      wait([&] { return cudaStreamQuery(streams_[op->stream]); });
    }
}

void StepRunner::connect_channels() {
  constexpr std::int64_t kBytes = 4;
  const cudaStream_t stream = streams_[kComputeStream];
  for (std::size_t from = 0; from < graph_.ranks.size(); ++from) {
    const std::vector<ChannelEnd>& channels = graph_.ranks[from].channels;
    for (std::size_t channel = 0; channel < channels.size(); ++channel) {
      const ChannelEnd to = channels[channel];
      const bool sends = from == rank_;
      if (to.rank < 0 || to.rank == static_cast<std::int32_t>(from)) continue;
      if (!sends && to.rank != static_cast<std::int32_t>(rank_)) continue;
      if (sends)
        groups_->outgoing(static_cast<std::int32_t>(channel)).send(kBytes, 1, driver_, stream);
      else
        groups_->incoming(to.channel).receive(kBytes, 0, driver_, stream);
      wait([stream] { return cudaStreamQuery(stream); });
    }
  }
}

void StepRunner::wait(const std::function<cudaError_t()>& query) const {
  wait_for([&query] { return state_of(query()); },
           [this] {
             if (groups_ != nullptr) groups_->check();
           });
}

void StepRunner::issue(const ProgramItem& item, std::int32_t item_index, std::int32_t op_index, bool first) {
  const Op& op =
      graph_.templates[static_cast<std::size_t>(item.template_index)].ops[static_cast<std::size_t>(op_index)];
  stamp_next_ = stamp_next_ || first;
  if (op.type == OpType::host_sync) return synchronise(op, item.microbatch);
  Issued issued;
  issued.op.item = item_index;
  issued.op.op = op_index;
  issued.stream = op.stream;
  const cudaStream_t stream = streams_[op.stream];
  for (const EventRef& event : op.waits) {
    const auto found = recorded_.find(key_of(event, item.microbatch));
    if (found == recorded_.end()) continue;
    issued.waits.push_back(found->second);
    TRACECAST_CUDA(cudaStreamWaitEvent(stream, issued_[static_cast<std::size_t>(found->second)].end, 0));
  }
  if (stamp_next_ && op.stream == kComputeStream) {
    issued.begin = pool_.next();
    TRACECAST_CUDA(cudaEventRecord(issued.begin, stream));
    stamp_next_ = false;
  }
  if (op.payload >= 0) launch(op, stream);
  issued.end = pool_.next();
  TRACECAST_CUDA(cudaEventRecord(issued.end, stream));
  if (!op.records.none()) recorded_[key_of(op.records, item.microbatch)] = static_cast<std::int32_t>(issued_.size());
  issued_.push_back(std::move(issued));
}

void StepRunner::synchronise(const Op& op, std::int32_t microbatch) {
  for (const EventRef& event : op.waits) {
    const auto found = recorded_.find(key_of(event, microbatch));
    if (found == recorded_.end()) continue;
    const cudaEvent_t end = issued_[static_cast<std::size_t>(found->second)].end;
    wait([end] { return cudaEventQuery(end); });
  }
  stamp_next_ = true;
}

void StepRunner::launch(const Op& op, cudaStream_t stream) {
  const auto payload = static_cast<std::size_t>(op.payload);
  switch (op.type) {
    case OpType::compute:
      return driver_.run(graph_.operators[payload].op, stream);
    case OpType::collective: {
      const CostedCollective& call = graph_.collectives[payload];
      TRACECAST_ASSERT(groups_ != nullptr, "a rank with collectives needs groups");
      const std::int32_t index = self_.communicators[static_cast<std::size_t>(call.slot)];
      return groups_->communicator(index).run(call.call, driver_, stream);
    }
    case OpType::send:
    case OpType::receive: {
      const Message& message = graph_.messages[payload];
      TRACECAST_ASSERT(groups_ != nullptr, "a rank with messages needs groups");
      if (op.type == OpType::send)
        return groups_->outgoing(message.channel).send(message.size.count, 1, driver_, stream);
      return groups_->incoming(message.channel).receive(message.size.count, 0, driver_, stream);
    }
    case OpType::host_sync:
      break;
  }
}

std::vector<ExecutedOp> StepRunner::times() const {
  const auto since_start = [this](cudaEvent_t event) {
    float milliseconds = 0;
    TRACECAST_CUDA(cudaEventElapsedTime(&milliseconds, start_, event));
    return Duration{std::llround(static_cast<double>(milliseconds) * 1e9)};
  };
  std::vector<Duration> free(streams_.size());
  std::vector<ExecutedOp> done;
  done.reserve(issued_.size());
  for (const Issued& each : issued_) {
    ExecutedOp op = each.op;
    op.begin = free[each.stream];
    for (const std::int32_t waited : each.waits)
      op.begin = std::max(op.begin, done[static_cast<std::size_t>(waited)].end);
    if (each.begin != nullptr) op.begin = std::max(op.begin, since_start(each.begin));
    op.end = std::max(op.begin, since_start(each.end));
    free[each.stream] = op.end;
    done.push_back(op);
  }
  return done;
}

}  // namespace tracecast::cuda
