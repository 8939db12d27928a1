// A search shared between processes: here threads with a meeting point in place of MPI.
#include "sim/search/shared_rounds.hpp"

#include <barrier>
#include <set>
#include <thread>

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {

struct Meeting {
  explicit Meeting(int size) : parts(static_cast<std::size_t>(size)), barrier(size) {}
  std::string text;
  std::vector<std::string> parts;
  std::barrier<> barrier;
};

class ThreadGroup final : public ProcessGroup {
 public:
  ThreadGroup(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_.parts.size()); }
  std::string broadcast(std::string text) override {
    if (rank_ == 0) meeting_.text = std::move(text);
    meeting_.barrier.arrive_and_wait();
    std::string result = meeting_.text;
    meeting_.barrier.arrive_and_wait();
    return result;
  }
  std::vector<std::string> gather(const std::string& text) override {
    meeting_.parts[static_cast<std::size_t>(rank_)] = text;
    meeting_.barrier.arrive_and_wait();
    std::vector<std::string> all = rank_ == 0 ? meeting_.parts : std::vector<std::string>{};
    meeting_.barrier.arrive_and_wait();
    return all;
  }

 private:
  Meeting& meeting_;
  int rank_;
};

std::vector<Evaluation> by_number(SearchRound round) {
  std::vector<Evaluation> result;
  for (const auto& [layout, bound] : round) {
    Evaluation e;
    e.layout = layout;
    e.bound = bound;
    e.valid = layout.id != 4;
    e.fits = layout.id % 2 == 1;
    e.memory.count = layout.id << 33;
    e.step_time_s = 1.0 / static_cast<double>(layout.id + 1);
    e.mfu = 0.5;
    e.exposed_s[3] = 0.25;
    result.push_back(e);
  }
  return result;
}

std::vector<std::pair<Layout, LayoutBound>> layouts(std::int64_t first, std::int64_t count) {
  std::vector<std::pair<Layout, LayoutBound>> round(static_cast<std::size_t>(count));
  for (auto& [layout, bound] : round) {
    layout.id = first++;
    bound.step_time.picoseconds = layout.id;
  }
  return round;
}

}  // namespace

TEST_CASE("shared rounds: all processes get the result of one, and the work is divided", "[search][differential]") {
  const int processes = GENERATE(1, 2, 3, 8);
  const std::vector<std::vector<std::pair<Layout, LayoutBound>>> rounds{layouts(0, 5), layouts(5, 1), layouts(6, 32)};
  Meeting meeting(processes);
  std::vector<int> evaluated(static_cast<std::size_t>(processes));
  std::vector<std::set<std::int64_t>> limits(static_cast<std::size_t>(processes));
  std::vector<std::vector<Evaluation>> seen(static_cast<std::size_t>(processes));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < processes; ++rank)
      threads.emplace_back([&, rank] {
        const auto r = static_cast<std::size_t>(rank);
        ThreadGroup group(meeting, rank);
        const EvaluateRound inner = [&](SearchRound round, Duration longest) {
          limits[r].insert(longest.picoseconds);
          evaluated[r] += static_cast<int>(round.size());
          return by_number(round);
        };
        // Process 0 knows layout 2 already, and all of the second round.
        const EvaluateRound work = share_work(group, inner);
        const EvaluateRound knowing = [&](SearchRound round, Duration longest) {
          std::vector<std::pair<Layout, LayoutBound>> unknown;
          for (const auto& each : round)
            if (each.first.id != 2 && each.first.id != 5) unknown.push_back(each);
          std::vector<Evaluation> found = work(unknown, longest);
          for (std::size_t i = 0; i < round.size(); ++i)
            if (round[i].first.id == 2 || round[i].first.id == 5)
              found.insert(found.begin() + static_cast<std::ptrdiff_t>(i), by_number(round.subspan(i, 1)).front());
          return found;
        };
        const EvaluateRound all = same_rounds(group, knowing, inner);
        for (const auto& round : rounds)
          for (Evaluation& each : all(round, Duration{7})) seen[r].push_back(std::move(each));
      });
  }
  std::vector<Evaluation> expected;
  for (const auto& round : rounds)
    for (Evaluation& each : by_number(round)) expected.push_back(std::move(each));
  int total = 0;
  for (std::size_t r = 0; r < seen.size(); ++r) {
    CHECK(seen[r] == expected);
    CHECK(limits[r] == std::set<std::int64_t>{7});
    CHECK(evaluated[r] <= 4 / processes + 1 + 32 / processes + 1);
    total += evaluated[r];
  }
  CHECK(total == 4 + 32);
}
