#include "sim/search/shared_rounds.hpp"

#include <cstring>
#include <map>
#include <utility>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

/// An evaluation without the layout and its bound, which all processes have.
struct Outcome {
  bool valid = false;
  bool fits = false;
  bool fits_gpus = false;
  bool given_up = false;
  std::int64_t memory = 0;
  std::int64_t memory_capacity = 0;
  std::int64_t host_used = 0;
  double numbers[6] = {};
  std::array<double, kTrafficKinds> exposed_s{};
};
static_assert(std::is_trivially_copyable_v<Outcome>);

std::string pack(const std::vector<Evaluation>& evaluations) {
  std::string text(evaluations.size() * sizeof(Outcome), '\0');
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    const Evaluation& e = evaluations[i];
    const Outcome outcome{
        e.valid,           e.fits,
        e.fits_gpus,       e.given_up,
        e.memory.count,    e.memory_capacity.count,
        e.host_used.count, {e.step_time_s, e.mfu, e.bubble_fraction, e.host_s, e.optimizer_s, e.compute_s},
        e.exposed_s};
    std::memcpy(text.data() + i * sizeof(Outcome), &outcome, sizeof(Outcome));
  }
  return text;
}

Evaluation unpack(const std::string& text, std::size_t index, const std::pair<Layout, LayoutBound>& of) {
  TRACECAST_ASSERT((index + 1) * sizeof(Outcome) <= text.size(), "processes run the same search");
  Outcome outcome;
  std::memcpy(&outcome, text.data() + index * sizeof(Outcome), sizeof(Outcome));
  Evaluation e;
  e.layout = of.first;
  e.bound = of.second;
  e.valid = outcome.valid;
  e.fits = outcome.fits;
  e.given_up = outcome.given_up;
  e.fits_gpus = outcome.fits_gpus;
  e.memory.count = outcome.memory;
  e.memory_capacity.count = outcome.memory_capacity;
  e.host_used.count = outcome.host_used;
  double* const places[] = {&e.step_time_s, &e.mfu, &e.bubble_fraction, &e.host_s, &e.optimizer_s, &e.compute_s};
  for (std::size_t i = 0; i < std::size(places); ++i) *places[i] = outcome.numbers[i];
  e.exposed_s = outcome.exposed_s;
  return e;
}

/// Messages of process 0: work to do (the numbers of layouts), or the finished round.
constexpr char kWork = 'w';
constexpr char kRoundDone = 'd';

std::string work_message(SearchRound round) {
  std::string text(1, kWork);
  for (const auto& [layout, bound] : round) text.append(reinterpret_cast<const char*>(&layout.id), sizeof(layout.id));
  return text;
}

std::vector<std::int64_t> numbers_of(const std::string& message) {
  std::vector<std::int64_t> ids((message.size() - 1) / sizeof(std::int64_t));
  std::memcpy(ids.data(), message.data() + 1, ids.size() * sizeof(std::int64_t));
  return ids;
}

/// Every size-th layout, from `rank` on.
std::vector<std::pair<Layout, LayoutBound>> share_of(SearchRound round, int rank, int size) {
  std::vector<std::pair<Layout, LayoutBound>> own;
  for (std::size_t i = static_cast<std::size_t>(rank); i < round.size(); i += static_cast<std::size_t>(size))
    own.push_back(round[i]);
  return own;
}

}  // namespace

EvaluateRound share_work(ProcessGroup& group, EvaluateRound inner) {
  return [&group, inner = std::move(inner)](SearchRound round, Duration longest) {
    if (round.empty()) return std::vector<Evaluation>{};
    group.broadcast(work_message(round));
    const std::vector<std::string> parts = group.gather(pack(inner(share_of(round, 0, group.size()), longest)));
    std::vector<Evaluation> evaluations;
    const auto size = static_cast<std::size_t>(group.size());
    for (std::size_t i = 0; i < round.size(); ++i) evaluations.push_back(unpack(parts[i % size], i / size, round[i]));
    return evaluations;
  };
}

EvaluateRound same_rounds(ProcessGroup& group, EvaluateRound round_of_process_0, EvaluateRound inner) {
  if (group.rank() == 0)
    return [&group, decide = std::move(round_of_process_0)](SearchRound round, Duration longest) {
      std::vector<Evaluation> evaluations = decide(round, longest);
      group.broadcast(kRoundDone + pack(evaluations));
      return evaluations;
    };
  return [&group, inner = std::move(inner)](SearchRound round, Duration longest) {
    std::map<std::int64_t, std::pair<Layout, LayoutBound>> by_number;
    for (const auto& each : round) by_number.emplace(each.first.id, each);
    std::string message = group.broadcast({});
    while (message.front() == kWork) {
      std::vector<std::pair<Layout, LayoutBound>> work;
      for (const std::int64_t id : numbers_of(message)) work.push_back(by_number.at(id));
      group.gather(pack(inner(share_of(work, group.rank(), group.size()), longest)));
      message = group.broadcast({});
    }
    message.erase(0, 1);
    std::vector<Evaluation> evaluations;
    for (std::size_t i = 0; i < round.size(); ++i) evaluations.push_back(unpack(message, i, round[i]));
    return evaluations;
  };
}

}  // namespace tracecast
