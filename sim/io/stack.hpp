/// \file
/// Software stacks as data: the defaults of Megatron-LM, DeepSpeed, FSDP … in scenarios/stacks/NAME.json
/// (docs/formats/stack.md).
///
/// A scenario with a `stack` uses the stack's values as defaults; its own keys take precedence. The stack of a
/// published run is found by the framework that its source names.
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
#include "sim/model/model.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

/// What a framework prints as its peak memory: PyTorch's max_memory_allocated or max_memory_reserved.
enum class MemoryReport { allocated, reserved };
template <>
struct EnumNames<MemoryReport> {
  static constexpr NamedValue<MemoryReport> table[] = {{MemoryReport::allocated, "allocated"},
                                                       {MemoryReport::reserved, "reserved"}};
};

struct Stack {
  std::string name;  ///< file stem
  std::string description;
  std::string source;
  std::vector<std::string> frameworks;  ///< prefixes of the names that published tables use for it
  /// Prefixes of the sources whose runs used it in place of the stack of one of its `frameworks`. Without such a source it is not found.
  std::vector<std::string> sources;
  /// For a stack of one recipe: required prefix of the value in each of these run-table columns. Empty: no condition.
  std::map<std::string, std::string> rows;
  std::vector<std::string>
      gpus;  ///< prefixes of the part numbers that its runs had; on others it is not found. Empty: any
  Parallel parallel;
  Training training;
  std::map<std::string, std::string> attention_kernels;  ///< by architecture: "Hopper" -> "fa2"; else the profile's
  Duration host_launch;                                  ///< host time of one eager operator; 0: the profile's
  Duration host_launch_experts;  ///< the same in models with experts, with the dispatcher's work; 0: host_launch
  Duration
      host_launch_per_expert;    ///< of a multiplication of experts, for each local expert, besides that of an operator
  bool launch_blocking = false;  ///< CUDA_LAUNCH_BLOCKING: the host waits for each kernel before it issues the next
  double released = 0;           ///< year of the libraries that its runs used, 2024.5; 0: no effect
  bool steps_overlap = false;    ///< no barrier ends a step: a rank begins the next while others still finish this one
  Duration shard_rank_overhead;  ///< per step and rank of the optimizer's shard group: parameters sent rank by rank
  double dropout = 0;            ///< of GPT-like models whose source does not print it
  std::int64_t vocabulary = 0;   ///< of models whose source does not print it; 0: the general rule's
  MemoryReport memory_report = MemoryReport::allocated;
  bool operator==(const Stack&) const = default;
};

/// Errors: those of the JSON reader, values out of range.
Result<Stack> read_stack(const std::filesystem::path& path);
/// All of a folder, by name.
Result<std::vector<Stack>> read_stacks(const std::filesystem::path& folder);

/// In the first years of an architecture, GEMMs and memory-bound kernels get faster by this much per year
/// (docs/references.md#software-age: 5.3 %, 3 to 6): MLPerf's GPT-3 on 512 H100 took 12.1, 11.1 and 9.5 s in June 2023,
/// November 2023 and November 2024, and NVIDIA says so (MLPerf Training v4.0: up to 27 % in a year on these GPUs by
/// software alone, with what the stacks' own settings describe). Ampere's were mature in 2021: runs of 2020 to 2024
/// show no trend.
inline constexpr double kFasterPerYear = 0.05;

/// Applies a stack to a profile: host time, age of the libraries, and the fused-attention kernel, which becomes the
/// profile's first. A kernel that the profile lacks is ignored. The age is ignored for recorded profiles, since they
/// already include their libraries. With blocking launches the host cannot run ahead of the GPU, so the host time is
/// added to every kernel.   experts: of the model
void apply_to_profile(const Stack& stack, Profile& profile, bool experts);

/// The profile of one job: with its stack applied (nullptr: no stack), at the speed of the slowest of its `ranks` GPUs
/// (sim/cost/slowest_rank.hpp).   experts: of the model
void prepare_profile(Profile& profile, const Stack* stack, bool experts, int ranks, double gpu_spread);

/// In 16 and 32 bits layers of Transformer Engine take half of the stack's host time, which is that of runs in 8 and 4 bits
/// (docs/references.md#host-by-precision). With experts it is mostly the time of other operators, and stays.
/// Requires a profile that has been prepared
void set_host_precision(const Stack& stack, const Model& model, Precision dtype, Profile& profile);

/// Resets a stack's settings for 8- and 4-bit recipes where `training` computes in more bits. Quantised parameters
/// apply to 8-bit recipes only (Megatron-Bridge's mixed_precision.py). Values that differ from the stack's are kept.
void drop_unfit_precision(const Stack& stack, Training& training);

/// Whether today's recipes of a stack with tp_comm_overlap have it for this model and precision: not with experts, not in
/// NVFP4 (docs/references.md#bridge-recipes).
bool recipes_overlap_tensor_ranks(const Model& model, const Training& training);

/// The value of a column of a table's row, by its name.
using ColumnOfRow = std::function<std::string(const std::string&)>;

/// The stack with the longest matching prefix of `framework`, else with a name that `framework` contains as a word
/// ("NVIDIA NeMo", "Primus (torchtitan)"); nullptr: no match. Stacks whose `rows` match the run's columns take
/// precedence; they are ignored when no columns are given. One with a prefix of `source`, of whole words, comes next: if
/// the framework is one of its own, or has no stack. Case does not matter, and hyphens and underscores of names do not.
/// The column `gpu` is a part number in capitals ("H100").
const Stack* find_stack(const std::vector<Stack>& stacks, const std::string& framework, const std::string& source = "",
                        const ColumnOfRow& column = {});

}  // namespace tracecast
