#include "tracer/rank_steps.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "tracer/recorded_calls.hpp"
#include "tracer/recorded_work.hpp"

namespace tracecast {
namespace {

using Windows = std::map<std::int64_t, StepWindow>;
using CallName = std::pair<std::uint64_t, std::int64_t>;
using Pair = std::pair<std::size_t, std::size_t>;

std::optional<std::int64_t> step_at(const Windows& windows, std::int64_t time) {
  for (const auto& [number, window] : windows)
    if (time >= window.begin && time < window.end) return number;
  return std::nullopt;
}

/// The step in which each numbered call was launched, without those whose number occurs in several steps.
std::map<CallName, std::int64_t> steps_of_calls(const Trace& trace, const Windows& windows) {
  const RecordedCalls recorded(trace);
  std::map<CallName, std::int64_t> steps;
  std::set<CallName> ambiguous;
  for (const RecordedWork& work : recorded_work(trace)) {
    if (work.kernel < 0) continue;
    const auto calls = recorded.of(trace.kernels[static_cast<std::size_t>(work.kernel)]);
    const auto name = calls.empty() ? std::nullopt : name_of_calls(calls);
    if (!name || name->second < 0) continue;
    const auto step = step_at(windows, launch_ns(trace, work));
    if (!step) continue;
    const auto [found, added] = steps.try_emplace(*name, *step);
    if (!added && found->second != *step) ambiguous.insert(*name);
  }
  for (const CallName& name : ambiguous) steps.erase(name);
  return steps;
}

/// [pair of recordings][difference of their numbers] how many calls say so. The first recording of a call is paired with each other one.
std::map<Pair, std::map<std::int64_t, std::int64_t>> votes_of(std::span<const Trace> traces,
                                                              const std::vector<Windows>& windows) {
  std::map<CallName, std::pair<std::size_t, std::int64_t>> first;  // recording and its step
  std::map<Pair, std::map<std::int64_t, std::int64_t>> votes;
  for (std::size_t i = 0; i < traces.size(); ++i)
    for (const auto& [name, step] : steps_of_calls(traces[i], windows[i])) {
      const auto [found, added] = first.try_emplace(name, i, step);
      if (!added) ++votes[{found->second.first, i}][step - found->second.second];
    }
  return votes;
}

/// Relative to the first recording, through those that share calls; 0 for what shares none.
void find_shifts(std::span<const Trace> traces, RankSteps& steps) {
  std::vector<std::int64_t>& shifts = steps.shifts;
  std::vector<bool>& known = steps.placed;
  const auto votes = votes_of(traces, steps.windows);
  for (bool changed = true; std::exchange(changed, false);)
    for (const auto& [pair, of_pair] : votes) {
      const auto [a, b] = pair;
      if (known[a] == known[b]) continue;
      const std::int64_t shift =
          std::ranges::max_element(of_pair, {}, [](const auto& vote) { return vote.second; })->first;
      if (known[a])
        shifts[b] = shifts[a] + shift;
      else
        shifts[a] = shifts[b] - shift;
      known[a] = known[b] = changed = true;
    }
}

}  // namespace

std::vector<std::int64_t> RankSteps::common() const {
  std::vector<std::int64_t> numbers;
  for (const auto& [number, window] : windows.front())
    if (std::ranges::all_of(windows, [n = number](const Windows& each) { return each.contains(n); }))
      numbers.push_back(number);
  return numbers;
}

RankSteps rank_steps(std::span<const Trace> traces) {
  RankSteps steps;
  for (const Trace& trace : traces) steps.windows.push_back(step_windows(trace));
  steps.shifts.assign(traces.size(), 0);
  steps.placed.assign(traces.size(), false);
  steps.placed[0] = true;
  if (traces.size() > 1) find_shifts(traces, steps);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (steps.shifts[i] == 0) continue;
    Windows numbered;
    for (const auto& [number, window] : steps.windows[i]) numbered[number - steps.shifts[i]] = window;
    steps.windows[i] = std::move(numbered);
  }
  return steps;
}

}  // namespace tracecast
