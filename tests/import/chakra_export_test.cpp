// What we write for other simulators, read back by our own importer and taken apart field by field.

#include "sim/import/chakra_export.hpp"

#include <map>
#include <set>
#include <tuple>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/protobuf_wire.hpp"
#include "tests/support/results.hpp"
#include "tests/tracer/recorded_ranks.hpp"

using namespace tracecast;

namespace {

/// A node as it is on the wire.
struct WireNode {
  std::uint64_t id = 0;
  std::uint64_t type = 0;
  std::vector<std::uint64_t> after;
  std::uint64_t microseconds = 0;
  std::map<std::string, std::uint64_t> numbers;
  std::string group;
};

std::vector<WireNode> nodes_of(const std::string& trace) {
  std::vector<WireNode> nodes;
  WireReader stream(trace);
  stream.take(stream.varint());  // metadata
  while (stream.good() && !stream.at_end()) {
    WireReader message(stream.take(stream.varint()));
    WireNode& node = nodes.emplace_back();
    while (const auto field = message.next()) {
      if (field->number == 1) node.id = field->value;
      if (field->number == 3) node.type = field->value;
      if (field->number == 5) node.after.push_back(field->value);
      if (field->number == 7) node.microseconds = field->value;
      if (field->number != 10) continue;
      WireReader attribute(field->bytes);
      const std::string name(attribute.next()->bytes);
      const auto value = attribute.next();
      if (value->type == 2)
        node.group = value->bytes;
      else
        node.numbers[name] = value->value;
    }
    REQUIRE(message.good());
  }
  REQUIRE(stream.good());
  return nodes;
}

ImportedGraph read_back(const StepGraph& graph, std::size_t rank) {
  return value_of(import_as<ImportedGraph>(to_chakra(graph, rank), "exported.et"));
}

}  // namespace

TEST_CASE("chakra export: a rank's step comes back with every duration and takes as long", "[io][chakra]") {
  // The file has each operator's duration alone.
  const ForecastRun run = forecast(test::scenario_of(8), {.unfold = true, .transfers_slow_compute = false}).value();
  const ImportedGraph step = read_back(run.graph, 0);
  CHECK(step.format == "Chakra execution trace");
  CHECK(step.notes.empty());
  Duration compute;
  for (const ImportedNode& node : step.nodes)
    if (node.kind == ImportedNode::Kind::compute) compute += node.duration;
  Duration expected;
  test::for_each_operator(run.graph, run.graph.ranks[0],
                          [&](const CostedOperator& each) { expected += each.cost.duration; });
  CHECK(compute == expected);
  const Result<Timeline> replayed = simulate(step_graph_of(step));
  REQUIRE(replayed);
  CHECK(replayed->step_time == run.timeline.step_time);
}

TEST_CASE("chakra export: nodes depend on earlier ids or on events, never in a circle", "[property][io][chakra]") {
  const ForecastRun run =
      test::unfolded_forecast(test::scenario_of(16, {"parallel.pp=2", "training.global_batch_size=4"}));
  for (std::size_t rank = 0; rank < run.graph.ranks.size(); ++rank) {
    const std::vector<WireNode> nodes = nodes_of(to_chakra(run.graph, rank));
    std::set<std::uint64_t> ids;
    for (const WireNode& node : nodes) CHECK(ids.insert(node.id).second);
    for (const WireNode& node : nodes)
      for (const std::uint64_t before : node.after) CHECK(ids.contains(before));
    CHECK(read_back(run.graph, rank).notes.empty());
  }
}

TEST_CASE("chakra export: each send has its receive, and groups agree on the order of their collectives",
          "[property][io][chakra]") {
  const ForecastRun run =
      test::unfolded_forecast(test::scenario_of(16, {"parallel.pp=2", "training.global_batch_size=4"}));
  using Transfer = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
  std::multiset<Transfer> sends;
  std::multiset<Transfer> receives;
  std::map<std::string, std::map<std::size_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>>> calls;
  for (std::size_t rank = 0; rank < run.graph.ranks.size(); ++rank)
    for (WireNode& node : nodes_of(to_chakra(run.graph, rank))) {
      auto& n = node.numbers;
      if (node.type == 5 || node.type == 6)
        (node.type == 5 ? sends : receives).insert({n["comm_src"], n["comm_dst"], n["comm_tag"], n["comm_size"]});
      if (node.type == 7) calls[node.group][rank].push_back({n["comm_type"], n["comm_size"]});
    }
  // 8 pairs of ranks, 4 micro-batches forward and backward.
  CHECK(sends.size() == 8 * 4 * 2);
  CHECK(std::set<Transfer>(sends.begin(), sends.end()).size() == sends.size());
  CHECK(sends == receives);
  const auto groups = nlohmann::json::parse(chakra_groups(run.graph));
  REQUIRE_FALSE(calls.empty());
  for (const auto& [group, ranks] : calls) {
    std::vector<int> members;
    for (const auto& [rank, list] : ranks) {
      members.push_back(static_cast<int>(rank));
      CHECK(list == ranks.begin()->second);
    }
    CHECK(groups.at(group).get<std::vector<int>>() == members);
  }
}

// What ASTRA-sim's feeder throws for when it is missing (Workload.cc: issue_comp, issue_coll_comm, issue_send_comm, issue_recv_comm).
TEST_CASE("chakra export: every node has the attributes that a feeder asks for", "[property][io][chakra]") {
  const ForecastRun run =
      test::unfolded_forecast(test::scenario_of(16, {"parallel.pp=2", "training.global_batch_size=4"}));
  const auto groups = nlohmann::json::parse(chakra_groups(run.graph));
  std::map<std::uint64_t, std::vector<std::string>> needed{{4, {"is_cpu_op"}},
                                                           {5, {"comm_src", "comm_dst", "comm_tag", "comm_size"}},
                                                           {6, {"comm_src", "comm_dst", "comm_tag", "comm_size"}},
                                                           {7, {"comm_type", "comm_size"}}};
  for (std::size_t rank = 0; rank < run.graph.ranks.size(); ++rank)
    for (const WireNode& node : nodes_of(to_chakra(run.graph, rank))) {
      REQUIRE(needed.contains(node.type));
      for (const std::string& name : needed[node.type]) CHECK(node.numbers.contains(name));
      const bool on_gpu = node.numbers.at("is_cpu_op") == 0;
      if (node.type == 4 && on_gpu) CHECK((node.numbers.contains("num_ops") && node.numbers.contains("tensor_size")));
      if (node.type != 4) CHECK(on_gpu);
      if (node.type == 7) CHECK(groups.contains(node.group));
      // A send is of this rank, a receive for it.
      if (node.type == 5) CHECK(node.numbers.at("comm_src") == rank);
      if (node.type == 6) CHECK(node.numbers.at("comm_dst") == rank);
    }
}

TEST_CASE("chakra export: whole microseconds do not add up to an error", "[io][chakra]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  std::int64_t whole = 0;
  std::int64_t exact = 0;
  for (const WireNode& node : nodes_of(to_chakra(run.graph, 0))) {
    if (node.type != 4 || node.numbers.at("is_cpu_op") != 0) continue;
    whole += static_cast<std::int64_t>(node.microseconds) * 1'000'000;
    const auto found = node.numbers.find(kChakraDuration);
    if (found != node.numbers.end()) exact += static_cast<std::int64_t>(found->second);
  }
  CHECK(exact > 0);
  CHECK(std::abs(whole - exact) <= 3 * 500'000);  // half a microsecond for each stream that computes
}

TEST_CASE("chakra export: sizes are what a rank puts in", "[io][chakra]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  std::set<std::uint64_t> gathered;
  std::set<std::uint64_t> scattered;
  for (WireNode& node : nodes_of(to_chakra(run.graph, 3))) {
    if (node.type != 7) continue;
    if (node.numbers["comm_type"] == 2) gathered.insert(node.numbers["comm_size"]);
    if (node.numbers["comm_type"] == 7) scattered.insert(node.numbers["comm_size"]);
  }
  // Sequence parallelism: activations of [8192, 1, 4096] in bf16 are gathered from an eighth each, and scattered whole.
  const std::uint64_t whole = std::uint64_t{8192} * 4096 * 2;
  CHECK(gathered.contains(whole / 8));
  CHECK(scattered.contains(whole));
}
