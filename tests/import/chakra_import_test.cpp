// Chakra execution traces: protobuf and JSON.
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/import/imported_steps.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using namespace tracecast::test;

TEST_CASE("chakra: every sample has the nodes that were counted in it", "[io][chakra]") {
  if (!have_samples()) return;
  for (int rank = 0; rank < 4; ++rank) {
    const ImportedGraph all = read_step("chakra-et/all_reduce_4npus_1MB/all_reduce." + std::to_string(rank) + ".et");
    REQUIRE(all.nodes.size() == 1);
    CHECK(all.nodes[0].collective == Collective::all_reduce);
    CHECK(all.nodes[0].size == 1_MiB);
    const ImportedGraph scatter =
        read_step("chakra-et/reduce_scatter_4npus_1MB/reduce_scatter." + std::to_string(rank) + ".et");
    REQUIRE(scatter.nodes.size() == 1);
    CHECK(scatter.nodes[0].collective == Collective::reduce_scatter);
  }
  for (int rank = 0; rank < 5; ++rank) {
    const ImportedGraph ring =
        read_step("chakra-et/custom_ring_allreduce_8npus_1MB/custom_allreduce." + std::to_string(rank) + ".et");
    CHECK(nodes_of_kind(ring, ImportedNode::Kind::compute) == 7);
    CHECK(nodes_of_kind(ring, ImportedNode::Kind::send) == 14);
    CHECK(nodes_of_kind(ring, ImportedNode::Kind::receive) == 14);
  }
  const ImportedGraph resnet = read_step("chakra-et/resnet_chakra.0.et.gz");
  CHECK(nodes_of_kind(resnet, ImportedNode::Kind::compute) + nodes_of_kind(resnet, ImportedNode::Kind::host) == 3643);
  CHECK(nodes_of_kind(resnet, ImportedNode::Kind::host) > nodes_of_kind(resnet, ImportedNode::Kind::compute));
  CHECK(nodes_of_kind(resnet, ImportedNode::Kind::collective) == 21);
  CHECK(replayed(resnet) > 0_us);
  CHECK(read_step("chakra-et/small_chakra.0.json").nodes.size() == 7);
}

TEST_CASE("chakra: dependencies order nodes and hold streams back", "[io][chakra]") {
  const std::string text = R"({"workload_graph":[{"Id":1,"Name":"b","NodeType":4,"data_deps":[2],"runtime":10},)"
                           R"({"Id":2,"Name":"AllReduce","NodeType":7,"comm_type":0,"ctrlDeps":[3],"runtime":20},)"
                           R"({"Id":3,"Name":"a","NodeType":4,"ctrlDeps":[99],"runtime":30}]})";
  const Result<ImportedGraph> read = import_as<ImportedGraph>(text, "t");
  REQUIRE(read);
  CHECK(read->nodes[0].name == "a");
  CHECK(read->nodes[2].name == "b");
  CHECK(replayed(*read) == 60_us);
  CHECK(read->notes == std::vector<std::string>{"1 dependencies on nodes that are not in the file were left out"});
  CHECK(error_text(import_as<ImportedGraph>(
            R"({"workload_graph":[{"Id":1,"NodeType":4,"data_deps":[2]},{"Id":2,"NodeType":4,"data_deps":[1]}]})",
            "t")) == "t: has 2 nodes that depend on each other in a cycle");
  CHECK(error_text(import_as<ImportedGraph>(R"({"workload_graph":[{"Id":1,"NodeType":4},{"Id":1,"NodeType":4}]})",
                                            "t")) == "t: id = 1: is the id of two nodes");
  CHECK(error_text(import_as<ImportedGraph>(std::string_view("<algo name=\"ring\">"), "t", "chakra")) ==
        "t: is XML, as custom collective algorithms are, not an execution trace");
  CHECK(error_text(import_as<ImportedGraph>(std::string_view("\x03\x0A\x01x\x7F"), "t", "chakra")) ==
        "t: is damaged or cut at byte 4");
}

// Keys as the JSON feeder of Chakra and as protobuf's JSON writes them (docs/references.md#format-chakra).
TEST_CASE("chakra: the JSON form has what the protobuf form has", "[io][chakra]") {
  const auto nodes = [](const std::string& graph) {
    return value_of(import_as<ImportedGraph>("{\"workload_graph\":[" + graph + "]}", "t")).nodes;
  };
  const auto flat = nodes(R"({"Id":1,"Name":"launch","NodeType":4,"runtime":7,"is_cpu_op":true},)"
                          R"({"Id":2,"Name":"gemm","NodeType":4,"runtime":5,"is_cpu_op":false},)"
                          R"({"Id":3,"Name":"gather","NodeType":7,"comm_type":2,"comm_size":4096,"pg_name":"tp"})");
  CHECK(flat[0].kind == ImportedNode::Kind::host);
  CHECK(flat[1].kind == ImportedNode::Kind::compute);
  CHECK(flat[2].collective == Collective::all_gather);
  CHECK(flat[2].size == Bytes{4096});
  CHECK(flat[2].group == "tp");
  const auto listed = nodes(R"({"id":1,"name":"a","type":4,"attr":[{"name":"is_cpu_op","boolVal":true}]},)"
                            R"({"id":2,"name":"b","type":7,"attr":[{"name":"comm_type","int64Val":"7"},)"
                            R"({"name":"comm_size","int64Val":"1048576"},{"name":"pg_name","stringVal":"dp"}]})");
  CHECK(listed[0].kind == ImportedNode::Kind::host);
  CHECK(listed[1].collective == Collective::reduce_scatter);
  CHECK(listed[1].size == 1_MiB);
  CHECK(listed[1].group == "dp");
}

TEST_CASE("chakra: times and ids of the JSON form are read however they are written, and never as zero",
          "[io][chakra]") {
  const auto read = [](const std::string& graph) {
    return import_as<ImportedGraph>("{\"workload_graph\":[" + graph + "]}", "t");
  };
  const auto fraction = read(R"({"Id":1,"NodeType":4,"runtime":12.5})");
  REQUIRE(fraction);
  CHECK(replayed(*fraction) == Duration{12'500'000});
  // protobuf's JSON: 64-bit numbers are strings
  const auto strings =
      read(R"({"id":"1","type":4,"duration_micros":"12"},)"
           R"({"id":"2","type":7,"duration_micros":"100","comm_type":"0","comm_size":"64","data_deps":["1"]})");
  REQUIRE(strings);
  CHECK(replayed(*strings) == 112_us);
  CHECK(strings->nodes[1].size == Bytes{64});
  CHECK(strings->notes.empty());
  CHECK(error_text(read(R"({"Id":1,"NodeType":4,"runtime":-12})")) ==
        "t:1: runtime = -12: must be a time in microseconds, up to 100 days");
  CHECK(error_text(read(R"({"Id":1,"NodeType":4,"runtime":1e19})")) ==
        "t:1: runtime = 1e19: must be a time in microseconds, up to 100 days");
  CHECK(error_text(read(R"({"Id":1,"NodeType":4,"runtime":"soon"})")) ==
        "t:1: runtime = \"soon\": must be a time in microseconds, up to 100 days");
}

TEST_CASE("chakra: computations without a duration are counted; those of our own exports may take none",
          "[io][chakra]") {
  const ImportedGraph read = value_of(import_as<ImportedGraph>(
      R"({"workload_graph":[{"Id":1,"NodeType":4,"runtime":100},{"Id":2,"NodeType":4,"data_deps":[1]},)"
      R"({"Id":3,"NodeType":4,"is_cpu_op":true},)"
      R"({"Id":4,"NodeType":4,"attr":[{"name":"tracecast.duration_ps","int64_val":"0"}]}]})",
      "t"));
  CHECK(read.untimed_computations == 1);
  CHECK(read.notes == std::vector<std::string>{"1 computations without a duration take no time"});
}

TEST_CASE("chakra: collectives of no type, or that there are none of here, are named", "[io][chakra]") {
  const auto read = import_as<ImportedGraph>(
      R"({"workload_graph":[{"Id":1,"NodeType":7},{"Id":2,"NodeType":7,"comm_type":3},{"Id":3,"NodeType":7,"comm_type":0}]})",
      "t");
  REQUIRE(read);
  CHECK(read->notes ==
        std::vector<std::string>{"1 collectives without comm_type are taken as all_reduce",
                                 "1 collectives that there are none of here are taken as the nearest: reduce and "
                                 "scatter as broadcast, gather as all_gather"});
}

TEST_CASE("chakra: the exact duration of our own exports counts in JSON as well", "[io][chakra]") {
  const ImportedGraph read = value_of(import_as<ImportedGraph>(
      R"({"workload_graph": [{"id": 1, "type": 4, "duration_micros": 3,
          "attr": [{"name": "tracecast.duration_ps", "int64_val": "2500001"}]}]})",
      "f.json"));
  REQUIRE(read.nodes.size() == 1);
  CHECK(read.nodes[0].duration == Duration{2'500'001});
}
