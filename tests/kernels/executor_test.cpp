// The executor against the engine: run with a device that takes exactly the time that the graph says, on a clock of its
// own, an executed step is the simulated one.

#include "kernels/executor.hpp"

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/without_overlap.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

/// Notes what it is asked for; a nanosecond passes with every call.
class Notebook final : public Device {
 public:
  void compute(const Operator& op) override { list.push_back(op.name); }
  void collective(const CollectiveCall& call, std::int32_t) override { list.emplace_back(to_string(call.collective)); }
  void send(ChannelEnd, std::int32_t microbatch, Bytes) override {
    list.push_back("send " + std::to_string(microbatch));
  }
  void receive(std::int32_t, std::int32_t microbatch, Bytes) override {
    list.push_back("receive " + std::to_string(microbatch));
  }
  Duration now() override { return clock += 1_ns; }

  std::vector<std::string> list;
  Duration clock;
};

/// What the ranks would have noted had they run just as the engine says.
std::vector<std::vector<ExecutedOp>> as_simulated(const StepGraph& graph, const Timeline& timeline) {
  std::vector<std::vector<ExecutedOp>> ranks(graph.ranks.size());
  for (const Span& span : timeline.spans) {
    const auto& program =
        graph.programs[static_cast<std::size_t>(graph.ranks[static_cast<std::size_t>(span.rank)].program)];
    const Op& op =
        graph.templates[static_cast<std::size_t>(span.template_index)].ops[static_cast<std::size_t>(span.op)];
    if (op.payload < 0 || op.type == OpType::host_sync) continue;
    const auto item = std::find(program.begin(), program.end(), ProgramItem{span.template_index, span.microbatch});
    ranks[static_cast<std::size_t>(span.rank)].push_back(
        {static_cast<std::int32_t>(item - program.begin()), span.op, span.arrival + 5_s, span.end + 5_s});
  }
  for (auto& list : ranks)
    std::ranges::sort(list, {}, [](const ExecutedOp& done) { return std::pair(done.item, done.op); });
  return ranks;
}

}  // namespace

TEST_CASE("executor: a program is run in its order, with every operation that takes time", "[kernels]") {
  const ForecastRun run = forecast(test::small_scenario_on_cpus(1, 2, 1, "1f1b"), {.unfold = true}).value();
  Notebook device;
  const std::vector<ExecutedOp> done = execute_rank(run.graph, 0, device);
  std::vector<std::string> messages;
  for (const std::string& name : device.list)
    if (name.starts_with("send") || name.starts_with("receive")) messages.push_back(name);
  // Stage 0 of two: one forward ahead, then one forward, one backward.
  const std::vector<std::string> begin(messages.begin(), messages.begin() + 6);
  CHECK(begin == std::vector<std::string>{"send 0", "send 1", "receive 0", "send 2", "receive 1", "send 3"});
  CHECK(done.size() == device.list.size());
  for (const ExecutedOp& each : done) CHECK(each.end - each.begin == 1_ns);
}

TEST_CASE("executor: the timeline of a step that ran as simulated is the simulated one", "[kernels][differential]") {
  const auto [tp, pp, dp, schedule] = GENERATE(table<int, int, int, std::string>(
      {{1, 1, 1, ""}, {2, 1, 1, ""}, {1, 1, 2, ""}, {1, 2, 1, "1f1b"}, {1, 2, 1, "gpipe"}, {2, 2, 1, "1f1b"}}));
  const ForecastRun run =
      forecast(test::small_scenario_on_cpus(tp, pp, dp, schedule), {.unfold = true, .record_spans = true}).value();
  const Timeline executed = timeline_of(run.graph, as_simulated(run.graph, run.timeline));
  CHECK(executed.step_time == run.timeline.step_time);
  REQUIRE(executed.ranks.size() == run.timeline.ranks.size());
  for (std::size_t r = 0; r < executed.ranks.size(); ++r) {
    CHECK(executed.ranks[r].total() == executed.step_time);
    CHECK(executed.ranks[r].compute == run.timeline.ranks[r].compute);
    CHECK(executed.ranks[r].optimizer == run.timeline.ranks[r].optimizer);
    CHECK(executed.ranks[r].exposed == run.timeline.ranks[r].exposed);
    CHECK(executed.ranks[r].bubble + executed.ranks[r].host ==
          run.timeline.ranks[r].bubble + run.timeline.ranks[r].host);
  }
}

TEST_CASE("executor: a rank that comes late is waited for", "[kernels][oracle]") {
  const ForecastRun run =
      forecast(test::small_scenario_on_cpus(2, 1, 1), {.unfold = true, .record_spans = true}).value();
  std::vector<std::vector<ExecutedOp>> ranks = as_simulated(run.graph, run.timeline);
  // Rank 1 takes 3 ms longer over its very first operation: rank 0 waits that long in the first collective.
  ranks[1].front().end += 3_ms;
  for (std::size_t i = 1; i < ranks[1].size(); ++i) {
    ranks[1][i].begin += 3_ms;
    ranks[1][i].end += 3_ms;
  }
  const auto is_collective = [&](const ExecutedOp& done) {
    const ProgramItem& item = run.graph.programs[0][static_cast<std::size_t>(done.item)];
    return run.graph.templates[static_cast<std::size_t>(item.template_index)]
               .ops[static_cast<std::size_t>(done.op)]
               .type == OpType::collective;
  };
  const auto first = std::find_if(ranks[0].begin(), ranks[0].end(), is_collective);
  first->end += 3_ms;
  for (auto later = first + 1; later != ranks[0].end(); ++later) {
    later->begin += 3_ms;
    later->end += 3_ms;
  }
  const Timeline executed = timeline_of(run.graph, ranks);
  CHECK(executed.step_time == run.timeline.step_time + 3_ms);
  CHECK(executed.ranks[0].bubble == run.timeline.ranks[0].bubble + 3_ms);
  CHECK(executed.ranks[1].bubble == run.timeline.ranks[1].bubble);
  CHECK(executed.ranks[1].compute == run.timeline.ranks[1].compute + 3_ms);
}
