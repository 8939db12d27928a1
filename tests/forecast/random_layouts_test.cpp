// What must hold for every layout of every machine: random layouts of shipped scenarios, at random rates of their links.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/base/random.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/link_users.hpp"
#include "sim/network/collective_flows.hpp"
#include "sim/network/simgrid.hpp"
#include "sim/search/space.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

/// Numbers of a draw, in the order in which they are asked for.
class Draw {
 public:
  explicit Draw(int number) : random_(18, static_cast<std::uint32_t>(number), 0) {}
  template <class List>
  auto one_of(const List& list) {
    return *(std::begin(list) + static_cast<std::ptrdiff_t>(random_.below(std::size(list))));
  }
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(count)));
  }

 private:
  RandomStream random_;
};

void scale(Bandwidth& rate, double factor) {
  rate.bytes_per_second = static_cast<std::int64_t>(static_cast<double>(rate.bytes_per_second) * factor);
}

constexpr int kAllLayers = std::numeric_limits<int>::max();

/// A layout of a shipped scenario on some GPUs of its machine, with two micro-batches or more for each replica and at most `layers`
/// layers. Nothing if this layout is impossible.
std::optional<Scenario> random_layout(Draw& draw, const std::vector<std::int64_t>& sizes = {8, 16, 32, 64},
                                      int layers = kAllLayers) {
  const std::vector<std::filesystem::path> paths = shipped_scenarios();
  const std::int64_t ranks = draw.one_of(sizes);
  const std::int64_t batch = ranks * (1 + draw.below(3));
  const std::string name = draw.one_of(paths).stem().string();
  Scenario scenario = shipped_scenario(name);
  scenario.perturbation = {};
  scenario.cluster.world_size = static_cast<int>(ranks);
  scenario.cluster.max_nodes = 0;
  if (scenario.cluster.nodes() > 1 && scenario.cluster.node.nics == 0) return std::nullopt;
  scenario.training.global_batch_size = batch;
  scenario.parallel.dp = 0;
  scenario.parallel.pp_layout.clear();
  scenario.model.num_layers = std::min(scenario.model.num_layers, layers);
  SearchSpace space = default_space(scenario, static_cast<int>(ranks));
  space.zero_stage = {0, 1, 2, 3};
  Layout layout = space.at(draw.below(space.size()));
  layout.vpp = layout.pp == 1 ? 1 : std::min(layout.vpp, 2);
  layout.pp_schedule.clear();
  scenario = with_layout(scenario, layout);
  scenario.name = name + " on " + std::to_string(ranks) + " GPUs: " + describe(layout, static_cast<int>(ranks));
  return forecast(scenario).has_value() ? std::optional(scenario) : std::nullopt;
}

/// Calls of each collective and messages of each kind by one rank's program.
struct Calls {
  std::map<std::int32_t, std::int64_t> collectives;
  std::map<std::int32_t, std::int64_t> messages;
};

Calls calls_of(const StepGraph& graph, const std::vector<ProgramItem>& program) {
  Calls calls;
  for (const ProgramItem& item : program)
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type == OpType::collective) ++calls.collectives[op.payload];
      if (op.type == OpType::send) ++calls.messages[op.payload];
    }
  return calls;
}

/// Seconds for which the flows of all collectives and messages of a step occupy each link. Flow by flow from the graph of
/// all ranks, not from the network that is tested.
class Occupation {
 public:
  Occupation(const StepGraph& graph, const ClusterLinks& links)
      : graph_(graph), links_(links), seconds_(static_cast<std::size_t>(links.count())) {
    for (const auto& program : graph.programs) calls_.push_back(calls_of(graph, program));
    std::vector<bool> counted(graph.communicators.size());
    for (std::size_t r = 0; r < graph.ranks.size(); ++r) {
      const Rank& rank = graph.ranks[r];
      const Calls& calls = calls_[static_cast<std::size_t>(rank.program)];
      for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot) {
        const std::int32_t communicator = rank.communicators[slot];
        if (communicator < 0 || counted[static_cast<std::size_t>(communicator)]) continue;
        counted[static_cast<std::size_t>(communicator)] = true;
        add_collectives(calls, static_cast<std::int32_t>(slot), communicator);
      }
      for (const auto& [payload, count] : calls.messages) {
        const Message& message = graph.messages[static_cast<std::size_t>(payload)];
        const auto to = static_cast<std::size_t>(rank.channels[static_cast<std::size_t>(message.channel)].rank);
        add({Collective::send_recv, message.size}, message.cost, {rank.representative, graph.ranks[to].representative},
            count, true);
      }
    }
  }

  double longest() const { return *std::max_element(seconds_.begin(), seconds_.end()); }

 private:
  void add_collectives(const Calls& calls, std::int32_t slot, std::int32_t communicator) {
    std::vector<int> ranks;
    for (const std::int32_t member : graph_.communicators[static_cast<std::size_t>(communicator)].members)
      ranks.push_back(graph_.ranks[static_cast<std::size_t>(member)].representative);
    for (const auto& [payload, count] : calls.collectives) {
      const CostedCollective& each = graph_.collectives[static_cast<std::size_t>(payload)];
      if (each.slot == slot) add(each.call, each.cost, ranks, count);
    }
  }

  /// A call that takes less time alone than its bytes on a GPU's links counts with its own time: what a library was measured
  /// to reach on links of nominal rate is true.
  void add(const CollectiveCall& call, const CollectiveCost& cost, const std::vector<int>& ranks, std::int64_t count,
           bool message = false) {
    if (!loads_links(call, cost, ranks.size())) return;
    const FlowGroup group = make_flow_group(links_, ranks);
    std::map<std::int32_t, double> bytes;
    const FlowSchedule flows =
        message ? message_flows(call.size, group.port[1]) : collective_flows(call, cost.algorithm, group);
    flows.each_round([&](const Round& round) {
      for (const Flow& flow : round.flows) {
        LinkPath path;
        append_route(links_, group, flow, path);
        for (const std::int32_t link : path)
          bytes[link] += static_cast<double>(flow.size.count) * static_cast<double>(round.count);
      }
    });
    for (const auto& [link, moved] : bytes) {
      const double alone = seconds(cost.duration - cost.latency);
      const double wire = moved / static_cast<double>(links_.capacity(link).bytes_per_second);
      const bool of_gpu = links_.name(link).find("gpu") != std::string::npos;
      seconds_[static_cast<std::size_t>(link)] += static_cast<double>(count) * (of_gpu ? std::min(alone, wire) : wire);
    }
  }

  const StepGraph& graph_;
  const ClusterLinks& links_;
  std::vector<Calls> calls_;     ///< [program]
  std::vector<double> seconds_;  ///< [link]
};

/// Seconds of the longest program's operators, one after the other.
double busiest_computation(const StepGraph& graph) {
  double longest = 0;
  for (const auto& program : graph.programs) {
    double sum = 0;
    for (const ProgramItem& item : program)
      for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops)
        if (op.type == OpType::compute) sum += seconds(op.duration);
    longest = std::max(longest, sum);
  }
  return longest;
}

double step_of(const Scenario& scenario) { return forecast(scenario).value().forecast.step_time_s; }

}  // namespace

TEST_CASE("random layouts: a step lasts as long as each link's bytes and each rank's operators",
          "[property][forecast]") {
  int steps = 0;
  int bound_by_links = 0;
  for (int number = 0; number < 160; ++number) {
    Draw draw(number);
    std::optional<Scenario> scenario = random_layout(draw);
    if (!scenario) continue;
    constexpr double kFactors[] = {0.125, 0.25, 0.5, 1, 2};
    scale(scenario->cluster.node.nic_rate, draw.one_of(kFactors));
    scale(scenario->cluster.node.gpu_link, draw.one_of(kFactors));
    INFO(number << ": " << scenario->name);
    const ForecastRun run = forecast(*scenario, {.unfold = true}).value();
    const ClusterLinks links(scenario->cluster, scenario->profile.architecture);
    const double wires = Occupation(run.graph, links).longest();
    const double computation = busiest_computation(run.graph);
    // Rates and weights are rounded down to integers.
    CHECK(run.forecast.step_time_s >= (1 - 1e-6) * wires);
    CHECK(run.forecast.step_time_s >= (1 - 1e-9) * computation);
    ++steps;
    if (wires > computation) ++bound_by_links;
  }
  CHECK(steps > 60);
  CHECK(bound_by_links > 10);  // else the first check would test nothing
}

namespace {

struct Change {
  const char* what;
  void (*make)(Scenario&);
};

constexpr Change kImprovements[] = {
    {"twice the NIC rate", [](Scenario& s) { scale(s.cluster.node.nic_rate, 2); }},
    {"1.5 times the rate of GPU links", [](Scenario& s) { scale(s.cluster.node.gpu_link, 1.5); }},
    {"twice the NICs", [](Scenario& s) { s.cluster.node.nics *= 2; }},
    {"half the latency of NICs", [](Scenario& s) { s.cluster.node.nic_latency.picoseconds /= 2; }},
    {"half the latency of GPU links", [](Scenario& s) { s.cluster.node.link_latency.picoseconds /= 2; }},
};

}  // namespace

// Where each transfer takes what it takes alone and slows no kernel, nothing loses. With shared links a transfer that moves faster
// may slow another one that the computation waits for, and with more NICs a collective has more channels, which take more SMs. Seven
// of these layouts lose by faster or more NICs, 1.1 % at most.
TEST_CASE("random layouts: better links never make a step much slower", "[property][forecast]") {
  constexpr double kByOtherTransfers = 0.02;
  int steps = 0;
  for (int number = 1000; number < 1000 + test::cases(60); ++number) {
    Draw draw(number);
    const std::optional<Scenario> scenario = random_layout(draw);
    if (!scenario) continue;
    const double before = step_of(*scenario);
    const auto alone = [](const Scenario& each) {
      return forecast(each, {.network = NetworkKind::isolated, .transfers_slow_compute = false})->forecast.step_time_s;
    };
    const double before_alone = alone(*scenario);
    for (const Change& change : kImprovements) {
      Scenario better = *scenario;
      change.make(better);
      INFO(number << ": " << scenario->name << ", " << change.what);
      CHECK(step_of(better) <= before * (1 + kByOtherTransfers));
      CHECK(alone(better) <= before_alone * (1 + 1e-9));
    }
    ++steps;
    if (scenario->cluster.nodes() == 1 || scenario->cluster.node.nics == 0) continue;
    Scenario worse = *scenario;
    worse.cluster.faults.slow_nics = {{0, 0, 0.5}};
    INFO(number << ": " << scenario->name << ", a NIC at half its rate");
    CHECK(step_of(worse) >= before * (1 - kByOtherTransfers));
  }
  CHECK(steps >= test::cases(25));
}

namespace {

/// Small layouts with `first` and the numbers after it, of models with at most `layers` layers: the difference between shared links
/// and SimGrid, which runs every flow, of each layout that is possible.
std::vector<double> differences_to_simgrid(int first, int numbers, int layers) {
  std::vector<double> differences;
  for (int number = first; number < first + numbers; ++number) {
    Draw draw(number);
    std::optional<Scenario> scenario = random_layout(draw, {8, 12, 16, 20}, layers);
    if (!scenario) continue;
    constexpr double kFactors[] = {0.25, 0.5, 1};
    scale(scenario->cluster.node.nic_rate, draw.one_of(kFactors));
    if (draw.below(3) == 0) scenario->perturbation.slow_ranks = {{{1, 1}, 1.2}};
    if (draw.below(4) == 0) scenario->parallel.rank_order = "pp-dp-cp-ep-tp";
    const Result<ForecastRun> fluid = forecast(*scenario);
    const Result<ForecastRun> reference = forecast(*scenario, {.network = NetworkKind::simgrid});
    if (!fluid) continue;  // impossible in this order of ranks
    INFO(number << ": " << scenario->name << ", ranks by " << scenario->parallel.rank_order);
    REQUIRE(reference);
    differences.push_back(std::abs(fluid->forecast.step_time_s / reference->forecast.step_time_s - 1));
    CHECK(differences.back() < 0.06);
  }
  return differences;
}

}  // namespace

TEST_CASE("random layouts: shared links as SimGrid runs them, flow by flow", "[differential][forecast]") {
  if (!simgrid_is_built_in()) {
    WARN("skipped: this build has no SimGrid");
    return;
  }
  const std::vector<double> differences = differences_to_simgrid(3000, 860, 8);
  CHECK(differences.size() >= 300);
  CHECK(std::count_if(differences.begin(), differences.end(), [](double d) { return d > 0.03; }) < 6);
}

// By hand: models with all their layers.
TEST_CASE("random layouts: whole models as SimGrid runs them", "[.simgrid]") {
  CHECK(differences_to_simgrid(10'000, 800, kAllLayers).size() >= 300);
}

TEST_CASE("random layouts: an H200 is never slower than an H100", "[property][forecast]") {
  int steps = 0;
  for (int number = 2000; number < 2040; ++number) {
    Draw draw(number);
    const std::optional<Scenario> drawn = random_layout(draw);
    if (!drawn) continue;
    const auto on = [&](const char* topology) {
      const Scenario machine = shipped_scenario("llama2-7b-abci", {std::string("cluster.topology=") + topology});
      Scenario scenario = *drawn;
      scenario.cluster = machine.cluster;
      scenario.cluster.world_size = drawn->cluster.world_size;
      scenario.profile = machine.profile;
      return scenario;
    };
    INFO(number << ": " << drawn->name);
    CHECK(step_of(on("dgx-h200")) <= step_of(on("dgx-h100")) * (1 + 1e-9));
    ++steps;
  }
  CHECK(steps > 10);
}

// With one layer, a chunk's gather waits for nothing: gathers of several chunks run ahead of their computation.
TEST_CASE("uneven stages: parameters that are gathered ahead end no forecast", "[property][forecast]") {
  constexpr int kStages = 16, kLayers = 80;
  for (int number = 0; number < test::cases(40); ++number) {
    Draw draw(number);
    std::vector<int> layers(kStages, 1);
    for (int left = kLayers - kStages; left > 0; --left)
      ++layers[static_cast<std::size_t>(kStages - 1 - draw.below(draw.below(2) == 0 ? kStages / 2 : kStages))];
    const std::string cut = fmt::format("parallel.pp_layout=[{}]", fmt::join(layers, ","));
    CAPTURE(cut);
    const Scenario scenario = shipped_scenario(
        "llama3-405b-1024",
        {"model=llama-3-70b", "cluster.world_size=64", "training.global_batch_size=32", "parallel.tp=4",
         "parallel.pp=8", "parallel.vpp=2", "parallel.zero_stage=3", "training.recompute=none", "parallel.dp=0", cut});
    CHECK(forecast(scenario));
  }
}
