#include "sim/reliability/checkpoint.hpp"

#include <algorithm>

namespace tracecast {
namespace {

double seconds_for(double bytes, Bandwidth rate) {
  return rate.bytes_per_second > 0 ? bytes / static_cast<double>(rate.bytes_per_second) : 0;
}

double size_of(const CheckpointShape& shape) { return static_cast<double>(shape.size.count); }

double share_of(const CheckpointSettings& settings, const CheckpointShape& shape) {
  return size_of(shape) / (settings.mode == CheckpointMode::rank0 ? 1 : shape.writers);
}

}  // namespace

JobTime write_time(const CheckpointSettings& settings, const CheckpointShape& shape) {
  const double rank = seconds_for(share_of(settings, shape), settings.rank_storage);
  const double all = seconds_for(size_of(shape), settings.storage_write);
  return job_time(std::max(rank, all)) + job_time(settings.metadata);
}

JobTime copy_time(const CheckpointSettings& settings, const CheckpointShape& shape) {
  return job_time(seconds_for(share_of(settings, shape), settings.host_copy));
}

JobTime load_time(const CheckpointSettings& settings, const CheckpointShape& shape) {
  const double read = size_of(shape) * settings.read_amplification;
  const double rank = seconds_for(read / shape.ranks, settings.rank_storage);
  return job_time(std::max(rank, seconds_for(read, settings.storage_read))) + job_time(settings.metadata);
}

std::vector<CheckpointTier> make_tiers(const CheckpointSettings& settings, const CheckpointShape& shape) {
  const JobTime write = write_time(settings, shape);
  const JobTime copy = copy_time(settings, shape);
  CheckpointTier storage;
  storage.load = load_time(settings, shape);
  storage.keep = settings.keep;
  switch (settings.mode) {
    case CheckpointMode::off:
      return {};
    case CheckpointMode::sync:
    case CheckpointMode::rank0:
      storage.stall = write;
      return {storage};
    case CheckpointMode::async:
      storage.stall = copy;
      storage.persist = write;
      return {storage};
    case CheckpointMode::tiered:
      break;
  }
  storage.persist = write;
  storage.every = settings.storage_every;
  CheckpointTier memory{.name = "memory", .keep = 2, .stall = copy, .load = copy, .survives = Survives::restart};
  if (shape.nodes == 1) return {memory, storage};
  CheckpointTier peer{.name = "peer", .keep = 2, .survives = Survives::one_node};
  peer.persist = peer.load = job_time(seconds_for(share_of(settings, shape), settings.peer_copy));
  return {memory, peer, storage};
}

double mean_stall_s(const std::vector<CheckpointTier>& tiers) {
  double stall = 0;
  for (const CheckpointTier& tier : tiers) stall += seconds(tier.stall) / tier.every;
  return stall;
}

}  // namespace tracecast
