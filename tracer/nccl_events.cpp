#include "tracer/nccl_events.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tracecast::nccl {
namespace {

std::string text(const char* from) { return from == nullptr ? "" : from; }

TraceCollective collective_of(const Event& event) {
  TraceCollective c;
  if (event.type == kCollective) {
    c.name = text(event.collective.function);
    c.type = text(event.collective.type);
    c.algorithm = text(event.collective.algorithm);
    c.protocol = text(event.collective.protocol);
    c.count = static_cast<std::int64_t>(event.collective.count);
    c.sequence = static_cast<std::int64_t>(event.collective.sequence);
    return c;
  }
  c.name = text(event.point_to_point.function);
  c.type = text(event.point_to_point.type);
  c.count = static_cast<std::int64_t>(event.point_to_point.count);
  c.peer = event.point_to_point.peer;
  return c;
}

}  // namespace

void* Recorder::begin_communicator(std::uint64_t communicator, int ranks, int rank) {
  const std::lock_guard lock(mutex_);
  auto made = std::make_unique<Communicator>(Communicator{communicator, ranks, rank});
  void* const context = made.get();
  communicators_[context] = std::move(made);
  return context;
}

Recorder::Handle* Recorder::keep(std::unique_ptr<Handle> handle) {
  Handle* const raw = handle.get();
  handles_[raw] = std::move(handle);
  return raw;
}

void* Recorder::start(void* context, const Event& event) {
  const std::lock_guard lock(mutex_);
  const auto communicator = communicators_.find(context);
  if (communicator == communicators_.end()) return nullptr;
  if (event.type == kKernelChannel) return start_channel(event);
  if (event.type != kCollective && event.type != kPointToPoint) return nullptr;
  return start_operation(*communicator->second, event);
}

Recorder::Handle* Recorder::start_operation(Communicator& communicator, const Event& event) {
  auto handle = std::make_unique<Handle>();
  handle->communicator = &communicator;
  handle->collective = collective_of(event);
  handle->collective.communicator = communicator.id;
  handle->collective.rank = communicator.rank;
  handle->collective.ranks = communicator.ranks;
  handle->collective.start_ns = now_();
  handle->collective.end_ns = handle->collective.start_ns;
  handle->channels = event.type == kCollective ? event.collective.channels : event.point_to_point.channels;
  return keep(std::move(handle));
}

Recorder::Handle* Recorder::start_channel(const Event& event) {
  const auto operation = handles_.find(event.parent);
  if (operation == handles_.end() || operation->second->is_channel) return nullptr;
  Handle& of = *operation->second;
  if (of.first_channel_ns < 0) of.first_channel_ns = now_();
  auto handle = std::make_unique<Handle>();
  handle->is_channel = true;
  handle->operation = &of;
  return keep(std::move(handle));
}

void Recorder::record_state(void* handle, int state) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (state == kKernelChannelStop && found != handles_.end() && found->second->is_channel) end_channel(*found->second);
}

void Recorder::end_channel(Handle& channel) {
  if (channel.ended) return;
  channel.ended = true;
  channel.operation->last_channel_ns = now_();
  ++channel.operation->finished;
}

void Recorder::stop(void* handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return;
  Handle& stopped = *found->second;
  if (!stopped.is_channel) {
    stopped.stopped = true;
    stopped.collective.end_ns = now_();
    return write_if_complete(&stopped);
  }
  end_channel(stopped);
  Handle* const operation = stopped.operation;
  handles_.erase(found);
  write_if_complete(operation);
}

void Recorder::write_if_complete(Handle* operation) {
  if (!operation->stopped || operation->finished < operation->channels) return;
  write(*operation);
  // The handle of a channel that was never stopped would dangle.
  std::erase_if(handles_, [&](const auto& each) { return each.second->operation == operation; });
  handles_.erase(operation);
}

void Recorder::write(Handle& operation) {
  if (operation.first_channel_ns >= 0) operation.collective.start_ns = operation.first_channel_ns;
  if (operation.last_channel_ns >= 0) operation.collective.end_ns = operation.last_channel_ns;
  writer_.collective(operation.collective);
}

void Recorder::write_open(const Communicator* of) {
  std::vector<Handle*> open;
  for (const auto& [key, handle] : handles_)
    if (!handle->is_channel && handle->communicator == of) open.push_back(handle.get());
  std::sort(open.begin(), open.end(),
            [](const Handle* a, const Handle* b) { return a->collective.start_ns < b->collective.start_ns; });
  for (Handle* operation : open) {
    write(*operation);
    std::erase_if(handles_, [&](const auto& each) { return each.second->operation == operation; });
    handles_.erase(operation);
  }
}

void Recorder::end_communicator(void* context) {
  const std::lock_guard lock(mutex_);
  const auto found = communicators_.find(context);
  if (found == communicators_.end()) return;
  write_open(found->second.get());
  communicators_.erase(found);
}

void Recorder::finish() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, communicator] : communicators_) write_open(communicator.get());
}

}  // namespace tracecast::nccl
