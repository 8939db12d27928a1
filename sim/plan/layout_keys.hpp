/// \file
/// The keys of a scenario that say its layout: what the planner sets for each layout (apply_layout of sim/search/space.hpp), what a
/// launcher must be able to express, and what `tracecast plan --sweep` leaves to its other options.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace tracecast {

struct LayoutKey {
  std::string_view name;    ///< "parallel.tp"
  std::string_view option;  ///< of `tracecast plan`, which decides the value; "": none
};

inline constexpr LayoutKey kLayoutKeys[] = {
    {"parallel.tp", "--tp"},
    {"parallel.cp", "--cp"},
    {"parallel.ep", "--ep"},
    {"parallel.etp", ""},  // of the scenario in every layout
    {"parallel.dp", ""},
    {"parallel.pp", "--pp"},
    {"parallel.vpp", "--vpp"},
    {"parallel.pp_layout", ""},
    {"parallel.account_for_embedding", ""},
    {"parallel.account_for_loss", ""},
    {"parallel.pp_schedule", "--schedule"},
    {"parallel.zero_stage", "--zero"},
    {"parallel.sharding_strategy", "--zero, and one that keeps the strategy"},
    {"parallel.shard_group", "--zero 1, 2 or 3, which keep it"},
    {"parallel.reshard_after_forward", "--zero 3, which keeps it"},
    {"parallel.sequence_parallel", "--sequence-parallel"},
    {"parallel.tp_comm_overlap", "--sequence-parallel on, which keeps it"},
    {"training.micro_batch_size", "--micro-batch"},
    {"training.recompute", "--recompute"},
    {"training.offload_optimizer", "--offload"},
    {"training.offload_parameters", "--offload"},
    {"training.offload_activations", "--offload"},
    {"training.offload_layers", "--offload activations, which keeps it"},
};

/// nullptr: a key that says nothing about a layout.
inline const LayoutKey* find_layout_key(std::string_view name) {
  const auto* const found = std::ranges::find(kLayoutKeys, name, &LayoutKey::name);
  return found == std::end(kLayoutKeys) ? nullptr : found;
}

}  // namespace tracecast
