/// \file
/// What moves between the steps of a program, and between whom. Shared by lowering and the step graph of a schedule.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/schedule/program.hpp"
#include "sim/schedule/run_order.hpp"

namespace tracecast {

/// The (one or two) outputs of a compute step; none of a weight gradient.
std::vector<Output> results_of(const PipelineOp& step);
/// What neighbouring stages must deliver before a compute step can run.
std::vector<Output> inputs_of(const Schedule& schedule, const PipelineOp& step);
PipelineOp send_of(const Output& output);
/// A receive is named after the stage that gets the input.
PipelineOp receive_of(const Output& output);

/// The outputs that one rank has, made or received.
class AvailableOutputs {
 public:
  explicit AvailableOutputs(const Schedule& schedule) : schedule_(schedule), has_(output_count(schedule)) {}
  void add(const Output& output) { has_[output_index(schedule_, output)] = true; }
  bool has(const Output& output) const { return has_[output_index(schedule_, output)]; }

 private:
  const Schedule& schedule_;
  std::vector<bool> has_;
};

/// Which rank holds a stage, for a micro-batch.
class StageHolders {
 public:
  explicit StageHolders(const Schedule& schedule) : schedule_(schedule), holder_(rank_of_stage(schedule)) {}
  std::size_t rank_of(int stage, int microbatch) const {
    const auto replica = static_cast<std::size_t>(schedule_.replica_of_microbatch(microbatch));
    return static_cast<std::size_t>(holder_[replica][static_cast<std::size_t>(stage)]);
  }
  /// The rank that needs an output, if it is another one than `rank`.
  std::optional<std::size_t> receiver(std::size_t rank, const Output& output) const {
    const int consumer = output.stage + (output.backward ? -1 : 1);
    if (consumer < 0 || consumer >= schedule_.stages()) return std::nullopt;
    const std::size_t peer = rank_of(consumer, output.microbatch);
    if (peer == rank) return std::nullopt;
    return peer;
  }

 private:
  const Schedule& schedule_;
  std::vector<std::vector<int>> holder_;
};

}  // namespace tracecast
