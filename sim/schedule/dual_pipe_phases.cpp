#include "sim/schedule/dual_pipe_phases.hpp"

#include <cstddef>
#include <deque>

#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

class Writer {
 public:
  explicit Writer(const DualPipeRank& rank) : rank_(rank) {}

  void f(int phase) { list_.push_back(forward(chunk(phase), next(forwards_, phase))); }
  void b(int phase) { list_.push_back(backward(chunk(phase), next(backwards_, phase))); }
  void i(int phase) {
    const Action input = backward_input(chunk(phase), next(backwards_, phase));
    list_.push_back(input);
    postponed_.push_back(backward_weight(input.chunk, input.microbatch));
  }
  void w() {
    list_.push_back(postponed_.front());
    postponed_.pop_front();
  }
  void fb(int forward_phase, int backward_phase) {
    const int f = next(forwards_, forward_phase);
    list_.push_back(overlapped(chunk(forward_phase), f, chunk(backward_phase), next(backwards_, backward_phase)));
  }
  std::vector<Action> take() { return std::move(list_); }

 private:
  int chunk(int phase) const { return rank_.chunk[static_cast<std::size_t>(phase)]; }
  int next(std::array<int, 2>& counts, int phase) const {
    const auto p = static_cast<std::size_t>(phase);
    return rank_.first_microbatch[p] + counts[p]++;
  }
  const DualPipeRank& rank_;
  std::vector<Action> list_;
  std::deque<Action> postponed_;
  std::array<int, 2> forwards_{};
  std::array<int, 2> backwards_{};
};

void fill(Writer& list, int inside, int position) {
  for (int k = 0; k < 2 * inside; ++k) list.f(0);
  for (int k = 0; k <= position; ++k) list.f(0), list.f(1);
  for (int k = 0; k < inside; ++k) list.i(1), list.w(), list.f(1);
}

void overlap(Writer& list, int pairs, bool innermost) {
  for (int k = 0; k < pairs; ++k) {
    if (k == 0 && innermost) {
      list.f(0), list.b(1);
    } else {
      list.fb(0, 1);
    }
    list.fb(1, 0);
  }
}

void drain(Writer& list, int inside, int position) {
  for (int k = 0; k < inside; ++k) list.b(1), list.fb(1, 0);
  const int half = (position + 1) / 2;
  const bool odd = position % 2 == 1;
  for (int k = 0; k <= position; ++k) {
    const bool split1 = odd ? k >= half : k > half;
    const bool split0 = k >= half;
    split1 ? list.i(1) : list.b(1);
    split0 ? list.i(0) : list.b(0);
  }
  for (int k = 0; k < inside; ++k) list.w(), list.i(0);
  for (int k = 0; k <= position; ++k) list.w();
}

}  // namespace

std::vector<Action> dual_pipe_phases(const DualPipeRank& rank) {
  Writer list(rank);
  const int inside = rank.depth - rank.position - 1;  // positions further in than this one
  fill(list, inside, rank.position);
  overlap(list, rank.microbatches - 2 * rank.depth + rank.position + 1, inside == 0);
  drain(list, inside, rank.position);
  return list.take();
}

}  // namespace tracecast
