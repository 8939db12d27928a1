/// \file
/// The layouts of a search: a list of values for every free choice; the space is their product.
///
/// The number of a layout is its position in that product (mixed radix, the last list fastest). It is the same in every
/// process and every run of the same search.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/io/scenario.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

/// What is kept in host memory: training.offload_optimizer, offload_parameters, offload_activations.
struct Offload {
  bool optimizer = false;
  bool parameters = false;
  bool activations = false;
  auto operator<=>(const Offload&) const = default;
};
/// "none", or the parts joined by '+': "optimizer+parameters".
std::string to_string(const Offload& offload);
/// The inverse; nullopt for other texts.
std::optional<Offload> parse_offload(std::string_view text);
/// Optimizer; optimizer and parameters; activations; all three: tried if no layout fits the GPU.
std::vector<Offload> usual_offloads();

/// One layout of a job. It changes nothing else of the scenario.
struct Layout {
  std::int64_t id = 0;  ///< number in its space
  int tp = 1;
  int cp = 1;
  int ep = 1;
  bool sequence_parallel = true;  ///< where tp > 1
  std::int64_t micro_batch_size = 1;
  Recompute recompute = Recompute::none;
  int pp = 1;
  int vpp = 1;
  std::string pp_schedule;  ///< empty: default_schedule(vpp)
  int zero_stage = 0;
  Offload offload;

  /// Ranks that hold the model once. 64 bits: options and files may ask for any degrees.
  std::int64_t model_ranks() const { return std::int64_t{tp} * cp * pp; }
  /// Virtual stages.
  std::int64_t stages() const { return std::int64_t{pp} * vpp; }
  bool operator==(const Layout&) const = default;
};

/// Values of each choice, in the order in which they are tried. The choices that affect layer costs come first.
struct SearchSpace {
  std::vector<int> tp{1};
  std::vector<int> cp{1};
  std::vector<int> ep{1};
  std::vector<char> sequence_parallel{true};
  std::vector<std::int64_t> micro_batch_size{1};
  std::vector<Recompute> recompute{Recompute::none};
  std::vector<int> pp{1};
  std::vector<int> vpp{1};
  std::vector<std::string> pp_schedule{""};
  std::vector<int> zero_stage{1};
  std::vector<Offload> offload{Offload{}};

  std::int64_t size() const;
  /// Requires 0 <= id < size()
  Layout at(std::int64_t id) const;
  /// The inverse; choices that the space does not have are the first of their list.
  std::int64_t id_of(const Layout& layout) const;
  /// Number of layouts that share all choices up to `recompute` and so have the same layer costs.
  std::int64_t layouts_per_layer_cost() const;
  /// True if the space has an equivalent layout with a lower number: sequence parallelism has no effect for tp 1, and
  /// ZeRO-1 none where no parameter has a copy. ZeRO-2 and 3 have: there gradients and weights are FSDP's.
  bool repeats(const Layout& layout, const Scenario& scenario) const;
  bool operator==(const SearchSpace&) const = default;
};

/// The default choices for this scenario on `ranks` GPUs:
///
///   tp           powers of two that divide the query heads, up to the GPUs of a scale-up domain, 16 at most
///   pp           every divisor of ranks with at least a layer per stage, up to 128
///   vpp          1 to 8, with at least a layer per virtual stage
///   cp           1; from 32 Ki tokens per sequence on, powers of two up to 16
///   ep           1; with experts, powers of two that divide them, up to 64
///   micro-batch  1, 2, 4, 8 if they divide the global batch
///   recompute    none, selective, full
///   schedule     1f1b, interleaved with chunks
///   zero_stage   0, 1, 3
///   sequence parallelism on, nothing offloaded
/// The scenario's own value of each choice is always included.
SearchSpace default_space(const Scenario& scenario, int ranks);

/// Sets this layout. dp follows from the ranks. FSDP's sharding_strategy stays if it has this zero_stage. Layers are
/// divided evenly if possible; else embedding and loss count as one layer each and the first stages take the remainder
/// (stages.hpp).
void apply_layout(const Layout& layout, const Scenario& scenario, Parallel& parallel, Training& training);
/// The part of it that zero_stage decides. HYBRID_SHARD's group stays that of a host unless the scenario gives one.
/// Requires tp and pp set
void apply_sharding(const Layout& layout, const Scenario& scenario, Parallel& parallel);
/// What it keeps in host memory.
void apply_offload(const Layout& layout, const Scenario& scenario, Training& training);
/// The number of a scenario's own layout, which stands for everything that the scenario says about it.
inline constexpr std::int64_t kOwnLayout = -1;

/// The scenario with this layout; with kOwnLayout as it is. On a machine with GPUs of several kinds (perturb.gpus) layers are
/// divided by their speed (stage_cut.hpp).
Scenario with_layout(const Scenario& scenario, const Layout& layout);

/// The settings, as --set takes them ("parallel.tp=8"), that turn the scenario into the one with this layout.
std::vector<std::string> layout_settings(const Scenario& scenario, const Layout& layout);

/// Keys that layouts of the space set to other values than the scenario has: "parallel.tp".
std::set<std::string> searched_keys(const Scenario& scenario, const SearchSpace& space);

/// "stages of 7, 8 x 14, 7 layers"; empty: all virtual stages have as many layers. Requires a possible layout.
std::string describe_cut(const Scenario& scenario, const Layout& layout);

/// The layout of a scenario, with the number kOwnLayout, since it may be in no space.
Layout layout_of(const Scenario& scenario);

/// "tp 8, pp 16, vpp 8, dp 128, micro-batch 1, no recomputation, ZeRO-1": the choices that are not 1 or none.
std::string describe(const Layout& layout, int ranks);

}  // namespace tracecast
