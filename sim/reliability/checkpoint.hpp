/// \file
/// Checkpoints from sizes and bandwidths: number of bytes, and the time to write, copy and read them.
///
/// Every distinct shard is written once, for any data-parallel degree. The size is that of plan/parameter_states.hpp (SavedState).
/// Source: docs/references.md#checkpoint-size
#pragma once

#include <cstdint>

#include "sim/base/enum_names.hpp"
#include "sim/base/units.hpp"
#include "sim/reliability/job.hpp"

namespace tracecast {

enum class CheckpointMode {
  off,
  sync,   ///< the job waits until storage has everything
  async,  ///< the job waits for the copy to the hosts; the write to storage runs in the background
  tiered,  ///< as async, and copies stay in the memory of the host and of a peer, if there is one; storage gets every n-th
  rank0,  ///< synchronous, through one writer
};
template <>
struct EnumNames<CheckpointMode> {
  static constexpr NamedValue<CheckpointMode> table[] = {{CheckpointMode::off, "off"},
                                                         {CheckpointMode::sync, "sync"},
                                                         {CheckpointMode::async, "async"},
                                                         {CheckpointMode::tiered, "tiered"},
                                                         {CheckpointMode::rank0, "rank0"}};
};

struct CheckpointSettings {
  CheckpointMode mode = CheckpointMode::async;
  double interval_s = 0;        ///< of work; 0: the optimum in closed form
  int bytes_per_parameter = 0;  ///< of those that are trained; 0: what the optimizer keeps
  Bandwidth storage_write{};    ///< of the whole file system
  Bandwidth storage_read{};
  Bandwidth rank_storage{};       ///< of one rank to the file system
  Bandwidth host_copy{};          ///< of one GPU to its host
  Bandwidth peer_copy{};          ///< of one rank to another host
  Duration metadata{};            ///< opening, closing, committing
  double read_amplification = 1;  ///< bytes read / size: 1 when one replica reads and broadcasts, D when all read
  int keep = 32;  ///< newest copies in storage, and of older ones every 2nd, 4th …; memory: 2, one perhaps incomplete
  int storage_every = 1;  ///< tiered: storage takes part in every n-th checkpoint
  bool operator==(const CheckpointSettings&) const = default;
};

/// Size of the state and the ranks that write it.
struct CheckpointShape {
  Bytes size;
  int ranks = 1;    ///< of the job
  int writers = 1;  ///< ranks with a distinct shard: with ZeRO those of a shard group, without those of one replica
  int nodes = 1;    ///< of the job: on a single one no peer has a copy
};

/// max(share of a writer / its rate, all bytes / rate of the file system) + metadata. With rank0 one rank writes all.
JobTime write_time(const CheckpointSettings& settings, const CheckpointShape& shape);
/// Time to copy the largest share to the host.
JobTime copy_time(const CheckpointSettings& settings, const CheckpointShape& shape);
/// max(share of a rank / its rate, all bytes / rate of the file system) + metadata, each `read_amplification` times.
JobTime load_time(const CheckpointSettings& settings, const CheckpointShape& shape);

/// The levels of `settings`. At a checkpoint the job waits for the sum of their stalls.
std::vector<CheckpointTier> make_tiers(const CheckpointSettings& settings, const CheckpointShape& shape);
/// Mean stall of one checkpoint in seconds, averaged over the levels that take part.
double mean_stall_s(const std::vector<CheckpointTier>& tiers);

}  // namespace tracecast
