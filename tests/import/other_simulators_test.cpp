// Files of other simulators: machines, steps, models.

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/engine/simulate.hpp"
#include "sim/import/calculon.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/transfer_times.hpp"
#include "sim/io/files.hpp"
#include "sim/network/measured_network.hpp"
#include "tests/import/samples.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

template <class T>
std::string sentence(const Result<T>& result) {
  return result ? "" : to_string(result.error());
}

ImportedGraph step(const std::string& name) {
  INFO(name);
  const Result<ImportedGraph> read = import_as<ImportedGraph>(sample(name), name);
  if (!read) FAIL(to_string(read.error()));
  return *read;
}

std::int64_t count(const ImportedGraph& step, ImportedNode::Kind kind) {
  return std::count_if(step.nodes.begin(), step.nodes.end(), [kind](const ImportedNode& n) { return n.kind == kind; });
}

Duration replayed(const ImportedGraph& step) {
  const Result<Timeline> timeline = simulate(step_graph_of(step));
  if (!timeline) FAIL(to_string(timeline.error()));
  return timeline->step_time;
}

}  // namespace

TEST_CASE("chakra: every sample has the nodes that were counted in it", "[io][chakra]") {
  if (!have_samples()) return;
  for (int rank = 0; rank < 4; ++rank) {
    const ImportedGraph all = step("chakra-et/all_reduce_4npus_1MB/all_reduce." + std::to_string(rank) + ".et");
    REQUIRE(all.nodes.size() == 1);
    CHECK(all.nodes[0].collective == Collective::all_reduce);
    CHECK(all.nodes[0].size == 1_MiB);
    const ImportedGraph scatter =
        step("chakra-et/reduce_scatter_4npus_1MB/reduce_scatter." + std::to_string(rank) + ".et");
    REQUIRE(scatter.nodes.size() == 1);
    CHECK(scatter.nodes[0].collective == Collective::reduce_scatter);
  }
  for (int rank = 0; rank < 5; ++rank) {
    const ImportedGraph ring =
        step("chakra-et/custom_ring_allreduce_8npus_1MB/custom_allreduce." + std::to_string(rank) + ".et");
    CHECK(count(ring, ImportedNode::Kind::compute) == 7);
    CHECK(count(ring, ImportedNode::Kind::send) == 14);
    CHECK(count(ring, ImportedNode::Kind::receive) == 14);
  }
  const ImportedGraph resnet = step("chakra-et/resnet_chakra.0.et.gz");
  CHECK(count(resnet, ImportedNode::Kind::compute) + count(resnet, ImportedNode::Kind::host) == 3643);
  CHECK(count(resnet, ImportedNode::Kind::host) > count(resnet, ImportedNode::Kind::compute));
  CHECK(count(resnet, ImportedNode::Kind::collective) == 21);
  CHECK(replayed(resnet) > 0_us);
  CHECK(step("chakra-et/small_chakra.0.json").nodes.size() == 7);
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
  CHECK(sentence(import_as<ImportedGraph>(
            R"({"workload_graph":[{"Id":1,"NodeType":4,"data_deps":[2]},{"Id":2,"NodeType":4,"data_deps":[1]}]})",
            "t")) == "t: has 2 nodes that depend on each other in a cycle");
  CHECK(sentence(import_as<ImportedGraph>(R"({"workload_graph":[{"Id":1,"NodeType":4},{"Id":1,"NodeType":4}]})",
                                          "t")) == "t: id = 1: is the id of two nodes");
  CHECK(sentence(import_as<ImportedGraph>(std::string_view("<algo name=\"ring\">"), "t", "chakra")) ==
        "t: is XML, as custom collective algorithms are, not an execution trace");
  CHECK(sentence(import_as<ImportedGraph>(std::string_view("\x03\x0A\x01x\x7F"), "t", "chakra")) ==
        "t: is damaged or cut at byte 4");
}

// Keys as the JSON feeder of Chakra and as protobuf's JSON writes them (docs/references.md#format-chakra).
TEST_CASE("chakra: the JSON form has what the protobuf form has", "[io][chakra]") {
  const auto nodes = [](const std::string& graph) {
    const Result<ImportedGraph> read = import_as<ImportedGraph>("{\"workload_graph\":[" + graph + "]}", "t");
    if (!read) FAIL(to_string(read.error()));
    return read->nodes;
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
  CHECK(sentence(read(R"({"Id":1,"NodeType":4,"runtime":-12})")) ==
        "t:1: runtime = -12: must be a time in microseconds, up to 100 days");
  CHECK(sentence(read(R"({"Id":1,"NodeType":4,"runtime":1e19})")) ==
        "t:1: runtime = 1e19: must be a time in microseconds, up to 100 days");
  CHECK(sentence(read(R"({"Id":1,"NodeType":4,"runtime":"soon"})")) ==
        "t:1: runtime = \"soon\": must be a time in microseconds, up to 100 days");
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
  const Result<ImportedGraph> read = import_as<ImportedGraph>(text, "t");
  if (!read) FAIL(to_string(read.error()));
  CHECK(count(*read, ImportedNode::Kind::collective) == 2);
  const auto node = [&](std::int64_t id) {
    return *std::find_if(read->nodes.begin(), read->nodes.end(), [id](const ImportedNode& n) { return n.id == id; });
  };
  CHECK(node(3).kind == ImportedNode::Kind::collective);
  CHECK(node(3).collective == Collective::all_reduce);
  CHECK(node(3).size == Bytes{400});
  CHECK(node(3).group == "0");
  CHECK(node(5).kind == ImportedNode::Kind::compute);
  CHECK(node(7).collective == Collective::all_to_all);
  CHECK(node(7).size == Bytes{128});
  CHECK(read->notes[0] ==
        "2 records inside a collective's own call (record_param_comms, nccl:…) are not counted again");
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
  CHECK(step("pytorch-et/1.0.2-chakra.0.0.4.json.gz").nodes.size() == 263);
  CHECK(step("pytorch-et/dlrm_eg_0.json.gz").nodes.size() == 1675);
  CHECK(step("pytorch-et/dlrm_eg_1.json.gz").nodes.size() == 1675);
  CHECK(step("pytorch-et/linear_et.json.gz").nodes.size() == 931);
  CHECK(step("pytorch-et/pt2_et.json.gz").nodes.size() == 20);
  const ImportedGraph resnet = step("pytorch-et/resnet_2gpu_1.1.0-chakra.0.0.4_et.json.gz");
  CHECK(resnet.nodes.size() == 14392);
  CHECK(count(resnet, ImportedNode::Kind::collective) == 21);  // calls of c10d; 69 records name communication
}

TEST_CASE("simai: a workload's layers, forward and backward", "[io][simai]") {
  const Result<ImportedGraph> read = import_as<ImportedGraph>(
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8\n2\n"
      "a -1 1000 ALLREDUCE 64 2000 NONE 0 3000 ALLGATHER_DP_EP 32 500\n"
      "b -1 1000 NONE 0 2000 ALLTOALL_EP 16 3000 NONE 0 500 \n",
      "t");
  REQUIRE(read);
  CHECK(count(*read, ImportedNode::Kind::collective) == 3);
  CHECK(count(*read, ImportedNode::Kind::compute) == 8);
  CHECK(replayed(*read) == 13_us);  // 2 (1 + 2 + 3) + 2 x 0.5, in us
  CHECK(sentence(import_as<ImportedGraph>("HYBRID_X\n1\na -1 x NONE 0 1 NONE 0 1 NONE 0 1\n", "t")) ==
        "t:3: 'x' must be a time in ns");
  CHECK(sentence(import_as<ImportedGraph>("HYBRID_X\n2\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n", "t")) ==
        "t:2: 2 layers are declared, and 1 follow");
  for (const char* suffix : {"_TP", "_", "_EP_DP", "EP"})  // in SimAI groups of no kind
    CHECK(sentence(import_as<ImportedGraph>(
              "HYBRID_X\n1\na -1 1 ALLREDUCE" + std::string(suffix) + " 8 1 NONE 0 1 NONE 0 1\n", "t")) ==
          "t:3: 'ALLREDUCE" + std::string(suffix) +
              "' unknown collective of SimAI (allowed: NONE ALLREDUCE ALLGATHER REDUCESCATTER ALLTOALL BROADCAST, with "
              "_EP, _DP_EP)");
}

TEST_CASE("aicb: the tensor forms of torch.distributed are the collectives that they name", "[io][simai]") {
  const Result<ImportedGraph> log = import_as<ImportedGraph>(
      "comm_type,comm_group,comm_group_size,msg_size,stage\nCommType.all_gather_into_tensor,dp_group,8,64,init\n"
      "reduce_scatter_tensor,dp_group,8,128,init\nbarrier,dp_group,8,,init\n",
      "t");
  REQUIRE(log);
  REQUIRE(log->nodes.size() == 2);
  CHECK(log->nodes[0].collective == Collective::all_gather);
  CHECK(log->nodes[1].collective == Collective::reduce_scatter);
}

TEST_CASE("simai: collectives take the time of their group on a machine", "[io][simai]") {
  const std::string header = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 ep: 8 pp: 2 vpp: 1 ga: 1";
  const std::string layers =
      "\n4\na -1 0 ALLGATHER 67108864 0 NONE 0 0 NONE 0 0\nb -1 0 ALLTOALL_EP 67108864 0 NONE 0 0 NONE 0 0\n"
      "c -1 0 NONE 0 0 NONE 0 0 ALLREDUCE 67108864 0\nd -1 0 NONE 0 0 NONE 0 0 REDUCESCATTER_DP_EP 67108864 0\n";
  const Cluster machine = read_topology(shipped_data().topologies / "dgx-h100.json").value();
  const Profile profile = read_profile(shipped_data().profiles / "h100.json").value();
  const auto timed = [&](const std::string& text, int ranks) -> Result<ImportedGraph> {
    ImportedGraph step = import_as<ImportedGraph>(text, "t").value();
    if (const auto ok = time_transfers(step, machine, profile, ranks, "t"); !ok) return tl::unexpected(ok.error());
    return step;
  };
  // 128 ranks: dp 16. Sizes are those of the larger buffer, as SimAI's bus bandwidths divide them (Layer.cc, compute_busbw).
  const Result<ImportedGraph> step = timed(header + " all_gpus: 128" + layers, 0);
  REQUIRE(step);
  Cluster cluster = machine;
  cluster.world_size = 128;
  const auto network = make_network(cluster, profile);
  const auto expected = [&](Collective collective, std::vector<int> ranks, int sharing) {
    return network->cost({collective, 64_MiB}, place(cluster, ranks, sharing)).duration;
  };
  std::map<std::string, Duration> found;
  for (const ImportedNode& node : step->nodes) found[node.group] = node.duration;
  REQUIRE(found.size() == 4);
  CHECK(found["TP"] == expected(Collective::all_gather, {0, 1, 2, 3}, 1));
  CHECK(found["EP"] == expected(Collective::all_to_all, {0, 4, 8, 12, 16, 20, 24, 28}, 4));
  std::vector<int> data;
  for (int i = 0; i < 16; ++i) data.push_back(4 * i);
  CHECK(found["DP"] == expected(Collective::all_reduce, data, 4));
  CHECK(found["DP_EP"] == expected(Collective::reduce_scatter, {0, 32}, 8));
  CHECK(found["TP"] < found["EP"]);  // NVLink against NICs

  CHECK(sentence(timed(header + layers, 0)) ==
        "t: does not say of how many ranks: give --gpus to time its collectives");
  CHECK(sentence(timed(header + layers, 8)) == "--gpus = 8: is too few: a group of t has 8 ranks");
  CHECK(sentence(timed(header + " all_gpus: 128" + layers, 64)) ==
        "--gpus = 64: is not the 128 ranks that t is for (leave it out)");
  CHECK(sentence(import_as<ImportedGraph>(header + " all_gpus: 12" + layers, "t")) ==
        "t:1: '12' ranks are not a multiple of 4 (tensor) x 2 (pipeline) x 8 (experts)");
  CHECK(sentence(timed("comm_type,comm_group,comm_group_size,msg_size,stage\nall_reduce,dp,8,64,init\n", 8)) ==
        "--topology = dgx-h100: is for a Chakra trace or a workload of SimAI, not for: AICB communication log");
}

TEST_CASE("simai: every sample is read, or rejected with the reason", "[io][simai]") {
  if (!have_samples()) return;
  CHECK(step("simai/microAllReduce.txt").found[0].second == 2);
  CHECK(step("simai/workload_analytical.txt").found[0].second == 1789);
  CHECK(step("simai/L7B-M1-C04_Llama7B_megatron_tp2_pp1_mbs1_A100.txt").found[0].second == 76);
  CHECK(step("simai/L7B-D1-C01_Llama7B_zero2_mbs1.csv").nodes.size() == 305);
  for (const char* file : {"busbw.yaml", "nvlink_ratio.csv", "SimAI.conf"})
    CHECK(sentence(import_as<ImportedGraph>(sample(std::string("simai/") + file), file, "simai"))
              .starts_with(std::string(file) + ": "));
  for (const auto& [file, nodes, gpus, rate] :
       {std::tuple("topo_DCN+SingleToR_16g_8gps_200Gbps_A100.txt", 2, "a100", 200),
        {"topo_Spectrum-X_16g_8gps_400Gbps_H100.txt", 2, "h100", 400}}) {
    const Result<ImportedTopology> machine = import_as<ImportedTopology>(sample(std::string("simai/") + file), file);
    REQUIRE(machine);
    CHECK(machine->cluster.max_nodes == nodes);
    CHECK(machine->cluster.gpu == gpus);
    CHECK(machine->cluster.node.gpus == 8);
    CHECK(machine->cluster.node.nics == 8);
    CHECK(machine->cluster.node.nic_rate.bytes_per_second == rate * 125'000'000LL);
    CHECK(read_topology_text(to_topology_json(*machine, file), "t.json"));
  }
}

TEST_CASE("simai: rails, dual ToR and oversubscription are in the links between switches", "[io][simai]") {
  // 8 servers of 2 GPUs, an NVSwitch each. `leaf_of(server, gpu)` lists the leaves, which have `uplinks` links of 400 Gb/s to two spines.
  const auto machine = [](const auto& leaf_of, int leaves, int uplinks) {
    std::string links;
    int count = 0;
    const auto add = [&](int from, int to, const char* rate) {
      links += fmt::format("{} {} {} 0.0005ms 0\n", from, to, rate);
      ++count;
    };
    for (int gpu = 0; gpu < 16; ++gpu) {
      add(gpu, 16 + gpu / 2, "2880Gbps");
      for (const int leaf : leaf_of(gpu / 2, gpu % 2)) add(gpu, 24 + leaf, "200Gbps");
    }
    for (int leaf = 0; leaf < leaves; ++leaf)
      for (int up = 0; up < uplinks; ++up) add(24 + leaf, 24 + leaves + up % 2, "400Gbps");
    const std::string text = fmt::format("{} 2 8 {} {} H100\n16 17\n{}", 16 + 8 + leaves + 2, leaves + 2, count, links);
    const Result<ImportedTopology> read = import_as<ImportedTopology>(text, "t", "simai-topology");
    if (!read) FAIL(to_string(read.error()));
    return read->cluster;
  };
  // Segments of 4 servers, two leaves for each of the two rails: 4 ports of 200 Gb/s below a leaf.
  const auto dual_rails = [](int server, int gpu) {
    const int segment = server / 4;
    return std::vector<int>{4 * segment + gpu, 4 * segment + 2 + gpu};
  };
  const Cluster dual = machine(dual_rails, 8, 1);
  CHECK(dual.fabric == FabricKind::rail_optimized);
  CHECK(dual.node.nics == 4);
  CHECK(dual.node.nic_rate == 25_GBps);
  REQUIRE(dual.tiers.size() == 2);
  CHECK(dual.tiers[0].nodes == 4);
  CHECK(dual.tiers[0].oversubscription == 2);  // 800 Gb/s below, 400 above
  CHECK(machine(dual_rails, 8, 4).tiers[0].oversubscription == 1);
  // Both GPUs of a server on one leaf, as DCN+ has them.
  const auto one_leaf = [](int server, int) { return std::vector<int>{server / 4}; };
  const Cluster tree = machine(one_leaf, 2, 2);
  CHECK(tree.fabric == FabricKind::fat_tree);
  CHECK(tree.tiers[0].nodes == 4);
  CHECK(tree.tiers[0].oversubscription == 2);  // 8 x 200 below, 800 above
  // All servers below the same leaves: what is above them carries nothing.
  const auto all = [](int, int gpu) { return std::vector<int>{gpu}; };
  CHECK(machine(all, 2, 0).tiers.size() == 1);
  CHECK(machine(all, 2, 0).fabric == FabricKind::rail_optimized);
}

// docs/references.md#format-calculon
TEST_CASE("calculon: one head of keys, scattered messages, and inference, which is refused", "[io][calculon]") {
  const auto read = [](const std::string& more) {
    return read_calculon(
        R"({"num_procs": 8, "tensor_par": 4, "pipeline_par": 2, "data_par": 1, "pipeline_interleaving": 1, "batch_size": 8,
            "microbatch_size": 1, )" +
            more + "}",
        "c.json");
  };
  const auto has = [](const Result<CalculonInput>& input, const std::string& setting) {
    if (!input) FAIL(to_string(input.error()));
    return std::count(input->settings.begin(), input->settings.end(), setting) == 1;
  };
  const auto scattered =
      read(R"("attention_type": "multiquery", "tensor_par_comm_type": "p2p_rs_ag", "training": true)");
  CHECK(has(scattered, "model.num_query_groups=1"));
  CHECK(has(scattered, "parallel.sequence_parallel=false"));
  CHECK(has(scattered, "parallel.scatter_gather_p2p=true"));
  const auto sequence = read(R"("attention_type": "multihead", "tensor_par_comm_type": "rs_ag")");
  CHECK_FALSE(has(sequence, "model.num_query_groups=1"));
  CHECK(has(sequence, "parallel.sequence_parallel=true"));
  CHECK_FALSE(has(sequence, "parallel.scatter_gather_p2p=true"));
  CHECK(sentence(read(R"("training": false)")) == "c.json:2: training = false: is inference, which is not forecast");
  CHECK(sentence(read(R"("attention_type": "linear")")) ==
        "c.json:2: attention_type = \"linear\": is unknown (allowed: multihead multiquery)");
}

TEST_CASE("calculon: settings without a counterpart are named", "[io][calculon]") {
  const auto read = read_calculon(
      R"({"num_procs": 8, "tensor_par": 8, "pipeline_par": 1, "data_par": 1, "pipeline_interleaving": 1, "batch_size": 8,
          "microbatch_size": 1, "seq_par_ag_redo": true, "fused_activation": true, "weight_offload": false})",
      "c.json");
  if (!read) FAIL(to_string(read.error()));
  CHECK(read->notes == std::vector<std::string>{"seq_par_ag_redo has no counterpart and was left out",
                                                "fused_activation has no counterpart and was left out"});
}

TEST_CASE("imported machines: rates that no machine has are refused, unequal ones of SimAI noted",
          "[io][simai][astra-sim]") {
  const auto simai = [](const std::string& second) {
    return import_as<ImportedTopology>(
        "5 2 1 2 4 H100\n2 3 4\n0 2 2880Gbps 0.000025ms 0\n0 3 400Gbps 0.0005ms 0\n1 2 " + second +
            " 0.000025ms 0\n1 4 400Gbps 0.0005ms 0\n",
        "t", "simai-topology");
  };
  const Result<ImportedTopology> equal = simai("2880Gbps");
  REQUIRE(equal);
  CHECK(equal->notes.empty());
  const Result<ImportedTopology> unequal = simai("22880Gbps");
  REQUIRE(unequal);
  CHECK(unequal->cluster.node.gpu_link == 360_GBps);
  CHECK(unequal->notes ==
        std::vector<std::string>{
            "1 links of GPUs have another rate than the first of their kind: all are taken as the first"});
  CHECK(sentence(import_as<ImportedTopology>(
            "topology: [ Switch, Ring ]\nnpus_count: [ 8, 2 ]\nbandwidth: [ 50000, 50 ]\nlatency: [ 936, 1000 ]\n", "t",
            "astra-sim")) ==
        "t: node.gpu_link: no GPU has links of 53.7 TB/s in one direction (the sum of both directions, or bits?)");
  CHECK(
      sentence(import_as<ImportedTopology>(
          R"(<?xml version='1.0'?><platform version="4.1"><zone id="world" routing="Full"><cluster id="c" prefix="n" )"
          R"(radical="0-5" suffix="" speed="1Gf" bw="900GBps" lat="1us" topology="FAT_TREE" topo_parameters="2;3,2;1,2;1,1"/>)"
          R"(</zone></platform>)",
          "t", "simgrid")) ==
      "t: node.nic_rate: no NIC has 900 GB/s in one direction (the rate of several NICs, or bits?)");
}

TEST_CASE("simai-topology: a million of anything is a count, more is not", "[io][simai][error]") {
  const auto refusal = [](const char* nodes) {
    return sentence(import_as<ImportedTopology>(std::string(nodes) + " 3 0 0 0 H100\n\n\n", "t", "simai-topology"));
  };
  CHECK(refusal("1000000") == "t:1: has 1000000 GPUs in servers of 3");
  CHECK(refusal("1000001").ends_with("must be a count"));
}

// docs/references.md#format-astra-sim
TEST_CASE("astra-sim: rates, hops and links are those of its analytical network", "[io][astra-sim]") {
  const auto read = [](const std::string& kinds, const std::string& counts, const std::string& rates,
                       const std::string& latencies) {
    return *import_as<ImportedTopology>(
        fmt::format("topology: [ {} ]\nnpus_count: [ {} ]\nbandwidth: [ {} ]\nlatency: [ {} ]\n", kinds, counts, rates,
                    latencies),
        "t", "astra-sim");
  };
  constexpr std::int64_t kGigabyte = 1 << 30;
  // A message crosses two links of a switch.
  const ImportedTopology one = read("Switch", "8", "100", "936.25");
  CHECK(one.cluster.node.gpu_link == Bandwidth{100 * kGigabyte});
  CHECK(one.cluster.node.link_latency == Duration{1'872'500});
  CHECK(one.notes.back() == "a GB/s is 2^30 bytes a second, as ASTRA-sim takes it");
  CHECK(read("FullyConnected", "8", "10", "500").cluster.node.gpu_link == Bandwidth{70 * kGigabyte});
  CHECK(read("FullyConnected", "8", "10", "500").cluster.node.link_latency == 500_ns);
  // Two GPUs of a ring are joined by one link.
  CHECK(read("Ring", "8", "10", "500").cluster.node.gpu_link == Bandwidth{20 * kGigabyte});
  CHECK(read("Ring", "2", "10", "500").cluster.node.gpu_link == Bandwidth{10 * kGigabyte});
  // A message between units of the second dimension takes the third's links only.
  const ImportedTopology three = read("Switch, FullyConnected, Switch", "4, 2, 8", "200, 50, 25", "300, 700, 2000");
  CHECK(three.cluster.node.nic_latency == 700_ns);
  REQUIRE(three.cluster.tiers.size() == 2);
  CHECK(three.cluster.tiers[0].hop_latency == 3'300_ns);  // 2 x 2000 in all
  CHECK(three.cluster.tiers[0].oversubscription == 2);    // all 8 GPUs of a unit at once have 25 GB/s each
  CHECK(three.notes.back() ==
        "the links of a GPU in the dimensions above the second are taken as one NIC at the second's rate");
  // Hosts of a torus are its routers: a hop takes the latency once.
  const Cluster torus = read("Switch, Ring, Ring", "4, 2, 8", "200, 50, 50", "300, 700, 700").cluster;
  CHECK(torus.shape.dimensions == std::vector<int>{8, 2});  // the second dimension is numbered faster than the third
  CHECK(torus.fabric == FabricKind::torus);
  CHECK(torus.node.nic_latency == 0_ns);
  CHECK(torus.tiers[0].hop_latency == 700_ns);
  // Dimensions of one GPU have no links, and two GPUs of a ring or fully connected have one link.
  const ImportedTopology single =
      read("Switch, Ring, Switch, FullyConnected", "4, 1, 2, 1", "200, 1, 50, 1", "300, 1, 700, 1");
  CHECK(single.cluster.node.nic_rate == Bandwidth{50 * kGigabyte});
  CHECK(single.cluster.node.nic_latency == 1'400_ns);
  CHECK(single.cluster.tiers.size() == 1);
  // Four dimensions: a message across each takes (1 or 2) x latency, and has the rate of its dimension where all GPUs send.
  const Cluster four =
      read("FullyConnected, Switch, Ring, Switch", "4, 8, 2, 3", "200, 50, 40, 10", "1, 400, 900, 500").cluster;
  REQUIRE(four.tiers.size() == 3);
  CHECK(four.max_nodes == 48);
  CHECK(std::pair(four.tiers[0].nodes, four.tiers[1].nodes) == std::pair(8, 16));
  CHECK(four.node.nic_latency == 800_ns);
  CHECK(four.node.nic_latency + four.tiers[0].hop_latency == 900_ns);
  CHECK(four.node.nic_latency + four.tiers[0].hop_latency + four.tiers[1].hop_latency == 1_us);
  CHECK(four.node.nic_rate == Bandwidth{50 * kGigabyte});
  CHECK(50 / four.tiers[0].oversubscription == 40);
  CHECK(50 / four.tiers[0].oversubscription / four.tiers[1].oversubscription == 10);
}

TEST_CASE("astra-sim: links that one NIC and its tiers cannot stand for are refused", "[io][astra-sim]") {
  const auto refusal = [](const char* kinds, const char* counts, const char* rates, const char* latencies) {
    return sentence(import_as<ImportedTopology>(
        fmt::format("topology: [ {} ]\nnpus_count: [ {} ]\nbandwidth: [ {} ]\nlatency: [ {} ]\n", kinds, counts, rates,
                    latencies),
        "t", "astra-sim"));
  };
  // The network of three dimensions that ASTRA-sim documents.
  CHECK(refusal("Ring, FullyConnected, Switch", "2, 8, 4", "200.0, 100.0, 50.0", "50.0, 500.0, 2000.0") ==
        "t:1: topology = FullyConnected: a link of its own to each of 7 other nodes is not modelled outside of the "
        "first dimension (allowed: Switch)");
  CHECK(refusal("Switch, Ring, Switch", "8, 4, 2", "400, 50, 50", "1, 1, 1") ==
        "t:1: topology = Ring: a ring of 4 above or below another kind of dimension is not modelled (allowed: rings in "
        "all dimensions above the first)");
  CHECK(refusal("Switch, Switch, Switch", "8, 4, 2", "400, 25, 50", "1, 1, 1") ==
        "t:3: bandwidth = 50: is above 25 of the dimension below, whose NICs carry its traffic here (allowed: up to "
        "that)");
  CHECK(refusal("Switch, Switch, Switch", "8, 4, 2", "400, 50, 25", "300, 700, 500") ==
        "t:4: latency = 500: makes a message shorter than in the dimension below, of 1.40 us: tiers only add to it");
  CHECK(refusal("Ring, Ring, Ring", "4, 4, 4", "80, 80, 40", "500, 500, 500") ==
        "t:3: bandwidth = 40: differs from 80 of the second dimension: the links of a torus have one bandwidth");
  CHECK(refusal("Ring, Ring, Ring", "4, 4, 4", "80, 80, 80", "500, 500, 900") ==
        "t:4: latency = 900: differs from 500 of the second dimension: the links of a torus have one latency");
  CHECK(refusal("Ring, Ring, Ring, Ring, Ring, Ring, Ring, Ring, Ring", "1, 1, 1, 1, 1, 1, 1, 1, 2",
                "1, 1, 1, 1, 1, 1, 1, 1, 1",
                "1, 1, 1, 1, 1, 1, 1, 1, 1") == "t:1: topology = 9 entries: are more dimensions than 8");
  CHECK(refusal("Ring, Ring, Ring, Ring, Ring, Ring, Ring, Ring", "1, 1, 1, 1, 1, 1, 1, 2", "1, 1, 1, 1, 1, 1, 1, 1",
                "1, 1, 1, 1, 1, 1, 1, 1") == "");
}

TEST_CASE("astra-sim: networks become topologies, the rest is rejected with the reason", "[io][astra-sim]") {
  if (!have_samples()) return;
  const auto machine = [](const std::string& name) {
    const Result<ImportedTopology> read = import_as<ImportedTopology>(sample("astra-sim/" + name), name);
    if (!read) FAIL(to_string(read.error()));
    const Result<Cluster> again = read_topology_text(to_topology_json(*read, name), "t.json");
    if (!again) FAIL(to_string(again.error()));
    return read->cluster;
  };
  const Cluster hgx = machine("inputs__network__hgx_h100_16gpu.yml");
  CHECK(hgx.node.gpus == 8);
  CHECK(hgx.node.gpu_link == Bandwidth{400LL << 30});
  CHECK(hgx.node.nic_rate == Bandwidth{50LL << 30});
  CHECK(hgx.max_nodes == 2);
  CHECK(machine("network__analytical__HGX-H100-validated.yml").max_nodes == 1);
  CHECK(machine("network__analytical__Ring_16npus.yml").node.gpus == 16);
  CHECK(machine("inputs__network__tpu_v3_32_2dtorus.yml").fabric == FabricKind::torus);
  for (const char* file :
       {"inputs__system__analytical__hgx_h100_16gpu.json", "inputs__system__analytical__tpu_v3_32_2dtorus.json",
        "system__native_collectives__HGX-H100-validated.json", "system__native_collectives__Ring_4chunks.json"})
    CHECK(sentence(import_as<ImportedTopology>(sample(std::string("astra-sim/") + file), file)) ==
          std::string(file) +
              ": scheduling-policy: is of ASTRA-sim's system layer, which chooses algorithms of collectives; a "
              "topology comes "
              "from its network file (.yml)");
  CHECK(sentence(import_as<ImportedTopology>(sample("astra-sim/network__ns3__sample_16nodes_2D.json"), "d"))
            .starts_with("d: logical-dims"));
  CHECK(sentence(
            import_as<ImportedTopology>(sample("astra-sim/remote_memory__analytical__no_memory_expansion.json"), "m"))
            .starts_with("m: memory-type"));
  CHECK(sentence(import_as<ImportedTopology>("topology: [ Ring, Mesh ]\n", "t", "astra-sim")) ==
        "t:1: topology = Mesh: unknown kind of dimension (allowed: Ring FullyConnected Switch)");
  CHECK(sentence(import_as<ImportedTopology>("topology: [ Ring ]\nnpus_count: [4, 2]\nbandwidth: [1]\nlatency: [1]\n",
                                             "t", "astra-sim")) ==
        "t:2: npus_count = 2 entries: does not have one for each of the 1 dimensions");
}

TEST_CASE("astra-sim: a key that is given twice is refused", "[io][astra-sim][error]") {
  CHECK(sentence(import_as<ImportedTopology>(
            "topology: [ Ring ]\nnpus_count: [4]\nbandwidth: [1]\nlatency: [1]\nnpus_count: [8]\n", "t",
            "astra-sim")) == "t:5: npus_count: is given twice");
}

TEST_CASE("calculon: an application or an execution given as a scenario", "[io][calculon]") {
  const std::filesystem::path corpus = source_dir() / "tests/fuzz/corpus";
  const Result<Scenario> planned =
      read_any_scenario(corpus / "calculon-application.json", shipped_data(),
                        {"cluster.topology=dgx-h100", "cluster.world_size=64", "training.global_batch_size=128"});
  if (!planned) FAIL(to_string(planned.error()));
  CHECK(planned->model.num_layers == 24);
  CHECK(planned->model.hidden_size == 1024);
  CHECK(planned->training.seq_length == 2048);
  const Result<Scenario> asked = read_any_scenario(corpus / "calculon-application.json", shipped_data());
  REQUIRE_FALSE(asked);
  CHECK(to_string(asked.error())
            .ends_with(".json: does not say the machine, the number of GPUs: give --set cluster.topology=NAME --set "
                       "cluster.world_size=N (NAME: shipped, or a file)"));
  const Result<Scenario> run = read_any_scenario(
      corpus / "calculon-execution.json", shipped_data(),
      {"model=gpt3-175b", "model.vocab_size=51200", "cluster.topology=dgx-h100", "training.seq_length=2048"});
  if (!run) FAIL(to_string(run.error()));
  CHECK(run->model.num_layers == 96);
  CHECK(run->cluster.world_size > 1);
}

TEST_CASE("calculon: an application is a model, an execution its settings", "[io][calculon]") {
  if (!have_samples()) return;
  const Result<CalculonInput> gpt = read_calculon(sample("calculon/gpt3-175B.json"), "gpt");
  REQUIRE(gpt);
  REQUIRE(gpt->model);
  CHECK(gpt->model->hidden_size == 12288);
  CHECK(gpt->model->num_layers == 96);
  const Result<CalculonInput> run = read_calculon(sample("calculon/3072_t4_p64_d12_mbs4_full.json"), "run");
  REQUIRE(run);
  for (const char* setting : {"parallel.tp=4", "parallel.pp=64", "parallel.dp=12", "training.global_batch_size=3072",
                              "training.recompute=full", "parallel.sequence_parallel=true", "parallel.zero_stage=1"})
    CHECK(std::count(run->settings.begin(), run->settings.end(), setting) == 1);
  for (const char* file : {"a100_80g.json", "h100_80g_nvl8.json"})
    CHECK(sentence(read_calculon(sample(std::string("calculon/") + file), "s"))
              .starts_with("s: is a system of Calculon"));
  CHECK(sentence(read_calculon(sample("calculon/stats_gpt3-175B_3072procs.json"), "s")) ==
        "s: is a result of Calculon, not one of its inputs");
}

TEST_CASE("chakra: the exact duration of our own exports counts in JSON as well", "[io][chakra]") {
  const Result<ImportedGraph> read = import_as<ImportedGraph>(
      R"({"workload_graph": [{"id": 1, "type": 4, "duration_micros": 3,
          "attr": [{"name": "tracecast.duration_ps", "int64_val": "2500001"}]}]})",
      "f.json");
  if (!read) FAIL(to_string(read.error()));
  REQUIRE(read->nodes.size() == 1);
  CHECK(read->nodes[0].duration == Duration{2'500'001});
}

TEST_CASE("simai: a layout of more ranks than there can be is refused", "[io][simai][error]") {
  const std::string text =
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 65536 expert_parallel_npu_group: 65536 pp: 1\n1\n";
  CHECK(sentence(import_as<ImportedGraph>(text, "w.txt")) ==
        "w.txt:1: 'HYBRID_TRANSFORMER_FWD_IN_BCKWD' names a layout of more than 16777216 ranks: 65536 (tensor) x 1 "
        "(pipeline) x 65536 (experts)");
}
