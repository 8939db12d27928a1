/// \file
/// Software stacks as data: what Megatron-LM, DeepSpeed, FSDP … set unless told otherwise. scenarios/stacks/NAME.json
/// (docs/formats/stack.md).
///
/// A scenario that names a `stack` begins with its values in place of the general defaults; what the scenario says itself
/// goes before. A published run finds its stack by the framework that its source names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/profile.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

/// What a framework prints as its peak memory: PyTorch's max_memory_allocated or max_memory_reserved.
enum class MemoryReport { allocated, reserved };

struct Stack {
  std::string name;  ///< file stem
  std::string description;
  std::string source;
  std::vector<std::string> frameworks;  ///< beginnings of the names that published tables use for it
  std::vector<std::string> sources;  ///< beginnings of sources whose runs used it, whatever their framework is called
  /// A recipe of its own: of all these columns of a table of runs, the value's beginning. Empty: it says nothing of columns.
  std::map<std::string, std::string> rows;
  Parallel parallel;
  Training training;
  std::map<std::string, std::string> attention_kernels;  ///< by architecture: "Hopper" -> "fa2"; else the profile's
  Duration host_launch;                                  ///< host time of one eager operator; 0: the profile's
  Duration host_launch_experts;  ///< the same in models with experts, with the dispatcher's work; 0: host_launch
  bool launch_blocking = false;  ///< CUDA_LAUNCH_BLOCKING: the host waits for each kernel before it issues the next
  double released = 0;           ///< year of the libraries that its runs used, 2024.5; 0: of no effect
  bool steps_overlap = false;    ///< no barrier ends a step: a rank begins the next while others still finish this one
  Duration shard_rank_overhead;  ///< per step and rank of the optimizer's shard group: parameters sent rank by rank
  double dropout = 0;            ///< of GPT-like models whose source does not print it
  std::int64_t vocabulary = 0;   ///< of models whose source does not print it; 0: the general rule's
  MemoryReport memory_report = MemoryReport::allocated;
  double spread = 0.10;  ///< relative standard deviation of whole runs on it around their forecast
  bool operator==(const Stack&) const = default;
};

/// Errors: those of the JSON reader, values out of range.
Result<Stack> read_stack(const std::filesystem::path& path);
/// All of a folder, by name.
Result<std::vector<Stack>> read_stacks(const std::filesystem::path& folder);

/// Multiplications and memory-bound kernels of an architecture's first years get faster by this much a year
/// (docs/references.md#software-age: 5.3 %, 3 to 6): MLPerf's GPT-3 on 512 H100 took 12.1, 11.1 and 9.5 s in June 2023,
/// November 2023 and November 2024, and NVIDIA says so (MLPerf Training v4.0: up to 27 % in a year on these GPUs by
/// software alone, with what the stacks' own settings describe). Ampere's were mature in 2021: runs of 2020 to 2024
/// show no trend.
inline constexpr double kFasterPerYear = 0.05;

/// What a stack says about the GPU: its host time, the age of its libraries, and the kernel of fused attention, which becomes
/// the profile's first. A kernel that the profile has not is left alone, and so is the age where the profile was recorded,
/// with libraries of its own. Where launches block, nothing runs ahead of the GPU: the host's time becomes a part of every
/// kernel's.   experts: of the model
void apply_to_profile(const Stack& stack, Profile& profile, bool experts);

/// A profile as one job has it: its stack's part (nullptr: no stack), and the pace of the slowest of its `ranks` GPUs
/// (sim/cost/slowest_rank.hpp).   experts: of the model
void prepare_profile(Profile& profile, const Stack* stack, bool experts, int ranks, double gpu_spread);

/// What a stack chooses for its 8- and 4-bit recipes gives way where `training` computes in more bits; quantised parameters
/// are a choice of 8-bit recipes alone (Megatron-Bridge's mixed_precision.py). What differs from the stack's is left.
void drop_unfit_precision(const Stack& stack, Training& training);

/// The value of a column of a table's row, by its name.
using ColumnOfRow = std::function<std::string(const std::string&)>;

/// The stack with the longest beginning of `source`, else of `framework`, else with a name that `framework` holds as a word
/// ("NVIDIA NeMo", "Primus (torchtitan)"); nullptr: none has one. One whose `rows` the run's
/// columns answer to goes before all that have none; without columns such stacks are none.
const Stack* find_stack(const std::vector<Stack>& stacks, const std::string& framework, const std::string& source = "",
                        const ColumnOfRow& column = {});

}  // namespace tracecast
