/// \file
/// Search for the best layouts of a job on one machine: simulation, pruned by lower bounds.
///
///   1. bounds of every layout of the space; drop layouts whose memory bound exceeds the GPU
///   2. sort the rest by (bound, number)
///   3. simulate a few of the most promising layouts of each ZeRO stage, then rounds of a fixed number of layouts until the next
///      bound exceeds the slowest of the best so far. Layouts that are slower than those, too, are given up: their simulation ends
///      as soon as this is known
///
/// What counts as the best so far changes only between rounds, so the result and the list of simulated layouts are the same for any
/// number of threads or processes. A bound never exceeds the simulated time (bound.hpp), so none of the best layouts is dropped.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/search/bound.hpp"
#include "sim/search/space.hpp"

namespace tracecast {

/// Result of one layout.
struct Evaluation {
  Layout layout;
  LayoutBound bound;
  bool valid = true;       ///< false: make_plan or make_schedule return an error
  bool fits = false;       ///< in the memory of the GPUs, and of the hosts where that is known
  bool fits_gpus = false;  ///< in that of the GPUs
  bool given_up = false;   ///< slower than the best of earlier rounds: no times are known, and `fits` is false
  Bytes memory;            ///< of the rank with the least room
  Bytes memory_capacity;   ///< of its GPU
  Bytes host_used;         ///< offloaded by the GPUs of the fullest host together
  double step_time_s = 0;  ///< 0 if it is not valid, does not fit or was given up
  double mfu = 0;
  double bubble_fraction = 0;
  double host_s = 0;
  double optimizer_s = 0;
  double compute_s = 0;
  std::array<double, kTrafficKinds> exposed_s{};
  bool operator==(const Evaluation&) const = default;
};

/// Plans, checks memory and simulates. Thread-safe.
Evaluation evaluate(const Scenario& scenario, const Layout& layout, const LayoutBound& bound, double memory_headroom);

/// Whether both are the same run: they differ in settings without effect.
bool is_same_run(const Evaluation& a, const Evaluation& b);

/// Why no layout of the space can be planned: the most frequent reason of those that come nearest; empty: some can.
std::string why_impossible(const Scenario& scenario, const SearchSpace& space);

/// Simulates the scenario with its own layout.
Evaluation evaluate_as_it_is(const Scenario& scenario);

struct SearchOptions {
  int best = 5;                ///< how many layouts to find
  double memory_headroom = 0;  ///< share of the GPU memory that stays free
  int threads = 0;             ///< 0: as many as the machine has
  bool exhaustive = false;     ///< simulate everything that fits (for tests and exports)
  /// Numbers of layouts that are likely to be the best: they are simulated first, and are a limit for the others.
  std::vector<std::int64_t> likely = {};
  /// Whether a scenario with its layout may be offered; empty: every one. Asked once for each layout of a round.
  std::function<bool(const Scenario&)> allowed = {};
  /// After every round: layouts looked at, the most that remain to be looked at, and the best step so far (0: none).
  std::function<void(std::int64_t done, std::int64_t of, double best_s)> progress = {};
  std::function<void()> evaluated = {};  ///< after every layout, from any thread
  std::function<bool()> stop = {};       ///< asked before every round; true ends the search with what it has
};

struct SearchCounts {
  std::int64_t layouts = 0;        ///< of the space
  std::int64_t impossible = 0;     ///< degrees or batches that do not divide, or an error of plan or schedule
  std::int64_t out_of_memory = 0;  ///< by bound or exactly
  std::int64_t refused = 0;        ///< by SearchOptions::allowed
  std::int64_t pruned = 0;         ///< bound above the slowest of the best
  std::int64_t given_up = 0;       ///< simulated until their step was above the slowest of the best of earlier rounds
  std::int64_t simulated = 0;      ///< to the end
  bool operator==(const SearchCounts&) const = default;
};

struct SearchResult {
  std::vector<Evaluation> best;       ///< fastest first, ties by number
  std::vector<Evaluation> simulated;  ///< all layouts that were simulated to the end, by number
  SearchCounts counts;
  bool complete = true;  ///< false: SearchOptions::stop ended it
  Bytes least_memory;    ///< lowest memory bound of a possible layout; 0: no layout is possible
  Bytes least_host;      ///< least that a host must have for a layout that fits the GPUs but not the hosts; 0: none
};

/// Evaluates the layouts of one round, in their order. Threads, processes and a store of results are implementations
/// that can be combined.
using SearchRound = std::span<const std::pair<Layout, LayoutBound>>;
/// `longest`: layouts that take longer may be given up; 0: none may.
using EvaluateRound = std::function<std::vector<Evaluation>(SearchRound, Duration longest)>;
/// The scenario must outlive it.
EvaluateRound evaluate_on_threads(const Scenario& scenario, const SearchOptions& options);

/// Number of layouts in a round, and of each ZeRO stage in the first one where no layout is known to be likely.
inline constexpr std::size_t kRound = 32;
inline constexpr int kFirstOfStage = 2;

/// Requires a scenario with cluster.world_size.
SearchResult search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options,
                    const EvaluateRound& evaluate_round);
SearchResult search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options);

/// Bounds of the whole space on `threads` threads, by number, without impossible layouts.
std::vector<BoundedLayout> bound_all(const Scenario& scenario, const SearchSpace& space, int threads,
                                     SearchCounts& counts);

}  // namespace tracecast
