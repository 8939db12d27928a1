/// \file
/// The main loop of the engine: executes streams until they need a time that is not known yet.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/engine/contention.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/exchange.hpp"
#include "sim/engine/in_flight.hpp"
#include "sim/engine/span_recorder.hpp"
#include "sim/engine/state.hpp"
#include "sim/engine/steady_state.hpp"
#include "sim/engine/time_left.hpp"
#include "sim/graph/shared_transfers.hpp"
#include "sim/network/flow_network.hpp"

namespace tracecast::engine {

class StateWriter;

/// Executes the ranks that it owns; without an exchange it owns all ranks. `Recorder` is notified of every operation.
///
/// Runnable streams are kept on a stack: last in, first out keeps the data of a tensor-parallel group in the cache. The
/// order does not change the result, since all merges are maxima.
///
/// Compute and hosts are in worker_compute.hpp, groups in lockstep in worker_lockstep.hpp, compute beside transfers in
/// worker_contention.hpp, collectives and messages in worker_transfers.hpp; include these to use it.
template <class Recorder>
class Worker {
 public:
  Worker(State& state, Recorder& recorder, Exchange* exchange = nullptr, std::int32_t number = 0)
      : state_(state), recorder_(recorder), exchange_(exchange), number_(number) {}

  /// The main loop has four parts. First, all streams become runnable, and every host issues as far as it can without
  /// waiting. Second, each runnable stream executes operations until it finishes or waits; an operation that completes a
  /// rendezvous or records an event makes the streams that wait for it runnable. Third, if transfers share links, the
  /// network advances to its next completion whenever every stream waits; likewise compute that transfers may slow
  /// (worker_contention.hpp). Fourth, if there are other workers, this one
  /// waits for collectives that they complete, until all workers are idle.
  void run() {
    if (gave_up_) return;
    make_all_runnable();
    advance_all_hosts();
    advance();
    while (!gave_up_ && leave_all_lockstep()) advance();
  }

  /// The step takes longer than give_up_after() allows, so that run() did not simulate it to its end.
  bool gave_up() const { return gave_up_; }

  /// After run(): transfers share links beyond kLongestSharing.
  bool shares_too_long() const { return !in_flight_.empty(); }

  std::int64_t executed() const { return executed_; }
  std::int64_t skipped() const { return skipped_; }

  /// Transfers slow compute; `beside`: [collective] the speeds that it leaves.   Requires no exchange
  void slow_compute(std::vector<Speeds> beside) {
    contention_ = std::make_unique<Contention>(state_.graph, state_.compiled, std::move(beside));
  }

  /// Periods that repeat are skipped (steady_state.hpp).   Requires slow_compute(), a Recorder that keeps nothing, and a
  /// network that moves on
  void skip_steady_state(std::unique_ptr<SteadyState> found) { steady_ = std::move(found); }

  /// Steps of more than `longest` ps are given up.   Requires slow_compute()
  void give_up_after(std::int64_t longest) {
    longest_ = longest;
    time_left_ = time_left(state_.graph, state_.compiled);
    for (const std::vector<std::int64_t>& rank : time_left_) gave_up_ = gave_up_ || rank.front() > longest;
  }

  /// Transfers that share links end when the network says so.   Requires no exchange
  void share_links(const LinkSharing* sharing) { sharing_ = sharing; }

 private:
  void make_all_runnable() {
    const auto lanes = static_cast<std::int32_t>(state_.stream_count);
    for (auto rank = static_cast<std::int32_t>(state_.ranks.size()); rank-- > 0;) {
      if (!owns(rank)) continue;
      for (std::int32_t lane = lanes; lane-- > 0;) runnable_.push_back(rank * lanes + lane);
    }
  }

  void advance_all_hosts() {
    const auto ranks = static_cast<std::int32_t>(state_.ranks.size());
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      if (owns(rank)) advance_host(rank);
  }

  void advance() {
    if (contention_ != nullptr) return run_in_order_of_time();
    execute_runnable();
    if (sharing_ != nullptr) run_shared_transfers();
    if (exchange_ != nullptr) run_released();
  }

  void execute_runnable() {
    while (!runnable_.empty()) {
      const std::int32_t stream = runnable_.back();
      runnable_.pop_back();
      execute_stream(stream);
    }
  }

  void run_shared_transfers() {
    Duration now;
    std::vector<std::int32_t> ended;
    while (sharing_->network.advance(now, ended, kLongestSharing)) {
      complete_transfers(ended, now.picoseconds);
    }
  }

  void run_released() {
    while (true) {
      const std::vector<Release> releases = exchange_->receive(number_);
      if (releases.empty()) return;
      for (const Release& release : releases) resume(release.stream, release.start, release.end, -1);
      execute_runnable();
    }
  }

  bool owns(std::int32_t rank) const { return exchange_ == nullptr || exchange_->owner(rank) == number_; }
  StreamState& stream_state(std::int32_t stream) { return state_.streams[static_cast<std::size_t>(stream)]; }
  TimeBreakdown& breakdown_of(const OpContext& at) {
    return state_.breakdowns[static_cast<std::size_t>(at.state->rank)];
  }
  /// The streams of the rank at `at`, from its compute stream on.
  StreamState* streams_of(const OpContext& at) { return at.state - at.state->lane; }

  // ---- Waiting -----------------------------------------------------------------------------------------------------

  std::int32_t& next_of(std::int32_t waiter) {
    const auto streams = static_cast<std::int32_t>(state_.streams.size());
    return waiter < streams ? stream_state(waiter).next
                            : state_.ranks[static_cast<std::size_t>(waiter - streams)].host_next;
  }

  void enqueue_waiter(WaitList& list, std::int32_t waiter) {
    next_of(waiter) = list.first;
    list.first = waiter + 1;
  }

  /// Makes the streams of the list runnable, and advances the hosts in it.
  void notify_all(WaitList& list) {
    const auto streams = static_cast<std::int32_t>(state_.streams.size());
    for (std::int32_t link = std::exchange(list.first, 0); link != 0;) {
      const std::int32_t waiter = link - 1;
      link = std::exchange(next_of(waiter), 0);
      if (waiter >= streams) {
        advance_host(waiter - streams);
        continue;
      }
      set_waits_for_compute(stream_state(waiter), false);
      runnable_.push_back(waiter);
    }
  }

  void set_waits_for_compute(StreamState& s, bool waits) {
    if (s.waits_for_compute == waits) return;
    s.waits_for_compute = waits;
    state_.ranks[static_cast<std::size_t>(s.rank)].lanes_that_wait_for_compute ^= lane_bit(s.lane);
  }

  /// Empties a list of streams, and calls `visit(stream)` for each.
  template <class Visit>
  void take_all(const WaitList& list, Visit visit) {
    for (std::int32_t link = list.first; link != 0;) {
      const std::int32_t stream = link - 1;
      link = std::exchange(stream_state(stream).next, 0);
      visit(stream);
    }
  }

  void record(const OpContext& at, EventRef ref, const Interval& interval) {
    if (ref.none()) return;
    Event& e = state_.event(at, ref);
    fetch_after(e);
    TRACECAST_ASSERT(ref.local() || !e.recorded(), "a rank event is recorded once");
    e.record(interval, at.item_index);
    recorder_.on_record(e, at.stream);
    if (e.waiters.first != 0) notify_all(e.waiters);
  }

  // ---- Hosts and compute: worker_compute.hpp -----------------------------------------------------------------------

  void advance_host(std::int32_t rank_index);
  bool finish_issue_block(std::int32_t rank_index, RankState& rank);
  void execute_stream(std::int32_t stream);
  bool execute(const OpContext& at, const StreamOp& op);
  std::int64_t duration_alone(const OpContext& at, const Work& work) const;
  RunDuration duration_of(const OpContext& at, const StreamOp& op) const;
  void compute(const OpContext& at, const StreamOp& op, std::int64_t ready, const Event* decisive);
  void execute_fused_run(const OpContext& at, const StreamOp& op, std::int64_t ready, const Event* decisive);
  bool is_isolated(const OpContext& at, std::int64_t host_slack, std::span<const StreamUse> streams,
                   std::int64_t ready);
  void execute_fast(const OpContext& at, const StreamOp& op, const IsolatedTimes& times, std::int64_t ready);
  void execute_by_parts(const OpContext& at, const StreamOp& op, const FusedRun& run, std::int64_t ready);

  // ---- Groups in lockstep: worker_lockstep.hpp ---------------------------------------------------------------------

  bool waits_in_lockstep(const OpContext& at);
  void join_lockstep(const OpContext& at, std::int64_t ready);
  void leave_lockstep(std::int32_t group);
  void leave_lockstep(StreamState& compute);
  bool leave_all_lockstep();
  std::optional<IsolatedTimes> lockstep_times(std::int32_t group);
  bool transfers_follow(const OpContext& at, const LockstepRun& run);
  bool run_in_lockstep(std::int32_t group);
  void skip_transfers(const OpContext& at, const LockstepRun& run, StreamState& s) const;
  void continue_after(StreamState& s);
  const std::vector<std::int32_t>& members_of(std::int32_t communicator) const {
    return state_.graph.communicators[static_cast<std::size_t>(communicator)].members;
  }

  // ---- Compute beside transfers: worker_contention.hpp -------------------------------------------------------------

  void run_in_order_of_time();
  const StreamOp& op_of(const OpContext& at) const;
  OpContext compute_of(std::int32_t rank);
  void run_ahead();
  void continue_runs(std::int64_t time);
  bool is_quiet(const OpContext& at, const RankContention& rank, std::int64_t until);
  bool recorded_by_compute(std::int32_t wait) const {
    return state_.compiled.waits_for_compute[static_cast<std::size_t>(wait)];
  }
  bool waits_for_compute(std::int32_t stream) {
    return waits_for_compute(stream, state_.streams[static_cast<std::size_t>(stream)]);
  }
  bool waits_for_compute(std::int32_t stream, const StreamState& s);
  const StreamOp* next_op(const StreamState& s, std::int32_t& item);
  bool waits_for_compute(const OpContext& at, const StreamOp& op) const;
  bool begin_run(const OpContext& at, const StreamOp& op, std::int64_t ready, const Event* decisive);
  void make_records(const OpContext& at, PendingRun& run, std::int64_t time);
  void time_run(const OpContext& at, const StreamOp& op);
  RunLength time_single_run(const OpContext& at, const StreamOp& op, std::int64_t ready);
  void time_fused_run(const OpContext& at, const StreamOp& op, const Speeds& speeds, std::int32_t slowdown,
                      RankContention& rank);
  void continue_run(std::int32_t rank, std::int64_t time);
  void end_run(const OpContext& at, const StreamOp& op, RankContention& rank);
  void check_length(const OpContext& at);
  void end_single_run(const OpContext& at, const StreamOp& op, const PendingRun& run, const MovingTransfers& moving);
  std::int64_t end_fused_run(const OpContext& at, const PendingRun& run, MovingTransfers& moving);
  const Speeds& beside(const OpContext& at, const StreamOp& op) const;
  void begin_moving(const WaitList& waiters, std::int64_t start, std::int32_t kind);
  void end_moving(const OpContext& at, const StreamOp& op, std::int64_t start, std::int64_t end);

  // ---- The steady state: worker_steady.hpp, its snapshots: worker_snapshot.hpp --------------------------------------

  void host_decides(const OpContext& at) {
    if (steady_ != nullptr) steady_->host_decided[static_cast<std::size_t>(at.state->rank)] = true;
  }
  void skip_periods(std::int64_t& instant);
  std::vector<std::int64_t> outline_at(std::int64_t instant, std::int32_t periods) const;
  const RepeatedItems& repeated(std::int32_t rank) const;
  std::optional<std::pair<std::int32_t, std::int32_t>> items_at(std::int32_t rank) const;
  std::optional<SteadySnapshot> describe(std::int64_t instant, std::int32_t periods) const;
  void describe_streams(std::int32_t rank, std::int32_t periods, StateWriter& out) const;
  void describe_events(std::int32_t rank, std::int32_t periods, const SteadySnapshot& snapshot, StateWriter& out) const;
  std::int32_t slots_of_messages() const;
  void describe_compute(std::int32_t rank, StateWriter& out) const;
  void describe_transfers(std::int32_t microbatches, StateWriter& out) const;
  bool same_state(const SteadySnapshot& before, const SteadySnapshot& now) const;
  std::int32_t periods_left(const SteadySnapshot& before, const SteadySnapshot& now) const;
  void move_on_periods(const SteadySnapshot& before, const SteadySnapshot& now, std::int64_t& instant);
  void move_on_rank(std::int32_t rank, std::int32_t periods, std::int64_t instant, std::int64_t by);
  void move_on_events(std::int32_t rank, std::int32_t periods, const SteadySnapshot& now, std::int64_t by);

  // ---- Transfers: worker_transfers.hpp -----------------------------------------------------------------------------

  void finish(const OpContext& at, const StreamOp& op, std::int64_t start, std::int64_t end, std::int32_t cause);
  void resume(std::int32_t stream, std::int64_t start, std::int64_t end, std::int32_t cause);
  std::int32_t shared_collective(const OpContext& at, const StreamOp& op, std::int32_t communicator) const;
  std::int32_t shared_message(ChannelEnd sender) const;
  void start_transfer(const InFlightTransfer& transfer, std::int32_t kind);
  bool start_message(const OpContext& at, std::int32_t other, PendingMessage* slot, std::int32_t kind);
  void complete_transfers(const std::vector<std::int32_t>& ended, std::int64_t end);
  void fetch_ahead(const std::vector<std::int32_t>& ended, std::size_t at);
  void fetch_next(OpContext at);
  void complete_transfer(std::int32_t index, std::int64_t end);
  void complete_eager_message(const InFlightTransfer& transfer, std::int64_t end);
  bool join_collective(const OpContext& at, const StreamOp& op);
  bool join_across_workers(const OpContext& at, const StreamOp& op, std::int32_t communicator);
  bool arrive(const OpContext& at, std::int32_t communicator, Rendezvous& completed);
  bool send(const OpContext& at, const StreamOp& op);
  bool receive(const OpContext& at, const StreamOp& op);

  State& state_;
  Recorder& recorder_;
  Exchange* const exchange_;
  const LinkSharing* sharing_ = nullptr;
  std::unique_ptr<Contention> contention_;  ///< null: transfers do not slow compute
  std::unique_ptr<SteadyState> steady_;     ///< null: all periods are simulated
  const std::int32_t number_;
  std::vector<std::int32_t> runnable_;
  InFlightTransfers in_flight_;
  std::vector<std::int32_t> due_;     ///< ranks whose pending run makes a record at the current instant
  std::vector<Interval> part_times_;  ///< of the fused run that is executed by parts
  std::int64_t longest_ = 0;          ///< ps; 0: no step is given up
  TimeLeft time_left_;                ///< if steps are given up
  bool gave_up_ = false;
  std::int64_t executed_ = 0;
  std::int64_t skipped_ = 0;  ///< of these, not one by one
};

}  // namespace tracecast::engine
