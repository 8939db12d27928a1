// Execution traces of PyTorch's observer.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "tests/import/imported_steps.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using namespace tracecast::test;

// One call as ExecutionTraceObserver of PyTorch 2.4 writes it (docs/references.md#format-chakra).
TEST_CASE("pytorch execution traces: three records of one call are one collective", "[io][pytorch-et]") {
  const std::string text =
      R"({"schema":"1.1.0-chakra.0.0.4","pid":1,"nodes":[{"id":2,"name":"[pytorch|profiler|execution_trace|thread]",)"
      R"("ctrl_deps":1,"inputs":{"values":[]},"attrs":[]},)"
      R"({"id":3,"name":"c10d::allreduce_","ctrl_deps":2,"inputs":{"values":[]},"attrs":[]},)"
      R"({"id":4,"name":"record_param_comms","ctrl_deps":3,"inputs":{"values":[[[9,8,0,100,4,"cuda:0"]],7,["0","default_pg"],)"
      R"(0,"allreduce",[],[],0,1,2]},"attrs":[{"name":"collective_name","type":"string","value":"allreduce"},)"
      R"({"name":"dtype","type":"string","value":"Float"},{"name":"in_msg_nelems","type":"uint64","value":100},)"
      R"({"name":"out_msg_nelems","type":"uint64","value":100},{"name":"pg_name","type":"string","value":"0"}]},)"
      R"({"id":5,"name":"nccl:all_reduce","ctrl_deps":4,"inputs":{"values":[[9,8,0,100,4,"cuda:0"]]},"attrs":[]},)"
      R"({"id":6,"name":"record_param_comms","ctrl_deps":2,"inputs":{"values":[7,0,0,"wait",[],[],1]},"attrs":[]},)"
      R"({"id":7,"name":"nccl:all_to_all","ctrl_deps":2,"inputs":{"values":[[3,2,0,64,2,"cuda:0"]]},"attrs":[]}]})";
  const ImportedGraph read = value_of(import_as<ImportedGraph>(text, "t"));
  CHECK(nodes_of_kind(read, ImportedNode::Kind::collective) == 2);
  const auto node = [&](std::int64_t id) {
    return *std::find_if(read.nodes.begin(), read.nodes.end(), [id](const ImportedNode& n) { return n.id == id; });
  };
  CHECK(node(3).kind == ImportedNode::Kind::collective);
  CHECK(node(3).collective == Collective::all_reduce);
  CHECK(node(3).size == Bytes{400});
  CHECK(node(3).group == "0");
  CHECK(node(5).kind == ImportedNode::Kind::compute);
  CHECK(node(7).collective == Collective::all_to_all);
  CHECK(node(7).size == Bytes{128});
  CHECK(read.notes[0] == "2 records inside a collective's own call (record_param_comms, nccl:…) are not counted again");
}

TEST_CASE("pytorch execution traces: calls of c10d that are no collective here are counted", "[io][pytorch-et]") {
  const auto read = import_as<ImportedGraph>(
      R"({"schema":"1.1.1-chakra.0.0.4","nodes":[{"id":1,"name":"c10d::send","ctrl_deps":0},)"
      R"({"id":2,"name":"c10d::barrier","ctrl_deps":0},{"id":3,"name":"c10d::allreduce_","ctrl_deps":0}]})",
      "t");
  REQUIRE(read);
  CHECK(read->notes[0] == "2 other calls of c10d (messages, reduce, gather, scatter, barriers) are taken as operators");
}

// docs/references.md#format-pytorch-et: the observer writes attributes when a call ends, and inputs only if they could be read.
TEST_CASE("pytorch execution traces: the attributes alone say what a call is", "[io][pytorch-et]") {
  const auto read = import_as<ImportedGraph>(
      R"({"schema":"1.1.1-chakra.0.0.4","nodes":[{"id":4,"name":"record_param_comms","ctrl_deps":2,"inputs":{"values":[]},)"
      R"("attrs":[{"name":"collective_name","type":"string","value":"_reduce_scatter_base"},)"
      R"({"name":"dtype","type":"string","value":"BFloat16"},{"name":"in_msg_nelems","type":"uint64","value":800},)"
      R"({"name":"out_msg_nelems","type":"uint64","value":100},{"name":"pg_name","type":"string","value":"3"}]}]})",
      "t");
  REQUIRE(read);
  CHECK(read->nodes[0].kind == ImportedNode::Kind::collective);
  CHECK(read->nodes[0].collective == Collective::reduce_scatter);
  CHECK(read->nodes[0].size == Bytes{1'600});
  CHECK(read->nodes[0].group == "3");
}

TEST_CASE("pytorch execution traces: both generations are read", "[io][pytorch-et]") {
  if (!have_samples()) return;
  CHECK(read_step("pytorch-et/1.0.2-chakra.0.0.4.json.gz").nodes.size() == 263);
  CHECK(read_step("pytorch-et/dlrm_eg_0.json.gz").nodes.size() == 1675);
  CHECK(read_step("pytorch-et/dlrm_eg_1.json.gz").nodes.size() == 1675);
  CHECK(read_step("pytorch-et/linear_et.json.gz").nodes.size() == 931);
  CHECK(read_step("pytorch-et/pt2_et.json.gz").nodes.size() == 20);
  const ImportedGraph resnet = read_step("pytorch-et/resnet_2gpu_1.1.0-chakra.0.0.4_et.json.gz");
  CHECK(resnet.nodes.size() == 14392);
  CHECK(nodes_of_kind(resnet, ImportedNode::Kind::collective) == 21);  // calls of c10d; 69 records name communication
}
