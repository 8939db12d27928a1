/// Compute beside transfers, against a simulation that goes through time picosecond by picosecond.
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include <catch2/catch.hpp>

#include "sim/engine/compiled_graph.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/gpu_sharing.hpp"
#include "sim/engine/local_streams.hpp"
#include "sim/engine/progress.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/graph/folded_step.hpp"
#include "sim/graph/shared_transfers.hpp"
#include "sim/network/fluid.hpp"
#include "tests/engine/random_work.hpp"
#include "tests/network/small_clusters.hpp"
#include "tests/support/cases.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

enum : StreamId { kTensor = 1, kContext, kData, kExpert, kStreams };

Profile gpu_of_100() {
  Profile gpu;
  gpu.sms = 100;
  gpu.memory_bandwidth = 1e12;
  return gpu;
}

using Times = std::pair<std::int64_t, std::int64_t>;                 // start and end
using OpKey = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // rank, template, operation

/// Every rank, stream and operation at every picosecond.
class StepByStep {
 public:
  StepByStep(const StepGraph& graph, const Profile& gpu, const LinkSharing* sharing)
      : graph_(graph), gpu_(gpu), sharing_(sharing), meetings_(graph.communicators.size()) {
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(graph.ranks.size()); ++rank) {
      ranks_.emplace_back();
      const auto& items = graph.programs[static_cast<std::size_t>(graph.ranks[static_cast<std::size_t>(rank)].program)];
      for (std::int32_t item = 0; item < static_cast<std::int32_t>(items.size()); ++item) {
        const std::int32_t index = items[static_cast<std::size_t>(item)].template_index;
        const auto& ops = graph.templates[static_cast<std::size_t>(index)].ops;
        for (std::int32_t op = 0; op < static_cast<std::int32_t>(ops.size()); ++op) {
          Doing each{rank, item, index, op, &ops[static_cast<std::size_t>(op)]};
          ranks_.back().host.push_back(static_cast<std::int32_t>(all_.size()));
          if (each.op->type != OpType::host_sync)
            ranks_.back().streams[each.op->stream].push_back(static_cast<std::int32_t>(all_.size()));
          all_.push_back(each);
        }
      }
    }
  }

  std::map<OpKey, Times> run() {
    for (now_ = 0; now_ < 1'000'000 && !finished(); ++now_) {
      do {
        changed_ = false;
        end_shared();
        for (Worker& rank : ranks_) {
          issue(rank);
          for (auto& [stream, queue] : rank.streams)
            if (rank.at[stream] < queue.size()) advance(doing(queue[rank.at[stream]]));
        }
      } while (changed_);
      for (Worker& rank : ranks_) work(rank);
    }
    REQUIRE(finished());
    std::map<OpKey, Times> times;
    for (const Doing& each : all_)
      if (each.op->type != OpType::host_sync)
        times[{each.rank, each.template_index, each.number}] = {each.start, each.end};
    return times;
  }

 private:
  struct Doing {
    std::int32_t rank, item, template_index, number;
    const Op* op;
    std::int64_t issued = -1, start = -1, end = -1;
    std::int64_t progress = 0;  ///< ps x kFullSpeed
    bool arrived = false, finished = false;
  };
  struct Worker {
    std::vector<std::int32_t> host;
    std::size_t issued = 0;
    std::int64_t host_time = 0;
    std::map<StreamId, std::vector<std::int32_t>> streams;
    std::map<StreamId, std::size_t> at;
  };

  Doing& doing(std::int32_t i) { return all_[static_cast<std::size_t>(i)]; }
  Worker& rank_of(const Doing& each) { return ranks_[static_cast<std::size_t>(each.rank)]; }

  bool finished() const {
    return std::all_of(all_.begin(), all_.end(),
                       [](const Doing& each) { return each.finished || each.op->type == OpType::host_sync; });
  }

  using EventKey = std::tuple<std::int32_t, std::int32_t, std::int32_t>;
  static EventKey key(const Doing& each, EventRef ref) { return {each.rank, ref.local() ? each.item : -1, ref.base}; }
  bool all_recorded(const Doing& each) const {
    return std::all_of(each.op->waits.begin(), each.op->waits.end(),
                       [&](EventRef ref) { return events_.count(key(each, ref)) > 0; });
  }

  void issue(Worker& rank) {
    while (rank.issued < rank.host.size()) {
      Doing& each = doing(rank.host[rank.issued]);
      rank.host_time += each.op->host.picoseconds;
      if (each.op->type == OpType::host_sync) {
        if (!all_recorded(each)) {
          rank.host_time -= each.op->host.picoseconds;
          return;
        }
        for (const EventRef ref : each.op->waits) rank.host_time = std::max(rank.host_time, events_[key(each, ref)]);
      }
      each.issued = rank.host_time;
      ++rank.issued;
      changed_ = true;
    }
  }

  std::int64_t needed(const Doing& each) const {
    const std::int32_t slowdown = graph_.ranks[static_cast<std::size_t>(each.rank)].slowdown;
    return scale_duration(each.op->duration, slowdown).picoseconds * kFullSpeed;
  }

  void advance(Doing& each) {
    if (each.finished) return;
    if (!each.arrived) {
      if (each.issued < 0 || each.issued > now_ || !all_recorded(each)) return;
      each.arrived = changed_ = true;
      if (each.op->type == OpType::compute)
        each.start = now_;
      else
        meet(each);
    }
    if (each.op->type == OpType::compute && each.progress >= needed(each)) each.end = now_;
    if (each.end == now_) finish(each);
  }

  void meet(Doing& last) {
    const CostedCollective& call = graph_.collectives[static_cast<std::size_t>(last.op->payload)];
    const std::int32_t communicator =
        graph_.ranks[static_cast<std::size_t>(last.rank)].communicators[static_cast<std::size_t>(call.slot)];
    std::vector<Doing*>& meeting = meetings_[static_cast<std::size_t>(communicator)];
    meeting.push_back(&last);
    if (meeting.size() < graph_.communicators[static_cast<std::size_t>(communicator)].members.size()) return;
    const std::int32_t kind =
        sharing_ == nullptr ? -1 : sharing_->transfers.of_collective(communicator, last.op->payload);
    for (Doing* member : meeting) {
      member->start = now_;
      if (kind < 0) member->end = now_ + last.op->duration.picoseconds;
    }
    if (kind >= 0) {
      sharing_->network.start(static_cast<std::int32_t>(in_flight_.size()), kind, {now_});
      in_flight_.push_back(meeting);
    }
    meeting.clear();
  }

  void end_shared() {
    if (sharing_ == nullptr) return;
    Duration time;
    std::vector<std::int32_t> ended;
    while (sharing_->network.advance(time, ended, {now_})) {
      REQUIRE(time.picoseconds == now_);
      changed_ = true;
      for (const std::int32_t transfer : ended)
        for (Doing* member : in_flight_[static_cast<std::size_t>(transfer)]) member->end = now_;
    }
  }

  void finish(Doing& each) {
    each.finished = changed_ = true;
    ++rank_of(each).at[each.op->stream];
    if (!each.op->records.none()) events_[key(each, each.op->records)] = now_;
  }

  /// One picosecond of the rank's compute.
  void work(Worker& rank) {
    std::vector<const Doing*> moving;
    for (auto& [stream, queue] : rank.streams) {
      if (stream == kComputeStream || rank.at[stream] >= queue.size()) continue;
      const Doing& each = doing(queue[rank.at[stream]]);
      if (each.start >= 0) moving.push_back(&each);
    }
    auto& queue = rank.streams[kComputeStream];
    if (rank.at[kComputeStream] >= queue.size()) return;
    Doing& compute = doing(queue[rank.at[kComputeStream]]);
    if (compute.start < 0) return;
    std::int64_t speed = kFullSpeed;
    std::int64_t extra = 0;
    const bool has_operator = compute.op->payload >= 0;
    for (const Doing* each : moving) {
      if (!has_operator) continue;
      const CostedCollective& call = graph_.collectives[static_cast<std::size_t>(each->op->payload)];
      const CostedOperator& op = graph_.operators[static_cast<std::size_t>(compute.op->payload)];
      const double share = speed_during(gpu_, bound_of(op.op.kind), call.cost, call.call.size);
      speed = std::min<std::int64_t>(speed, std::lround(share * kFullSpeed));
      if (op.op.kind == OperatorKind::gemm && call.traffic == Traffic::gradients && call.cost.channels > 0)
        extra = use_of(op).extra;
    }
    constexpr std::int64_t kWhole = std::int64_t{kFullSpeed} * kWholeExtra;
    compute.progress += kWhole * speed / (kWhole + extra * speed);
  }

  const StepGraph& graph_;
  const Profile& gpu_;
  const LinkSharing* sharing_;
  std::int64_t now_ = 0;
  bool changed_ = false;
  std::vector<Doing> all_;
  std::vector<Worker> ranks_;
  std::vector<std::vector<Doing*>> meetings_;   ///< [communicator]
  std::vector<std::vector<Doing*>> in_flight_;  ///< [transfer]
  std::map<EventKey, std::int64_t> events_;
};

void check_same(const Timeline& a, const Timeline& b) {
  CHECK(a.step_time == b.step_time);
  CHECK(a.ranks == b.ranks);
  CHECK(a.ends == b.ends);
  CHECK(a.events == b.events);
}

/// Compares the spans of a run with the times of the simulation step by step.
void check_times(const StepGraph& graph, const Timeline& traced, const std::map<OpKey, Times>& expected) {
  REQUIRE(traced.spans.size() == expected.size());
  for (const Span& span : traced.spans) {
    const Times& times = expected.at({span.rank, span.template_index, span.op});
    INFO("rank " << span.rank << ", template " << span.template_index << ", operation " << span.op << " on stream "
                 << int{graph.templates[static_cast<std::size_t>(span.template_index)]
                            .ops[static_cast<std::size_t>(span.op)]
                            .stream});
    REQUIRE(span.start.picoseconds == times.first);
    REQUIRE(span.end.picoseconds == times.second);
  }
}

/// The collectives of some streams on one link.
struct SharedLink {
  SharedLink(const StepGraph& graph, unsigned seed)
      : links(small_cluster(16), "Hopper"),
        network(links),
        transfers(with_loads(graph, loads(graph, seed)),
                  [this](const TransferShape& shape) { return network.add_kind(shape); }) {}

  static StepGraph with_loads(StepGraph graph, FoldedLoads loads) {
    graph.loads = std::move(loads);
    return graph;
  }

  FoldedLoads loads(const StepGraph& graph, unsigned seed) {
    std::mt19937 random(seed);
    FoldedLoads found;
    const Bandwidth capacity = links.capacity(0);
    for (std::size_t i = 0; i < graph.collectives.size(); ++i)
      for (const std::int32_t communicator : [&] {
             std::set<std::int32_t> all;
             for (const Rank& rank : graph.ranks)
               all.insert(rank.communicators[static_cast<std::size_t>(graph.collectives[i].slot)]);
             return all;
           }()) {
        if (graph.collectives[i].slot == 0 || (graph.collectives[i].slot == 1 && seed % 2 == 0)) continue;
        TransferShape shape{
            {static_cast<std::int64_t>(random() % 5)}, {static_cast<std::int64_t>(random() % 60)}, capacity, {}};
        shape.loads.push_back({0, kWeightOne / static_cast<std::int64_t>(1 + random() % 2)});
        found.collectives.push_back({communicator, static_cast<std::int32_t>(i), shape});
      }
    return found;
  }

  ClusterLinks links;
  FluidNetwork network;
  SharedTransfers transfers;
  LinkSharing sharing{network, transfers};
};

}  // namespace

TEST_CASE("contention: transfers of a rank are kept by start, and dropped when they have ended", "[engine]") {
  engine::MovingTransfers moving;
  const auto starts = [&] {
    std::vector<std::int64_t> all;
    for (const engine::MovingTransfer& each : std::as_const(moving).all()) all.push_back(each.start);
    return all;
  };
  for (const std::int64_t start : {30, 10, 20, 40, 50})
    moving.add({start, start == 20 ? engine::kUnknownEnd : start + 15, {}, static_cast<std::int32_t>(start)});
  CHECK(starts() == std::vector<std::int64_t>{10, 20, 30, 40, 50});
  CHECK(moving.open_on(10) == nullptr);
  REQUIRE(moving.open_on(20) != nullptr);
  moving.drop_ended(45);  // those of 10 and 30 have ended, 20's end is not known
  CHECK(starts() == std::vector<std::int64_t>{20, 40, 50});
  CHECK_FALSE(moving.end_open(40, 60));
  CHECK(moving.end_open(20, 60));
  CHECK(moving.open_on(20) == nullptr);
  moving.add({35, 70, {}, 1});
  CHECK(starts() == std::vector<std::int64_t>{20, 35, 40, 50});
  moving.drop_ended(60);
  CHECK(starts() == std::vector<std::int64_t>{35, 50});
  moving.drop_ended(70);
  CHECK(moving.empty());
}

TEST_CASE("compute contention: random work as picosecond by picosecond", "[oracle][engine]") {
  const Profile gpu = gpu_of_100();
  int slowed = 0;
  for (unsigned seed = 0; seed < test::cases(600U); ++seed) {
    const StepGraph graph = RandomWork(seed).graph();
    INFO("seed " << seed);
    const Timeline fused = simulate(graph, {}, {.slowing_gpu = &gpu}).value();
    const Timeline traced = simulate(graph, {}, {.record_spans = true, .slowing_gpu = &gpu}).value();
    check_same(fused, traced);
    check_times(graph, traced, StepByStep(graph, gpu, nullptr).run());
    if (fused.step_time > simulate(graph).value().step_time) ++slowed;
  }
  CHECK(slowed > test::cases(300));
}

TEST_CASE("compute contention: random work on shared links as picosecond by picosecond", "[oracle][engine]") {
  const Profile gpu = gpu_of_100();
  for (unsigned seed = 0; seed < test::cases(600U); ++seed) {
    const StepGraph graph = RandomWork(seed).graph();
    INFO("seed " << seed);
    SharedLink fused_link(graph, seed);
    SharedLink traced_link(graph, seed);
    SharedLink oracle_link(graph, seed);
    const Timeline fused = run_engine(graph, {.slowing_gpu = &gpu}, &fused_link.sharing).value();
    const Timeline traced =
        run_engine(graph, {.record_spans = true, .slowing_gpu = &gpu}, &traced_link.sharing).value();
    check_same(fused, traced);
    check_times(graph, traced, StepByStep(graph, gpu, &oracle_link.sharing).run());
  }
}

TEST_CASE("compute contention: transfers that take nothing change nothing", "[metamorphic][engine]") {
  Profile gpu = gpu_of_100();
  gpu.sms = 0;
  gpu.memory_bandwidth = 0;
  for (unsigned seed = 0; seed < test::cases(2'000U); ++seed) {
    const StepGraph graph = RandomWork(seed).graph();
    INFO("seed " << seed);
    check_same(simulate(graph, {}, {.slowing_gpu = &gpu}).value(), simulate(graph).value());
    SharedLink link(graph, seed);
    SharedLink same(graph, seed);
    check_same(run_engine(graph, {.slowing_gpu = &gpu}, &link.sharing).value(),
               run_engine(graph, {}, &same.sharing).value());
  }
}

TEST_CASE("compute contention: without shared links no rank ends earlier", "[property][engine]") {
  const Profile gpu = gpu_of_100();
  for (unsigned seed = 0; seed < test::cases(5'000U); ++seed) {
    const StepGraph graph = RandomWork(seed).graph();
    INFO("seed " << seed);
    const Timeline slowed = simulate(graph, {}, {.slowing_gpu = &gpu}).value();
    const Timeline traced = simulate(graph, {}, {.record_spans = true, .slowing_gpu = &gpu}).value();
    check_same(slowed, traced);
    const Timeline free = simulate(graph).value();
    for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) CHECK(slowed.ends[rank] >= free.ends[rank]);
  }
}

TEST_CASE("lockstep: random work of pairs as picosecond by picosecond", "[oracle][engine]") {
  const Profile gpu = gpu_of_100();
  int in_lockstep = 0;
  for (unsigned seed = 0; seed < test::cases(600U); ++seed) {
    const StepGraph graph = RandomWork(seed, {.pairs = true}).graph();
    INFO("seed " << seed);
    SharedLink link(graph, seed);
    SharedLink traced_link(graph, seed);
    SharedLink oracle_link(graph, seed);
    const Timeline together = run_engine(graph, {.slowing_gpu = &gpu}, &link.sharing).value();
    const Timeline traced =
        run_engine(graph, {.record_spans = true, .slowing_gpu = &gpu}, &traced_link.sharing).value();
    check_same(together, traced);
    check_times(graph, traced, StepByStep(graph, gpu, &oracle_link.sharing).run());
    check_same(simulate(graph).value(), simulate(graph, {}, {.record_spans = true}).value());
    const engine::CompiledGraph compiled =
        engine::compile(graph, {}, true, engine::find_lockstep(graph, &link.transfers));
    in_lockstep += compiled.lockstep_runs.empty() ? 0 : 1;
  }
  CHECK(in_lockstep > test::cases(100));
}

TEST_CASE("lockstep: a deadlock is reported as without", "[engine]") {
  const Profile gpu = gpu_of_100();
  int deadlocks = 0;
  for (unsigned seed = 0; seed < 100U; ++seed) {
    StepGraph graph = RandomWork(seed, {.pairs = true}).graph();
    graph.programs[1].pop_back();  // the first pair waits for the second one
    INFO("seed " << seed);
    const Result<Timeline> together = simulate(graph, {}, {.slowing_gpu = &gpu});
    const Result<Timeline> traced = simulate(graph, {}, {.record_spans = true, .slowing_gpu = &gpu});
    REQUIRE(together.has_value() == traced.has_value());
    if (together) continue;
    CHECK(to_string(together.error()) == to_string(traced.error()));
    ++deadlocks;
  }
  CHECK(deadlocks > 20);
}
