/// \file
/// Pipeline schedules: for every pipeline rank the ordered list of what it does. No times; the engine adds those.
///
/// A schedule is a plain value. Virtual stages are numbered 0 .. stages() - 1 in the order of the model; `stage_of`
/// says which of them a (rank, chunk) holds. Bidirectional schedules (Chimera, DualPipe) hold two copies of the model:
/// then each chunk belongs to one replica and stage_of gives the stage inside that replica. Replica i works on the
/// micro-batches i M/replicas .. (i+1) M/replicas - 1, so a micro-batch number is unique over all replicas.
///
/// Source of the orders: one entry per paper in docs/references.md; checked against
/// tests/data/oracles/pipeline.csv (docs/references.md#schedule-oracles).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast {

enum class ActionKind : std::uint8_t {
  forward,
  backward,          ///< input and weight gradients together
  backward_input,    ///< 'I'
  backward_weight,   ///< 'W'
  forward_backward,  ///< overlapped pair: forward of (chunk, microbatch) with backward of (chunk2, microbatch2)
};

struct Action {
  ActionKind kind = ActionKind::forward;
  std::int16_t chunk = 0;
  std::int32_t microbatch = 0;
  std::int16_t chunk2 = 0;  ///< forward_backward: of the backward half
  std::int32_t microbatch2 = 0;
  auto operator<=>(const Action&) const = default;
};

struct Schedule {
  std::string name;                          ///< as the user types it: "1f1b"
  int ranks = 0;                             ///< P, pipeline ranks
  int microbatches = 0;                      ///< M, of one data-parallel rank and step (all replicas together)
  int chunks = 1;                            ///< V, model chunks per rank, of all replicas together
  int replicas = 1;                          ///< copies of the model that the pipeline holds
  bool flush = true;                         ///< false: asynchronous (PipeDream), weights change between micro-batches
  std::vector<int> weight_versions;          ///< [rank] copies of the weights kept; 1 for synchronous schedules
  std::vector<std::vector<int>> stage_of;    ///< [rank][chunk] -> virtual stage
  std::vector<std::vector<int>> replica_of;  ///< [rank][chunk] -> replica
  std::vector<std::vector<Action>> actions;  ///< [rank], in order

  /// Virtual stages of one replica.
  int stages() const { return ranks * chunks / replicas; }
  /// The copy of the model that works on a micro-batch.
  int replica_of_microbatch(int microbatch) const {
    return static_cast<int>(static_cast<std::int64_t>(microbatch) * replicas / microbatches);
  }
  bool operator==(const Schedule&) const = default;
};

/// An action as PyTorch writes it: "3F2" is the forward of micro-batch 2 through stage 3; B, I and W are the backward and
/// its two parts; an overlapped pair is "(3F2;4B0)OVERLAP_F_B".
std::string to_string(const Schedule& schedule, int rank, const Action& action);

/// Times of one micro-batch through all layers of one rank, and other inputs of schedules that are built from times.
/// Unit-less: only ratios matter to a schedule.
struct ScheduleTimes {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  std::int64_t latency = 0;  ///< of one hop between ranks
  bool operator==(const ScheduleTimes&) const = default;
};

/// One micro-batch through one virtual stage, or through all of a rank.
struct StageTime {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  bool operator==(const StageTime&) const = default;
};

/// What a rank keeps of one micro-batch. Doubles cannot overflow; any unit will do.
struct RankBytes {
  double forward = 0;  ///< from the forward to the input gradient
  double weight = 0;   ///< from the input gradient to the weight gradient
  bool operator==(const RankBytes&) const = default;
};

struct ScheduleRequest {
  int ranks = 1;
  int microbatches = 1;
  /// V as in the oracle file: 2 for ZB-V and DualPipeV, 2 waves for Hanayo, 1 for Chimera and DualPipe.
  /// 0: the schedule's own (1, or 2 where chunks are the point of it).
  int chunks = 0;
  int group_size = 0;  ///< interleaved: micro-batches per group; 0: as interleaved_1f1b.cpp says, P when P divides M
  ScheduleTimes times = {};  ///< used by schedules that are searched for (zero-bubble auto) or event-driven (Hanayo)
  double memory_limit =
      0;  ///< zb-auto: what a rank may keep, in forwards of the largest of the first two ranks and the median; 0: unlimited
  std::vector<StageTime> rank_times = {};  ///< zb-auto: [rank]; none: `times` on every rank
  std::vector<RankBytes> rank_bytes = {};  ///< zb-auto: [rank]; none: the same on every rank, half of it until W
};

/// One row of the table of schedules, which --help, the error messages and the tests read. Each file of variants/ has its
/// own row. What other parts of the simulator need to know about a schedule is a field here, not a test of its name.
struct ScheduleVariant {
  std::string_view name;                           ///< what the user types
  std::span<const std::string_view> aliases = {};  ///< PyTorch's class names and the like
  std::string_view summary;                        ///< one line for --help
  int default_chunks = 1;                          ///< V when the request leaves it open
  bool any_chunks = false;                         ///< takes other V, too; `make` checks them
  Result<Schedule> (*make)(const ScheduleRequest&) = nullptr;
  bool has_pairs = false;               ///< of ActionKind::forward_backward
  bool updates_every_backward = false;  ///< gradients are reduced and weights updated after every backward
  bool uses_times = false;              ///< made for the times of the request; the others have one order for all times
  /// Without parallel.overlap_p2p the host waits until each message has arrived, as in Megatron-LM and DeepSpeed. The
  /// runtimes of other schedules post their messages ahead.
  bool host_waits_for_messages = false;
  /// A lower bound of the chunk activations that a rank keeps at its peak, for the memory bound of the planner. Null: 1.
  std::int64_t (*chunks_in_flight)(const ScheduleRequest&, int rank) = nullptr;
};

/// All schedules, in the order of the documentation.
std::span<const ScheduleVariant> schedule_variants();

/// By name or alias; upper or lower case, '_' or '-'.   Errors: unknown name (lists what is allowed); P, M or V that the
/// schedule cannot do. Keys are schedule, stages, microbatches, virtual.
Result<Schedule> make_schedule(const std::string& name, const ScheduleRequest& request);

/// The row of that name or alias; nullptr when there is none.
const ScheduleVariant* find_schedule(const std::string& name);

/// Every forward and backward of every (stage, micro-batch) is there once, on the rank that holds the stage, and the
/// order can be executed (no cycle of waits).   Errors: the first violation, key schedule.
Result<void> check(const Schedule& schedule);

}  // namespace tracecast
