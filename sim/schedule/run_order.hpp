/// \file
/// Runs the lists of a schedule as far as their dependencies allow, one rank at a time.
///
///   F(q, m) needs F(q-1, m);  B and I (q, m) need F(q, m) and B or I (q+1, m);  W(q, m) needs I(q, m)
///   an overlapped pair needs what both of its halves need
///
/// q is a stage, m a micro-batch. `check` uses it without times, the simulator adds them in its callback.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// The output of the forward, or of the input gradient, of one micro-batch through one stage.
struct Output {
  bool backward = false;
  int stage = -1;  ///< -1: no such output
  int microbatch = 0;
};

/// The outputs that an action waits for (at most three; stage -1 where there is none), and those that it makes.
struct Dependencies {
  std::array<Output, 3> needs;
  std::array<Output, 2> makes;
};
Dependencies dependencies(const Schedule& schedule, int rank, const Action& action);

/// A number for each output: 0 .. output_count - 1.
inline std::size_t output_index(const Schedule& schedule, const Output& output) {
  const std::size_t stage_and_microbatch =
      static_cast<std::size_t>(output.stage) * static_cast<std::size_t>(schedule.microbatches) +
      static_cast<std::size_t>(output.microbatch);
  return 2 * stage_and_microbatch + (output.backward ? 1 : 0);
}
inline std::size_t output_count(const Schedule& schedule) {
  return 2 * static_cast<std::size_t>(schedule.stages()) * static_cast<std::size_t>(schedule.microbatches);
}

/// [replica][stage] -> rank.
std::vector<std::vector<int>> rank_of_stage(const Schedule& schedule);

/// Calls visit(rank, index of the action, its Dependencies) in an order in which all needs come first. Returns how many
/// actions of each rank could run: all of them, unless the ranks deadlock.
/// Requires every stage and micro-batch number to be in range.
template <class Visit>
std::vector<std::size_t> run_order(const Schedule& schedule, Visit visit) {
  const auto holder = rank_of_stage(schedule);
  std::vector<bool> made(output_count(schedule));
  std::vector<std::size_t> next(static_cast<std::size_t>(schedule.ranks), 0);
  std::vector<int> runnable;
  for (int rank = schedule.ranks - 1; rank >= 0; --rank) runnable.push_back(rank);
  while (!runnable.empty()) {
    const int rank = runnable.back();
    runnable.pop_back();
    const std::vector<Action>& list = schedule.actions[static_cast<std::size_t>(rank)];
    for (std::size_t& at = next[static_cast<std::size_t>(rank)]; at < list.size(); ++at) {
      const Dependencies d = dependencies(schedule, rank, list[at]);
      bool ready = true;
      for (const Output& need : d.needs) ready = ready && (need.stage < 0 || made[output_index(schedule, need)]);
      if (!ready) break;
      visit(rank, at, d);
      for (const Output& output : d.makes) {
        if (output.stage < 0) continue;
        made[output_index(schedule, output)] = true;
        const int consumer = output.stage + (output.backward ? -1 : 1);
        if (consumer < 0 || consumer >= schedule.stages()) continue;
        const int replica = schedule.replica_of_microbatch(output.microbatch);
        const int peer = holder[static_cast<std::size_t>(replica)][static_cast<std::size_t>(consumer)];
        if (peer != rank) runnable.push_back(peer);
      }
    }
  }
  return next;
}

/// The cycle of waits, for positions at which run_order got stuck: "rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 …".
std::string describe_cycle(const Schedule& schedule, const std::vector<std::size_t>& stuck_at);

}  // namespace tracecast
