#include "tracer/nccl_events.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace tracecast::nccl {
namespace {

std::string text(const char* from) { return from == nullptr ? "" : from; }

/// The last launch of this thread whose group has not begun. The launch of a captured kernel has none; the next launch replaces it.
struct Launch {
  const void* communicator = nullptr;
  std::int64_t id = 0;
};
thread_local Launch last_launch;

/// The handles of every launch, and of every group of calls.
char launch_handle = 0;
char group_call_handle = 0;

/// The number of this thread's group of calls; 0: none.
thread_local std::int64_t group_call = 0;

/// NCCL counts the elements of one rank of these; the trace counts the larger buffer.
bool counts_one_rank(std::string_view function) {
  return function == "AllGather" || function == "ReduceScatter" || function == "AlltoAll" || function == "AllToAll" ||
         function == "Gather" || function == "Scatter";
}

/// What every operation has. Of either version of the interface: their fields have the same names.
template <class Operation>
TraceCollective operation_of(const Operation& event) {
  TraceCollective c;
  c.name = text(event.function);
  c.type = text(event.type);
  c.count = static_cast<std::int64_t>(event.count);
  return c;
}

template <class Collective>
TraceCollective collective_of(const Collective& event) {
  TraceCollective c = operation_of(event);
  c.algorithm = text(event.algorithm);
  c.protocol = text(event.protocol);
  c.sequence = static_cast<std::int64_t>(event.sequence);
  return c;
}

template <class Message>
TraceCollective message_of(const Message& event) {
  TraceCollective c = operation_of(event);
  c.peer = event.peer;
  return c;
}

/// A call, by its handle, or else the first one of this function.
template <class Calls>
auto call_of(Calls& calls, const void* handle, std::string_view function) {
  const auto same = std::find_if(calls.begin(), calls.end(), [&](const auto& each) { return each.get() == handle; });
  if (same != calls.end()) return same;
  return std::find_if(calls.begin(), calls.end(), [&](const auto& each) { return each->name == function; });
}

/// NCCL reports the messages instead.
bool may_be_messages(std::string_view function) {
  return function == "AlltoAll" || function == "AlltoAllv" || function == "Gather" || function == "Scatter";
}

bool is_message(const TraceCollective& operation) { return operation.peer >= 0; }

/// Whether messages go to and come from every other rank of a communicator. Two ranks that do not send to themselves exchange a
/// message.
bool covers_all_ranks(const std::vector<TraceCollective>& operations, int ranks) {
  std::set<int> sent;
  std::set<int> received;
  bool own = false;
  for (const TraceCollective& each : operations) {
    if (!is_message(each)) return false;
    own = own || each.peer == each.rank;
    if (each.peer != each.rank) (each.name == "Recv" ? received : sent).insert(each.peer);
  }
  const auto others = static_cast<std::size_t>(ranks) - 1;
  return sent.size() == others && received.size() == others && (ranks > 2 || (ranks == 2 && own));
}

}  // namespace

void* Recorder::begin_communicator(std::uint64_t communicator, int nodes, int ranks, int rank) {
  const std::lock_guard lock(mutex_);
  auto made = std::make_unique<Communicator>(Communicator{communicator, nodes, ranks, rank, {}});
  void* const context = made.get();
  communicators_[context] = std::move(made);
  return context;
}

void* Recorder::start(void* context, const Event& event) {
  const std::lock_guard lock(mutex_);
  const auto found = communicators_.find(context);
  if (found == communicators_.end()) return nullptr;
  Communicator& communicator = *found->second;
  const auto drop_call = [&](const char* function) {
    const auto call = call_of(communicator.calls, event.parent, text(function));
    if (call != communicator.calls.end()) communicator.calls.erase(call);
  };
  switch (event.type) {
    case kKernelLaunch:
      return begin_launch(communicator);
    case kGroup:
      return begin_group(communicator);
    case kGroupCall:
      return begin_group_call(event);
    case kCollectiveCall:
      return begin_call(communicator, event);
    case kCopyEngine:
      drop_call(event.copy_engine.function);
      return begin_copies(communicator, event);
    case kCollective:
      drop_call(event.collective.function);
      add(communicator, collective_of(event.collective), event.collective.group);
      return nullptr;
    case kPointToPoint:
      std::erase_if(communicator.calls, [](const auto& each) { return may_be_messages(each->name); });
      add(communicator, message_of(event.point_to_point), event.point_to_point.group);
      return nullptr;
    default:
      return nullptr;
  }
}

void* Recorder::start(void* context, const EventV4& event) {
  const std::lock_guard lock(mutex_);
  const auto found = communicators_.find(context);
  if (found == communicators_.end()) return nullptr;
  if (event.type == kGroup) return begin_group(*found->second);
  if (event.type == kCollective) add(*found->second, collective_of(event.collective), event.parent);
  if (event.type == kPointToPoint) add(*found->second, message_of(event.point_to_point), event.parent);
  return nullptr;
}

void* Recorder::begin_launch(const Communicator& communicator) {
  last_launch = {&communicator, ++launches_};
  if (clock_.begin_launch) clock_.begin_launch(last_launch.id);
  return &launch_handle;
}

void* Recorder::begin_group_call(const Event& event) {
  if (event.group_call.captured) return nullptr;  // reported at each replay
  group_call = ++launches_;
  if (clock_.begin_launch) clock_.begin_launch(group_call);
  return &group_call_handle;
}

void Recorder::end_group_call() {
  if (clock_.end_launch) clock_.end_launch();
  const std::int64_t now = clock_.now();  // after the launches
  for (auto& [context, communicator] : communicators_)
    for (const auto& call : communicator->calls)
      if (call->launch == group_call) call->start_ns = call->end_ns = now;
  group_call = 0;
}

/// The operation as one of this communicator, now.
TraceCollective Recorder::record_of(const Communicator& communicator, TraceCollective operation) const {
  operation.communicator = communicator.id;
  operation.nodes = communicator.nodes;
  operation.ranks = communicator.ranks;
  operation.rank = communicator.rank;
  operation.start_ns = operation.end_ns = clock_.now();
  if (counts_one_rank(operation.name)) operation.count *= communicator.ranks;
  return operation;
}

void* Recorder::begin_call(Communicator& communicator, const Event& event) {
  if (event.collective_call.captured || group_call == 0 || communicator.ranks < 2) return nullptr;
  const auto& calls = communicator.calls;
  if (!calls.empty() && calls.front()->launch != group_call) write_calls(communicator);
  TraceCollective c = record_of(communicator, operation_of(event.collective_call));
  c.launch = group_call;
  communicator.calls.push_back(std::make_unique<TraceCollective>(std::move(c)));
  return communicator.calls.back().get();
}

void Recorder::write_calls(Communicator& communicator) {
  for (const auto& call : communicator.calls) {
    call->sequence = kUnreported + communicator.unreported[call->name]++;
    writer_.collective(*call);
  }
  communicator.calls.clear();
}

void* Recorder::begin_copies(const Communicator& communicator, const Event& event) {
  TraceCollective c = record_of(communicator, operation_of(event.copy_engine));
  c.algorithm = "CE";
  c.sequence = kCopies + static_cast<std::int64_t>(event.copy_engine.sequence);
  c.launch = ++launches_;
  writer_.collective(c);
  if (clock_.begin_launch) clock_.begin_launch(c.launch);
  return &launch_handle;
}

void* Recorder::begin_group(Communicator& communicator) {
  auto group = std::make_unique<Group>();
  group->communicator = &communicator;
  group->launch = last_launch.communicator == &communicator ? last_launch.id : -(++unnumbered_);
  last_launch = {};
  void* const handle = group.get();
  groups_[handle] = std::move(group);
  return handle;
}

void Recorder::add(Communicator& communicator, TraceCollective operation, void* group) {
  operation = record_of(communicator, std::move(operation));
  const auto found = groups_.find(group);
  if (found != groups_.end()) return found->second->operations.push_back(std::move(operation));
  Group alone{&communicator, {std::move(operation)}, 0};
  write(alone);
}

void Recorder::stop(void* handle) {
  if (handle == &launch_handle) {
    if (clock_.end_launch) clock_.end_launch();
    return;
  }
  const std::lock_guard lock(mutex_);
  if (handle == &group_call_handle) return end_group_call();
  const auto found = groups_.find(handle);
  if (found == groups_.end()) return;
  write(*found->second);
  groups_.erase(found);
}

void Recorder::write(Group& group) {
  Communicator& communicator = *group.communicator;
  if (covers_all_ranks(group.operations, communicator.ranks)) {
    TraceCollective all = group.operations.front();
    all.name = "AllToAll";
    all.peer = -1;
    all.count = 0;
    for (const TraceCollective& each : group.operations)
      if (each.name != "Recv") all.count += each.count;
    all.sequence = communicator.all_to_alls++;
    all.launch = group.launch;
    return writer_.collective(all);
  }
  for (TraceCollective& each : group.operations) {
    if (is_message(each) && each.peer == each.rank) continue;
    if (is_message(each)) each.sequence = communicator.messages[{each.name == "Recv", each.peer}]++;
    each.launch = group.launch;
    writer_.collective(each);
  }
}

void Recorder::end_communicator(void* context) {
  const std::lock_guard lock(mutex_);
  const auto found = communicators_.find(context);
  if (found == communicators_.end()) return;
  for (auto& [handle, group] : groups_)
    if (group->communicator == found->second.get()) write(*group);
  write_calls(*found->second);
  std::erase_if(groups_, [&](const auto& each) { return each.second->communicator == found->second.get(); });
  communicators_.erase(found);
}

void Recorder::finish() {
  const std::lock_guard lock(mutex_);
  for (auto& [handle, group] : groups_) write(*group);
  groups_.clear();
  for (auto& [context, communicator] : communicators_) write_calls(*communicator);
}

std::size_t Recorder::open_groups() const {
  const std::lock_guard lock(mutex_);
  std::size_t open = groups_.size();
  for (const auto& [context, communicator] : communicators_) open += communicator->calls.size();
  return open;
}

}  // namespace tracecast::nccl
