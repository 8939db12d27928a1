/// Checkpoints from sizes and bandwidths: how many bytes, how long to write, copy and read them.
///
/// Source: DOMAIN.md 7.3; test T-G2. State: 14 bytes per parameter (bf16 weights, fp32 master, two moments), 12 without
/// the bf16 copy. Every unique shard is written once, whatever the data-parallel degree.
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"
#include "sim/reliability/job.hpp"

namespace tracecast {

enum class CheckpointMode {
  off,
  sync,    ///< the job stands until the storage has everything
  async,   ///< the job stands for the copy to the hosts, the rest goes on in the background
  tiered,  ///< as async, kept in the host's and a peer's memory too; the storage gets every n-th
  rank0,   ///< synchronous through one writer
};
const char* to_string(CheckpointMode mode);

struct CheckpointSettings {
  CheckpointMode mode = CheckpointMode::async;
  double interval_s = 0;  ///< of work; 0: the one that is best in closed form
  int bytes_per_parameter = 14;
  Bandwidth storage_write{};  ///< of the whole file system
  Bandwidth storage_read{};
  Bandwidth rank_storage{};       ///< of one rank to the file system
  Bandwidth host_copy{};          ///< of one GPU to its host
  Bandwidth peer_copy{};          ///< of one rank to another host
  Duration metadata{};            ///< opening, closing, committing
  double read_amplification = 1;  ///< bytes read / size: 1 when one replica reads and broadcasts, D when all read
  int storage_every = 1;          ///< tiered: the storage takes part in every n-th
  bool operator==(const CheckpointSettings&) const = default;
};

/// Who takes part.
struct CheckpointShape {
  std::int64_t parameters = 0;
  int ranks = 1;    ///< of the job
  int writers = 1;  ///< ranks that hold a shard of their own: all with ZeRO, those of one replica without
};

Bytes checkpoint_size(std::int64_t parameters, int bytes_per_parameter);

/// max(share of a writer / its rate, all / rate of the file system) + metadata. One writer with rank0.
Duration write_time(const CheckpointSettings& settings, const CheckpointShape& shape);
/// The largest share to the host.
Duration copy_time(const CheckpointSettings& settings, const CheckpointShape& shape);
/// All bytes, `read_amplification` times, through the file system and the ranks' own rates.
Duration load_time(const CheckpointSettings& settings, const CheckpointShape& shape);

/// The levels of `settings`; what the job waits for at each checkpoint is the sum of their stalls.
std::vector<CheckpointTier> make_tiers(const CheckpointSettings& settings, const CheckpointShape& shape);
/// Seconds the job stands at a checkpoint, on average over `storage_every`.
double mean_stall_s(const std::vector<CheckpointTier>& tiers);

}  // namespace tracecast
