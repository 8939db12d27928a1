/// Hanayo: W waves of the model over the ranks, V = 2W chunks in a snake. The order is the one in which an idle rank finds
/// work, with the times of the request:
///
///   a backward that is ready: lowest micro-batch, then highest chunk;
///   else a forward that is ready: highest stage, then lowest micro-batch;
///   at one instant, all ends come before all starts. The number of forwards in flight has no limit.
///
/// Source: Liu et al. 2023; the order of choices is ours, docs/references.md#hanayo
#include <queue>
#include <tuple>

#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

/// Something that becomes ready to run on a rank at a time.
struct Arrival {
  std::int64_t time = 0;
  int rank = 0;
  bool backward = false;
  int stage = 0;
  int microbatch = 0;
  bool operator>(const Arrival& other) const { return time > other.time; }
};

class Dispatcher {
 public:
  Dispatcher(Schedule& schedule, const ScheduleTimes& times) : s_(schedule), ready_(schedule.actions.size()) {
    // A chunk takes 1/V of the rank's time: count in units of 1/V.
    forward_ = times.forward;
    backward_ = times.backward_input + times.backward_weight;
    latency_ = times.latency * schedule.chunks;
  }

  void run() {
    for (int m = 0; m < s_.microbatches; ++m) arrivals_.push({0, 0, false, 0, m});
    while (!arrivals_.empty()) {
      const std::int64_t now = arrivals_.top().time;
      while (!arrivals_.empty() && arrivals_.top().time == now) {
        accept(arrivals_.top());
        arrivals_.pop();
      }
      for (int rank = 0; rank < s_.ranks; ++rank) dispatch(rank, now);
    }
  }

 private:
  struct Ready {
    std::priority_queue<std::tuple<int, int>> backwards;  ///< (-micro-batch, chunk)
    std::priority_queue<std::tuple<int, int>> forwards;   ///< (chunk, -micro-batch): stages of a rank rise with chunks
    std::int64_t free_at = 0;
  };

  void accept(const Arrival& a) {
    Ready& ready = ready_[static_cast<std::size_t>(a.rank)];
    if (a.microbatch < 0) return;  // the rank has become free
    const int chunk = a.stage / s_.ranks;
    a.backward ? ready.backwards.emplace(-a.microbatch, chunk) : ready.forwards.emplace(chunk, -a.microbatch);
  }

  void dispatch(int rank, std::int64_t now) {
    Ready& ready = ready_[static_cast<std::size_t>(rank)];
    if (ready.free_at > now) return;
    if (!ready.backwards.empty()) {
      const auto [m, chunk] = ready.backwards.top();
      ready.backwards.pop();
      start(rank, now, backward(chunk, -m));
    } else if (!ready.forwards.empty()) {
      const auto [chunk, m] = ready.forwards.top();
      ready.forwards.pop();
      start(rank, now, forward(chunk, -m));
    }
  }

  void start(int rank, std::int64_t now, const Action& action) {
    s_.actions[static_cast<std::size_t>(rank)].push_back(action);
    const bool is_backward = action.kind == ActionKind::backward;
    const std::int64_t end = now + (is_backward ? backward_ : forward_);
    ready_[static_cast<std::size_t>(rank)].free_at = end;
    arrivals_.push({end, rank, false, 0, -1});
    const int stage = s_.stage_of[static_cast<std::size_t>(rank)][static_cast<std::size_t>(action.chunk)];
    if (is_backward) {
      if (stage > 0) deliver(rank, end, true, stage - 1, action.microbatch);
    } else if (stage + 1 < s_.stages()) {
      deliver(rank, end, false, stage + 1, action.microbatch);
    } else {
      deliver(rank, end, true, stage, action.microbatch);
    }
  }

  void deliver(int from, std::int64_t time, bool is_backward, int stage, int microbatch) {
    const int place = stage % s_.ranks;
    const int to = (stage / s_.ranks) % 2 == 0 ? place : s_.ranks - 1 - place;
    arrivals_.push({time + (to == from ? 0 : latency_), to, is_backward, stage, microbatch});
  }

  Schedule& s_;
  std::vector<Ready> ready_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::int64_t forward_ = 0;
  std::int64_t backward_ = 0;
  std::int64_t latency_ = 0;
};

Result<Schedule> make_hanayo(const ScheduleRequest& request) {
  if (request.chunks % 2 != 0)
    return fail_key("virtual", request.chunks, "hanayo has 2 chunks per wave: an even number");
  const ScheduleTimes& times = request.times;
  if (times.forward < 1 || times.backward_input + times.backward_weight < 1) {
    return fail_key("times", 0, "hanayo needs times of forward and backward above 0");
  }
  Schedule schedule = start_schedule(request, snake_placement(request.ranks, request.chunks));
  Dispatcher(schedule, times).run();
  return schedule;
}

}  // namespace

constexpr ScheduleVariant kHanayo{
    .name = "hanayo",
    .summary = "waves: V/2 times there and back over the ranks",
    .default_chunks = 2,
    .any_chunks = true,
    .make = make_hanayo,
    .uses_times = true,
};

}  // namespace tracecast
