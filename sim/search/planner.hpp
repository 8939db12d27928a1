/// The search for the best layouts of a job on one machine: the simulator, pruned by bounds that it cannot undercut.
///
///   1. every layout of the space is bounded; one whose memory bound exceeds the GPU is dropped
///   2. the rest is ordered by (bound, number)
///   3. rounds of a fixed number of layouts are simulated until the next bound exceeds the slowest of the best so far
///
/// Pruning happens only between rounds, so the answer and the list of simulated layouts are the same for any number of
/// threads or processes. No layout whose simulated step is among the best is ever dropped: a bound exceeds no simulation
/// (bound.hpp).
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

/// What became of one layout.
struct Evaluation {
  Layout layout;
  LayoutBound bound;
  bool valid = true;       ///< false: make_plan or make_schedule refuse it
  bool fits = false;       ///< into the memory of the GPU
  Bytes memory;            ///< of the tightest rank
  double step_time_s = 0;  ///< 0 when it is not valid or does not fit: then it is not simulated
  double mfu = 0;
  double bubble_fraction = 0;
  double host_s = 0;
  double optimizer_s = 0;
  double compute_s = 0;
  std::array<double, kTrafficKinds> exposed_s{};
  bool operator==(const Evaluation&) const = default;
};

/// Plans, checks memory and simulates. The same for everyone: no state.
Evaluation evaluate(const Scenario& scenario, const Layout& layout, const LayoutBound& bound, double memory_headroom);

/// The scenario as it is, with everything that no layout changes.
Evaluation evaluate_as_it_is(const Scenario& scenario);

struct SearchOptions {
  int best = 5;                ///< how many layouts to find
  double memory_headroom = 0;  ///< share of the GPU's memory that stays free
  int threads = 0;             ///< 0: as many as the machine has
  bool exhaustive = false;     ///< simulate everything that fits (for tests and exports)
};

struct SearchCounts {
  std::int64_t layouts = 0;        ///< of the space
  std::int64_t impossible = 0;     ///< degrees or batches that do not divide, or refused by plan or schedule
  std::int64_t out_of_memory = 0;  ///< by bound or exactly
  std::int64_t pruned = 0;         ///< bound above the slowest of the best
  std::int64_t simulated = 0;
  bool operator==(const SearchCounts&) const = default;
};

struct SearchResult {
  std::vector<Evaluation> best;       ///< fastest first, ties by number
  std::vector<Evaluation> simulated;  ///< all that were, by number
  SearchCounts counts;
};

/// Evaluates the layouts of one round, in their order. Composable: threads, processes, a store of results.
using SearchRound = std::span<const std::pair<Layout, LayoutBound>>;
using EvaluateRound = std::function<std::vector<Evaluation>(SearchRound)>;
/// The scenario must outlive it.
EvaluateRound evaluate_on_threads(const Scenario& scenario, const SearchOptions& options);

/// A round of them.
std::vector<std::pair<Layout, LayoutBound>> as_round(const SearchSpace& space, std::span<const BoundedLayout> layouts);

/// Number of layouts of a round.
inline constexpr std::size_t kRound = 32;

/// Requires a scenario whose cluster is sized.
SearchResult search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options,
                    const EvaluateRound& evaluate_round);
SearchResult search(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options);

/// Bounds of the whole space, by number, without the impossible layouts. On `threads` threads.
std::vector<BoundedLayout> bound_all(const Scenario& scenario, const SearchSpace& space, int threads,
                                     SearchCounts& counts);

}  // namespace tracecast
