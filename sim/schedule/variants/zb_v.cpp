/// ZB-V: two chunks per rank in a V (rank r holds stages r and 2P-1-r), so that the last stage meets the first on rank 0.
/// No bubble within a rank's span when F, I and W take equally long, at the memory of 1F1B's rank 0.
///
/// The order is built for n = max(2P-1, M) micro-batches; those above M are then dropped, as in PyTorch.
///
/// Source: Qi et al. 2024, docs/references.md#controllable-memory; torch.distributed.pipelining's ScheduleZBVZeroBubble
#include <algorithm>
#include <array>

#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 3> kZbVAliases{"ZBVZeroBubble", "ScheduleZBVZeroBubble", "zbv"};

/// Appends the next action of a kind for chunk 0 or 1, unless its micro-batch is above M.
class Writer {
 public:
  Writer(std::vector<Action>& list, int microbatches) : list_(list), microbatches_(microbatches) {}
  void f(int chunk) { put(forward(chunk, forwards_[index(chunk)]++)); }
  void i(int chunk) { put(backward_input(chunk, inputs_[index(chunk)]++)); }
  void w(int chunk) { put(backward_weight(chunk, weights_[index(chunk)]++)); }
  int forwards(int chunk) const { return forwards_[index(chunk)]; }
  int weights(int chunk) const { return weights_[index(chunk)]; }

 private:
  static std::size_t index(int chunk) { return static_cast<std::size_t>(chunk); }
  void put(Action action) {
    if (action.microbatch < microbatches_) list_.push_back(action);
  }
  std::vector<Action>& list_;
  int microbatches_;
  std::array<int, 2> forwards_{};
  std::array<int, 2> inputs_{};
  std::array<int, 2> weights_{};
};

void write_rank(Writer& list, int rank, int ranks, int n) {
  for (int k = 0; k < 2 * (ranks - rank) - 1; ++k) list.f(0);
  for (int k = 0; k < rank; ++k) list.f(1), list.f(0);
  for (int k = 0; k < ranks - rank; ++k) list.f(1), list.i(1), list.w(1);
  while (list.forwards(1) < list.forwards(0) || list.forwards(0) < n) {
    if (list.forwards(0) < n) list.f(0);
    list.i(0), list.w(0), list.f(1), list.i(1), list.w(1);
  }
  for (int k = 0; k < rank; ++k) list.i(0), list.i(1);
  for (int k = 0; k < ranks - rank; ++k) list.i(0), list.w(0);
  while (list.weights(1) < n) list.w(1);
  while (list.weights(0) < n) list.w(0);
}

Result<Schedule> make_zb_v(const ScheduleRequest& request) {
  Schedule schedule = start_schedule(request, snake_placement(request.ranks, 2));
  const int n = std::max(2 * request.ranks - 1, request.microbatches);
  for (int rank = 0; rank < request.ranks; ++rank) {
    Writer writer(schedule.actions[static_cast<std::size_t>(rank)], request.microbatches);
    write_rank(writer, rank, request.ranks, n);
  }
  return schedule;
}

}  // namespace

constexpr ScheduleVariant kZbV{
    .name = "zb-v",
    .aliases = kZbVAliases,
    .summary = "zero bubble with two chunks in a V, at 1F1B's memory",
    .default_chunks = 2,
    .make = make_zb_v,
};

}  // namespace tracecast
